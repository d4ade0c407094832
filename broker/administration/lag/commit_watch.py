"""The committed offsets of the groups coordinated here, sampled every five seconds: how fast do they move?

Samples are kept for a minute, and only where an offset moved. Commits know nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final, Protocol

from sordini.broker.administration.lag.offset_history import NO_ADVANCE, WINDOW_MS, Advance, OffsetHistory
from sordini.broker.groups.any_group import AnyGroup
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition

SAMPLE_INTERVAL_MS: Final = 5_000
SAMPLES_MAX: Final = WINDOW_MS // SAMPLE_INTERVAL_MS + 2
"""Those of a minute, and the one before."""
WATCHED_MAX: Final = 200_000
"""Committed offsets that are watched, about 500 bytes each where they move; of others there is no rate."""
OFFSETS_PER_SLICE: Final = 500


class GroupOffsets(Protocol):
    """The groups that this broker coordinates."""

    def groups(self) -> Iterable[AnyGroup]:
        """All groups now."""

    def offsets(self, group_id: str) -> OffsetTable:
        """The committed offsets of a group. Raises BrokerError when it is not coordinated here any more."""


class _Watched:
    """One committed offset; most do not move, and have no history."""

    __slots__ = ("history", "offset", "since_ms")

    def __init__(self, offset: int, since_ms: int) -> None:
        self.offset = offset
        self.since_ms = since_ms
        self.history: OffsetHistory | None = None

    def move(self, offset: int, now_ms: int) -> None:
        if self.history is None:
            self.history = OffsetHistory(SAMPLES_MAX)
            self.history.add(self.since_ms, self.offset)
        self.history.add(now_ms, offset)  # After a reset to an earlier one this is its first sample.
        self.history.forget_before(now_ms - WINDOW_MS)
        self.offset = offset

    def advance(self, offset: int, now_ms: int) -> Advance:
        if self.history is not None:
            return self.history.advance(offset, now_ms)
        window_ms = min(WINDOW_MS, now_ms - self.since_ms)
        return Advance(max(0, offset - self.offset), window_ms) if window_ms > 0 else NO_ADVANCE


class CommitWatch:
    """How fast committed offsets advance. Times are monotonic (ms)."""

    def __init__(self, groups: GroupOffsets) -> None:
        self._groups = groups
        self._watched: dict[str, dict[TopicPartition, _Watched]] = {}
        self._due_ms = 0

    async def sample_if_due(self, now_ms: int) -> None:
        """Take samples of the offsets that moved, every five seconds; never concurrently."""
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + SAMPLE_INTERVAL_MS
        before = self._watched
        watched: dict[str, dict[TopicPartition, _Watched]] = {}
        left, done = WATCHED_MAX, 0
        for group in list(self._groups.groups()):
            try:
                table = self._groups.offsets(group.group_id)
            except BrokerError:
                continue  # It has another coordinator now.
            if not len(table) or left < len(table):
                continue
            left -= len(table)
            known, kept = before.get(group.group_id, {}), {}
            for name, committed in list(table.items()):
                done += 1
                if done % OFFSETS_PER_SLICE == 0:
                    await asyncio.sleep(0)
                found = known.get(name)
                if found is None:
                    found = _Watched(committed.offset, now_ms)
                elif found.offset != committed.offset:
                    found.move(committed.offset, now_ms)
                kept[name] = found
            watched[group.group_id] = kept
        self._watched = watched

    def advance(self, group_id: str, name: TopicPartition, offset: int, now_ms: int) -> Advance:
        """By how many offsets the committed one rose in the last minute, or since a reset to an earlier one."""
        found = self._watched.get(group_id, {}).get(name)
        return NO_ADVANCE if found is None else found.advance(offset, now_ms)
