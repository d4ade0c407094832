"""Which operating systems Sordini runs on. It imports nothing that one of the others lacks."""

from __future__ import annotations

import sys
from typing import Final

REFUSAL: Final = "Sordini runs on Linux and macOS; on Windows, use it inside WSL2 or in a container"


class UnsupportedSystem(ImportError):
    """The operating system lacks what Sordini is built on."""


def check_system() -> None:
    """Raise UnsupportedSystem. For packages whose modules import what only POSIX has."""
    if sys.platform == "win32":
        raise UnsupportedSystem(REFUSAL)
