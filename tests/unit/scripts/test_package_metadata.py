"""What the package's metadata says depends on where the repository is published: links of README, addresses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.dist import address_of
from scripts.package_metadata import for_an_index, urls

ROOT = Path(__file__).resolve().parents[3]
REPOSITORY = "https://forge.example/owner/sordini"
RELATIVE = re.compile(r"\]\((?!https://)[^)]*\)")


def test_links_of_readme_point_at_the_files_of_this_version_and_images_at_their_bytes() -> None:
    text = "![a test](docs/a.svg) [x](docs/x.md#part), [here](#run) and [there](https://example.org/y)."
    assert for_an_index(text, REPOSITORY, "1.2.3") == (
        f"![a test]({REPOSITORY}/raw/v1.2.3/docs/a.svg) [x]({REPOSITORY}/blob/v1.2.3/docs/x.md#part), "
        "here and [there](https://example.org/y)."
    )


def test_without_an_address_words_are_kept_and_nothing_is_linked() -> None:
    text = "![a test](docs/a.svg)See [x.md](docs/x.md), [there](https://example.org/y)."
    assert for_an_index(text, None, "1.2.3") == "See x.md, [there](https://example.org/y)."


@pytest.mark.parametrize("repository", [REPOSITORY, None])
def test_no_link_of_readme_itself_is_left_relative(repository: str | None) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert RELATIVE.search(readme) is not None
    assert RELATIVE.search(for_an_index(readme, repository, "1.2.3")) is None


def test_every_file_that_the_metadata_links_to_is_there() -> None:
    readme = for_an_index((ROOT / "README.md").read_text(encoding="utf-8"), REPOSITORY, "1.2.3")
    linked = re.findall(rf"{REPOSITORY}/(?:raw|blob)/v1\.2\.3/([^)#]+)", readme)
    linked += [address.partition("/blob/HEAD/")[2] for address in urls(REPOSITORY).values() if "/blob/" in address]
    assert len(linked) > 15
    assert [path for path in linked if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://forge.example/owner/sordini.git", REPOSITORY),
        ("https://user:secret@forge.example/owner/sordini/", REPOSITORY),
        ("git@forge.example:owner/sordini.git", REPOSITORY),
        ("ssh://git@forge.example:2222/owner/sordini.git", REPOSITORY),
        ("/srv/git/sordini.git", None),
        ("../sordini", None),
        ("file:///srv/git/sordini", None),
        ("http://127.0.0.1:3000/owner/sordini", None),
        ("", None),
    ],
)
def test_the_address_of_the_repository_is_the_page_of_its_remote_without_credentials(
    remote: str, address: str | None
) -> None:
    assert address_of(remote) == address
