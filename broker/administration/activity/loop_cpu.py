"""How much CPU time the event loop's thread has used over the last minute, from samples. Pure: both times come in."""

from __future__ import annotations

from collections import deque
from typing import Final

from sordini.system.named_tuple import NamedTuple

WINDOW_MS: Final = 60_000
SAMPLES_MAX: Final = 61
"""One a second."""


class CpuUse(NamedTuple):
    """CPU time within a window, both in ms; a window of 0 says that nothing is known."""

    cpu_ms: int
    window_ms: int


class LoopCpu:
    """The samples of one thread."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque(maxlen=SAMPLES_MAX)

    def sample(self, now_ms: int, cpu_ms: int) -> None:
        """`now_ms` by the monotonic clock; `cpu_ms` is the thread's since it began."""
        self._samples.append((now_ms, cpu_ms))

    def use(self, now_ms: int, cpu_ms: int) -> CpuUse:
        """From the oldest sample within the window until now."""
        while self._samples and now_ms - self._samples[0][0] > WINDOW_MS:
            self._samples.popleft()
        if not self._samples:
            return CpuUse(0, 0)
        since_ms, used_ms = self._samples[0]
        return CpuUse(max(cpu_ms - used_ms, 0), now_ms - since_ms)
