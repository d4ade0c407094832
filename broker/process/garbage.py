"""When Python's garbage collector runs in a broker's process.

Objects are freed by their reference counts; the collector only finds cycles, and each of its full passes reads every
object that it tracks. What the start makes - modules, then logs, partitions and metadata - stays: it is tracked no more
once the broker is ready. During the start few passes run: with 10,000 partitions the usual ones took a fifth of its
CPU time, and one full pass later on would stop the loop for 100 ms. What is deleted while the broker runs must
therefore be free of cycles: `LogState.close_without_flush` breaks the one between a log and its partition.
"""

from __future__ import annotations

import gc
from typing import Final

OBJECTS_PER_PASS: Final = 100_000
"""New objects between two passes of the start; a pass reads only these."""


def begin_start() -> tuple[int, int, int]:
    """All modules are imported: track them no more, and collect rarely. `end_start` gets what this returns."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_PER_PASS, *usual[1:])
    return usual


def end_start(usual: tuple[int, int, int]) -> None:
    """The broker is ready: track nothing that was made so far, and collect as usual."""
    gc.freeze()
    gc.set_threshold(*usual)
