"""When Python's garbage collector runs in a broker's process.

Objects are freed by their reference counts; the collector only finds cycles, and each of its full passes reads every
object that it tracks. What the start makes - modules, then logs, partitions and metadata - stays: it is tracked no more
once the broker is ready. During the start few passes run: with 10,000 partitions the usual ones took a fifth of its
CPU time, and one full pass later on would stop the loop for 100 ms. What is deleted while the broker runs must
therefore be free of cycles: `LogState.close_without_flush` breaks the one between a log and its partition.

Partitions that are made later are tracked, and each full pass reads all of them: 5,000 took 94 ms of CPU time, again
and again. So what is left after a pass that took long is tracked no more, either. A later cycle through such objects is
never freed: these are few, as a pass takes long only when tens of thousands of objects were made to stay.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any, Final

from sordini.system.clock import thread_ns

OBJECTS_PER_PASS: Final = 100_000
"""New objects between two passes of the start; a pass reads only these."""

LONG_PASS_NS: Final = 10_000_000
"""CPU time of a full pass after which what it has read is tracked no more; one that takes less does no harm."""
FULL: Final = 2
"""The generation of a full pass."""
FREEZES_MAX: Final = 16
"""Long passes of one process after which that is done; later ones stay long. So few cycles are never freed."""


class FreezeAfterLongPasses:
    """One of `gc.callbacks`."""

    def __init__(self, cpu_ns: Callable[[], int]) -> None:
        self._cpu_ns = cpu_ns
        self._began_ns = 0
        self._freezes = 0

    def __call__(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != FULL:
            return
        if phase == "start":
            self._began_ns = self._cpu_ns()
        elif self._freezes < FREEZES_MAX and self._cpu_ns() - self._began_ns >= LONG_PASS_NS:
            self._freezes += 1
            gc.freeze()


def begin_start() -> tuple[int, int, int]:
    """All modules are imported: track them no more, and collect rarely. `end_start` gets what this returns."""
    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()
    # The usual passes over the growing graph of logs were a fifth of a start's CPU with 10,000 partitions.
    gc.set_threshold(OBJECTS_PER_PASS, *usual[1:])
    return usual


def end_start(usual: tuple[int, int, int]) -> None:
    """The broker is ready: track nothing that was made so far, and collect as usual, in short passes."""
    gc.freeze()  # A full pass over 10,000 partitions would stop the loop for 100 ms.
    gc.collect()  # A full pass comes when a quarter as many objects are new as the last one left: now it left none.
    gc.set_threshold(*usual)  # While serving, other thresholds were tried and brought nothing.
    gc.callbacks.append(FreezeAfterLongPasses(thread_ns))
