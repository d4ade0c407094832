"""Write the pages that are made from the code: `python -m tests.reference`."""

from tests.reference.pages import PAGES, ROOT

for path, page in PAGES.items():
    (ROOT / path).write_text(page(), encoding="utf-8")
    print(path)  # noqa: T201
