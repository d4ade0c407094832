"""What a partition is given: the settings of its topic, and what its leader needs from the rest of the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sordini.protocol.records.produce_validation import ProduceRules
from sordini.protocol.types import BrokerId
from sordini.storage.log_config import LogConfig
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.replication.ports import IsrChanges
    from sordini.replication.state_change_log import IsrChangeLog

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
NO_EPOCH = -1


class PartitionSettings(NamedTuple):
    """A topic's configuration, as its partitions apply it."""

    log: LogConfig
    rules: ProduceRules
    min_insync_replicas: int
    down_conversion: bool


class IsrChangeCounts:
    """How often the in-sync set of a led partition has changed since the start, for metrics."""

    def __init__(self) -> None:
        self.expansions = 0
        self.shrinks = 0

    def changed(self, former: tuple[BrokerId, ...], now: tuple[BrokerId, ...]) -> None:
        """Count a change; one in which replicas join and leave is both."""
        self.expansions += not set(now) <= set(former)
        self.shrinks += not set(former) <= set(now)


class Peers(NamedTuple):
    """What a leader needs to judge its followers and to change the in-sync set."""

    changes: IsrChanges | None = None
    """Where changes of the in-sync set are requested; None on a broker without peers."""
    may_join: Callable[[BrokerId], bool] = lambda _: True
    """Whether a broker is registered, so that it may be proposed for the in-sync set."""
    lag_ms_max: int = 30_000
    """`replica.lag.time.max.ms`"""
    log: IsrChangeLog | None = None
    """Where changes of in-sync sets are logged."""
    counts: IsrChangeCounts | None = None
    """Where they are counted."""


NO_PEERS = Peers()
