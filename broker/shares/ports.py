"""What share partitions need of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sordini.broker.shares.machine.share_partition import ShareLimits
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


class StartLookup(Protocol):
    """Where a group begins to read a partition, by share.auto.offset.reset."""

    def find(self, group_id: str, partition: Partition, on_found: OnStart) -> None:
        """Calls `on_found` once with an offset or why there is none; perhaps before it returns."""
