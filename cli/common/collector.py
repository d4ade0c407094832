"""When Python's garbage collector begins in a process that is one command.

`cli/entry.py` stops it first thing: imports make hundreds of thousands of objects that all stay, and its passes read
them again and again, 40 ms of a broker's start. It goes on once the modules of the command are imported, and does not
read those any more.
"""

from __future__ import annotations

import gc


def collect_again() -> None:
    """The modules are imported. Nothing happens in a process whose collector was not stopped, such as a test's."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()
