"""Ctrl-C before a command begins, and after it ended: the process ends at once, with the exit code of an interruption.

Python's own handler raises KeyboardInterrupt, and in an import or at the end of the interpreter that is a traceback.
Nothing that needs an orderly end is under way then. To import this module begins it: see `cli.__main__`.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from types import FrameType

INTERRUPTED = 130
"""The exit code after Ctrl-C; `cli.options` has the table, and is not imported for this."""


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)


def exit_on_interrupt() -> None:
    """From now on Ctrl-C ends the process; nothing changes where it is ignored, or another handler has it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # Only the main thread may, and only that one is interrupted.
            signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """From now on Ctrl-C raises KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


exit_on_interrupt()
