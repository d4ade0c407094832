"""What share partitions need of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.shares.machine.share_partition import DeadLetters, ShareLimits
from sordini.protocol.errors import ErrorCode
from sordini.replication.partition import Partition
from sordini.system.named_tuple import NamedTuple


class ShareSettings(NamedTuple):
    """A group's settings, as they are now."""

    limits: ShareLimits
    is_committed_only: bool
    """share.isolation.level"""
    renews: bool
    """share.renew.acknowledge.enable"""


SettingsOf = Callable[[str], ShareSettings]
"""By group id."""

OnStart = Callable[[int | ErrorCode], None]


OnWritten = Callable[[Sequence[DeadLetters]], None]


class DeadLetterQueues(Protocol):
    """Where dead letters wait until they are written: `DeadLetterWriter`."""

    def add(
        self, key: SharePartitionKey, partition: Partition, letters: Sequence[DeadLetters], on_written: OnWritten
    ) -> None:
        """Write dead letters of records of `partition`.

        `on_written` is called later, perhaps for some of them at a time, when they are committed or the group has no
        dead letters any more; and never after `drop`.
        """

    def drop(self, key: SharePartitionKey) -> None:
        """The share partition has ended here: the next leader writes what is left."""


class StartLookup(Protocol):
    """Where a group begins to read a partition, by share.auto.offset.reset."""

    def find(self, group_id: str, partition: Partition, on_found: OnStart) -> None:
        """Calls `on_found` once with an offset or why there is none; perhaps before it returns."""
