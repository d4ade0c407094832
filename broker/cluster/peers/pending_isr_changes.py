"""Proposals of in-sync sets whose verdict is pending: the newest of each partition, requested until there is one."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from sordini.protocol.types import TopicId, TopicPartition
from sordini.replication.leader import IsrProposal
from sordini.replication.ports import IsrGrant, IsrRefusal, Spawn
from sordini.system.named_tuple import NamedTuple

Answered = Callable[[IsrGrant | IsrRefusal], None]


class IsrChange(NamedTuple):
    """A proposal whose verdict is pending."""

    topic_partition: TopicPartition
    topic_id: TopicId
    proposal: IsrProposal
    answered: Answered


class PendingIsrChanges(ABC):
    """The changes of one broker's partitions; one request for some of them is in progress. Implements `IsrChanges`."""

    def __init__(self, spawn: Spawn, retry_pause_ms: int, at_once: int) -> None:
        """`at_once` changes at most go into one request."""
        self._spawn = spawn
        self._retry_pause_ms = retry_pause_ms
        self._at_once = at_once
        self._pending: dict[TopicPartition, IsrChange] = {}
        self._is_requesting = False

    @abstractmethod
    async def _request(self, changes: list[IsrChange]) -> bool:
        """Whether there is a verdict on each of these changes."""

    @property
    def pending_count(self) -> int:
        """Changes without a verdict."""
        return len(self._pending)

    def propose(
        self, topic_partition: TopicPartition, topic_id: TopicId, proposal: IsrProposal, answered: Answered
    ) -> None:
        """Request a change, in place of a pending one for the same partition."""
        # Removed first, so that the change that has waited the longest comes first.
        self._pending.pop(topic_partition, None)
        self._pending[topic_partition] = IsrChange(topic_partition, topic_id, proposal, answered)
        if not self._is_requesting:
            self._is_requesting = True
            self._spawn(self._request_all())

    def withdraw(self, topic_partition: TopicPartition) -> None:
        """Drop a proposal. A request in progress may still take effect."""
        self._pending.pop(topic_partition, None)

    def _is_pending(self, change: IsrChange) -> bool:
        """Whether the change was neither replaced nor withdrawn."""
        return self._pending.get(change.topic_partition) is change

    def _take(self, change: IsrChange) -> bool:
        """There is a verdict: the change is pending no more. Whether it was."""
        if not self._is_pending(change):
            return False
        del self._pending[change.topic_partition]
        return True

    def close(self) -> None:
        """Drop all proposals."""
        self._pending.clear()

    async def _request_all(self) -> None:
        try:
            while self._pending:
                if not await self._request(list(self._pending.values())[: self._at_once]):
                    await asyncio.sleep(self._retry_pause_ms / 1000)
        finally:
            self._is_requesting = False
