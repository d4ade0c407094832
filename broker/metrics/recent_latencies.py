"""Quantiles of the durations of the last minutes, for names that other exporters have as gauges.

Apache Kafka's request timers weigh the last five minutes. Here counts are copied at scrapes, at most once a minute, and
what is older than five copies is not counted. A quantile lies within the bucket of a power of two, where it is
interpolated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from sordini.broker.metrics.latency import KEYS, Latencies

COPIES_MAX: Final = 5
COPY_MS_MIN: Final = 60_000
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class RecentLatencies:
    """Counts of the last minutes, of all APIs."""

    def __init__(self) -> None:
        self._copies: deque[list[list[int]]] = deque(maxlen=COPIES_MAX)
        self._copied_ms = 0

    def quantiles(self, latencies: Latencies, now_ms: int) -> Iterator[tuple[int, list[float]]]:
        """The key's number and its QUANTILES in milliseconds, for each API with recent requests."""
        if not self._copies or now_ms - self._copied_ms >= COPY_MS_MIN:
            first = [[0] * len(counts) for counts in latencies.counts] if not self._copies else None
            self._copies.append(first or [list(counts) for counts in latencies.counts])
            self._copied_ms = now_ms
        oldest = self._copies[0]
        for key in range(KEYS):
            now = latencies.counts[key]
            if now != oldest[key]:
                recent = [count - before for count, before in zip(now, oldest[key], strict=True)]
                yield key, [_quantile(recent, share) for share in QUANTILES]


def _quantile(counts: Sequence[int], share: float) -> float:
    """In milliseconds; `counts` are by number of bits of the nanoseconds, and not all 0."""
    wanted, below = sum(counts) * share, 0
    for bits, count in enumerate(counts):
        if count and below + count >= wanted:
            low, high = (1 << bits) >> 1, 1 << bits
            return (low + (high - low) * (wanted - below) / count) / 1e6
        below += count
    raise AssertionError("no count")
