"""What libraries of schemas load without need, for processes that only parse and decode."""

from __future__ import annotations

import sys
from typing import Final

UNUSED: Final = ("rfc3987_syntax",)
"""Of formats: jsonschema imports it where it is installed, which takes a second of processor time, and no format is
checked here."""


def leave_out_unused() -> None:
    """Let imports of these fail in this process, as if they were not installed."""
    for name in UNUSED:
        sys.modules[name] = None  # type: ignore[assignment] # So an import raises ImportError.
