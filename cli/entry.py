"""Where the installed command `sordini` begins; `cli/common/collector.py` says why the collector is stopped."""

from __future__ import annotations

import gc

gc.disable()

# isort: split
from sordini.cli.__main__ import main  # noqa: E402 - behind that, and only here: a test imports `cli.__main__`.


def run() -> None:
    """Run the command of this process."""
    main()
