"""Rates from several snapshots at the same readers, where the brokers know none. Pure.

Brokers of Apache Kafka do not say how fast offsets advance, and readers without a group have no coordinator. A program
that takes snapshots again and again (`--watch`, a console) hands each to `MeasuredRates`, and gets it back with the
rates of the last minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from sordini.client.lag.model import GroupLag, PartitionLag
from sordini.client.lag.outlook import Rate
from sordini.client.lag.reading import with_rates
from sordini.system.named_tuple import NamedTuple

WINDOW_MS: Final = 60_000
SAMPLES_MAX: Final = 32
"""Of one partition of one reader; snapshots that come faster are taken for rates every two seconds only."""
SPACING_MS: Final = WINDOW_MS // (SAMPLES_MAX - 2)


class _Sample(NamedTuple):
    at_ms: int
    committed: int | None
    end: int | None


class MeasuredRates:
    """The samples of the last minute. One object for one cluster; forgets partitions that a snapshot does not have."""

    def __init__(self) -> None:
        self._samples: dict[tuple[str, str, int], deque[_Sample]] = {}

    def add(self, groups: Sequence[GroupLag], now_ms: int) -> list[GroupLag]:
        """The snapshot of a monotonic time, with rates where there were none."""
        before, self._samples = self._samples, {}
        return [
            group._replace(
                partitions=tuple(self._with_rates(group.name, row, now_ms, before) for row in group.partitions)
            )
            for group in groups
        ]

    def _with_rates(
        self, name: str, row: PartitionLag, now_ms: int, before: dict[tuple[str, str, int], deque[_Sample]]
    ) -> PartitionLag:
        key = name, row.topic, row.partition
        samples = self._samples[key] = before.get(key, deque())
        newest = _Sample(now_ms, row.committed, row.end)
        oldest = samples[0] if samples else newest
        if not samples or now_ms - samples[-1].at_ms >= SPACING_MS:
            samples.append(newest)
        while len(samples) > 1 and now_ms - samples[1].at_ms >= WINDOW_MS:
            samples.popleft()
        rate_in = row.rate_in or _rate(oldest.end, newest.end, now_ms - oldest.at_ms)
        rate_out = row.rate_out or _rate(oldest.committed, newest.committed, now_ms - oldest.at_ms)
        if newest.committed is not None and oldest.committed is not None and newest.committed < oldest.committed:
            samples.clear()  # The group was reset: its rate is measured from here on.
            samples.append(newest)
        if rate_in is row.rate_in and rate_out is row.rate_out:
            return row
        return with_rates(row, rate_in, rate_out)


def _rate(before: int | None, now: int | None, elapsed_ms: int) -> Rate | None:
    if before is None or now is None or elapsed_ms <= 0 or now < before:
        return None
    return Rate((now - before) * 1000 / elapsed_ms, elapsed_ms / 1000)
