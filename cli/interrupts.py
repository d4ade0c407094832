"""Ctrl-C before a command begins and after it has ended: the process exits at once with exit code 130.

Python's default handler raises KeyboardInterrupt, which prints a traceback during imports and interpreter shutdown.
Nothing needs cleaning up at that time. Importing this module installs the handler: see `cli.__main__`.
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
    """Let Ctrl-C exit the process from now on, unless SIGINT is ignored or has another handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with suppress(ValueError):  # Only the main thread may set handlers, and only it is interrupted.
            signal.signal(signal.SIGINT, _leave)


def raise_on_interrupt() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


exit_on_interrupt()
