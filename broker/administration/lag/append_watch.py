"""The log ends of the partitions on this broker, sampled once a second: when was an offset appended?

A round compares one number for each partition; only where it changed a sample is kept, so idle partitions cost nothing
else. Appends know nothing of it. Samples of a follower bound the age from below only (`OffsetHistory`), so that a new
leader can say "at least"; a truncation, and a new log of the same name, forget everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from sordini.broker.administration.lag.offset_history import NO_ADVANCE, UNKNOWN_AGE, Advance, AgeBounds, OffsetHistory
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition
from sordini.storage.log import Log

PARTITIONS_PER_SLICE: Final = 500
"""A tenth of a millisecond."""


class _Watched:
    """One partition, as it was when it last changed."""

    __slots__ = ("end", "history", "leader_epoch", "leads", "log", "truncations")

    def __init__(self, partition: Partition, now_ms: int) -> None:
        self.log: Log = partition.log
        self.history = OffsetHistory()
        self._take(partition, now_ms)

    def changed(self, partition: Partition, now_ms: int, checked_ms: int) -> None:
        """Until `checked_ms`, the round before, it was as noted."""
        if self.truncations != partition.log.truncations:
            self.history.clear()
        elif self.leads and self.leader_epoch == partition.leader_epoch:
            self.history.add(checked_ms, self.end)
        self._take(partition, now_ms)

    def _take(self, partition: Partition, now_ms: int) -> None:
        self.end = partition.log.log_end_offset
        self.leader_epoch = partition.leader_epoch
        self.truncations = partition.log.truncations
        self.leads = partition.leader is not None
        self.history.add(now_ms, self.end, bounds_later=self.leads)


class AppendWatch:
    """When offsets were appended, as far as this broker has seen it. Times are monotonic (ms)."""

    def __init__(self, partitions: Iterable[Partition]) -> None:
        self._partitions = partitions
        self._watched: dict[TopicPartition, _Watched] = {}
        self._checked_ms: int | None = None
        """When the last whole round of samples began."""

    async def sample(self, now_ms: int) -> None:
        """Take a sample of each log end that moved: due once a second, never concurrently."""
        watched, checked_ms = self._watched, now_ms if self._checked_ms is None else self._checked_ms
        seen = 0
        for partition in self._partitions:
            seen += 1
            if seen % PARTITIONS_PER_SLICE == 0:
                await asyncio.sleep(0)
            found, log = watched.get(partition.name), partition.log
            if found is None or found.log is not log:
                watched[partition.name] = _Watched(partition, now_ms)
            elif (
                found.end != log.log_end_offset
                or found.leader_epoch != partition.leader_epoch
                or found.truncations != log.truncations
            ):
                found.changed(partition, now_ms, checked_ms)
        if len(watched) > seen:
            names = {partition.name for partition in self._partitions}
            self._watched = {name: found for name, found in watched.items() if name in names}
        self._checked_ms = now_ms

    def age_of(self, partition: Partition, offset: int, now_ms: int) -> AgeBounds:
        """How long ago a record that this broker has was appended to the leader's log."""
        found = self._current(partition)
        if found is None:
            return UNKNOWN_AGE
        steady = self._checked_ms if found.leads and found.leader_epoch == partition.leader_epoch else None
        return found.history.age_of(offset, now_ms, steady)

    def is_older_than_watch(self, partition: Partition, offset: int) -> bool:
        """Whether a record was there at the first sample."""
        found = self._current(partition)
        return found is None or found.history.is_before(offset)

    def advance(self, partition: Partition, now_ms: int) -> Advance:
        """How many offsets were appended in the last minute."""
        found = self._current(partition)
        return NO_ADVANCE if found is None else found.history.advance(partition.log.log_end_offset, now_ms)

    def _current(self, partition: Partition) -> _Watched | None:
        found = self._watched.get(partition.name)
        is_current = found is not None and found.log is partition.log and found.truncations == partition.log.truncations
        return found if is_current else None
