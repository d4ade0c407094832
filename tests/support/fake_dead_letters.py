"""Where the dead letters of a test wait until it says that they are written."""

from __future__ import annotations

from collections.abc import Sequence

from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.shares.machine.share_partition import DeadLetters
from sordini.broker.shares.ports import OnWritten
from sordini.replication.partition import Partition


class FakeDeadLetters:
    """The queues, by share partition."""

    def __init__(self) -> None:
        self.waiting: dict[SharePartitionKey, list[DeadLetters]] = {}
        self.added: list[DeadLetters] = []
        """All that ever were."""
        self.dropped: list[SharePartitionKey] = []
        self._on_written: dict[SharePartitionKey, OnWritten] = {}

    def add(
        self, key: SharePartitionKey, partition: Partition, letters: Sequence[DeadLetters], on_written: OnWritten
    ) -> None:
        assert partition.leader is not None
        self.waiting.setdefault(key, []).extend(letters)
        self.added += letters
        self._on_written.setdefault(key, on_written)  # As `DeadLetterWriter`: a queue has that of its first letters.

    def drop(self, key: SharePartitionKey) -> None:
        self.waiting.pop(key, None)
        self._on_written.pop(key, None)
        self.dropped.append(key)

    def write(self) -> None:
        """All that wait are written."""
        for key in list(self.waiting):
            self._on_written.pop(key)(self.waiting.pop(key))
