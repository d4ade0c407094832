"""`python without_linux.py serve ...`: the command `sordini` in a Python that has nothing which only Linux has.

With `SORDINI_PORTABLE=1` the portable ways are forced; here the others are gone, so one that is used all the same is an
error: the names of `tests/test_tidy.py`, epoll, the C library behind `ctypes`, and every path below /proc.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import select
import signal
import socket
import sys
from typing import Any

KEPT = frozenset({"RLIMIT_NOFILE", "TCP_KEEPIDLE", "SO_REUSEPORT"})
"""Other systems have them, too, or one of the same meaning."""


def no_library(*_: Any, **__: Any) -> Any:
    raise OSError("a function of the C library was asked for")


def remove_linux(names: frozenset[str]) -> list[str]:
    """Remove what other systems lack from this process; the names that were there."""
    removed = []
    for module in (os, signal, resource, fcntl, select, socket):
        for name in sorted(names - KEPT):
            if hasattr(module, name):
                delattr(module, name)
                removed.append(name)
    ctypes.CDLL = no_library  # type: ignore[assignment, misc]
    opened = os.open

    def open_outside_proc(path: Any, *others: Any, **named: Any) -> int:
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return opened(path, *others, **named)

    os.open = open_outside_proc
    return removed


def main() -> None:
    os.environ["SORDINI_PORTABLE"] = "1"
    names = frozenset(os.environ["REMOVED_NAMES"].split(","))
    removed = remove_linux(names)
    assert {"sendfile", "epoll", "sigtimedwait", "RWF_NOWAIT", "MSG_MORE"} <= set(removed), removed
    from sordini.cli.__main__ import main as sordini

    sys.argv[0] = "sordini"
    sordini()


if __name__ == "__main__":
    main()
