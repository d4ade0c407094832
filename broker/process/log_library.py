"""structlog, imported without the libraries that it takes for colours and tracebacks where they happen to be installed.

rich alone is as much again as all that a start imports otherwise, and our lines have plain tracebacks. The processes of
commands import structlog this way; in the process of a test it is the test's, and stays as it is.
"""

from __future__ import annotations

import sys
from typing import Any, Final

EXTRAS: Final = ("rich", "better_exceptions", "colorama", "twisted")


def import_without_extras() -> None:
    """Import structlog, unless it is there already; the extras can be imported as ever behind it."""
    if "structlog" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    hidden = [name for name in EXTRAS if name not in modules]
    modules.update(dict.fromkeys(hidden))  # As the import system has it, None: it raises ImportError.
    try:
        import structlog  # noqa: F401 - it stays in sys.modules.
    finally:
        for name in hidden:
            del modules[name]
