"""Requests of a group to the share coordinator, each for many partitions: they are made a few at a time, and collected.

They are begun in a later iteration of the loop than the call, since callers are called when records are committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from sordini.broker.groups.share.machine.state import Partitions
from sordini.broker.share_state.ports import GroupStates, SharePartitionKey, StateSummary
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset, TopicId
from sordini.replication.ports import Spawn

REQUESTS_PER_SLICE: Final = 100
"""Begun before the loop serves other requests."""

T = TypeVar("T")
OnResults = Callable[[Mapping[tuple[TopicId, int], T]], None]
OnErrors = OnResults[ErrorCode]
"""The code of every partition."""


class StateRequests:
    """Called back exactly once each, after the call has returned."""

    def __init__(self, persister: GroupStates, spawn: Spawn) -> None:
        self._persister = persister
        self._spawn = spawn

    def initialize(
        self,
        group_id: str,
        state_epoch: int,
        starts: Mapping[tuple[TopicId, int], Offset | None],
        on_done: OnErrors,
    ) -> None:
        """Begin with partitions, or set their start offsets."""

        def begin(key: SharePartitionKey, done: Callable[[ErrorCode], None]) -> None:
            self._persister.initialize(key, state_epoch, starts[key.topic_id, key.partition], done)

        self._each(group_id, list(starts), begin, on_done)

    def delete(self, group_id: str, partitions: Partitions, on_done: OnErrors) -> None:
        """Delete states; that there are none is no error."""
        self._each(group_id, pairs(partitions), self._persister.delete, on_done)

    def summarize(
        self, group_id: str, partitions: Sequence[tuple[TopicId, int]], on_done: OnResults[StateSummary]
    ) -> None:
        """Read what is stored."""
        self._each(group_id, partitions, self._persister.summarize, on_done)

    def _each(
        self,
        group_id: str,
        partitions: Sequence[tuple[TopicId, int]],
        begin: Callable[[SharePartitionKey, Callable[[T], None]], None],
        on_done: OnResults[T],
    ) -> None:
        self._spawn(self._begin_each(group_id, dict.fromkeys(partitions), begin, on_done))

    async def _begin_each(
        self,
        group_id: str,
        partitions: Mapping[tuple[TopicId, int], None],
        begin: Callable[[SharePartitionKey, Callable[[T], None]], None],
        on_done: OnResults[T],
    ) -> None:
        results: dict[tuple[TopicId, int], T] = {}
        is_complete = asyncio.Event()

        def done(partition: tuple[TopicId, int], result: T) -> None:
            results[partition] = result
            if len(results) == len(partitions):
                is_complete.set()

        for number, partition in enumerate(partitions):
            if number % REQUESTS_PER_SLICE == 0:
                await asyncio.sleep(0)
            begin(SharePartitionKey(group_id, *partition), lambda result, partition=partition: done(partition, result))  # type: ignore[misc]
        if partitions:
            await is_complete.wait()
            await asyncio.sleep(0)  # The last result may be reported where records are committed.
        on_done(results)


def pairs(partitions: Partitions) -> list[tuple[TopicId, int]]:
    """Topic and partition, one by one."""
    return [(topic_id, index) for topic_id, indexes in partitions.items() for index in sorted(indexes)]
