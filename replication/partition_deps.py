"""What a partition is told and given: its settings, and what it must know of its peers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sordini.protocol.records.produce_validation import ProduceRules
from sordini.protocol.types import BrokerId
from sordini.replication.purgatory import DelayedOperation
from sordini.storage.log_config import LogConfig

if TYPE_CHECKING:
    from sordini.replication.ports import IsrChanges

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})
NO_EPOCH = -1


class PartitionSettings(NamedTuple):
    """What a topic's configuration means for each of its partitions."""

    log: LogConfig
    rules: ProduceRules
    min_insync_replicas: int
    down_conversion: bool


class Peers(NamedTuple):
    """What a partition must know of the rest of the cluster, and how a leader judges its followers."""

    changes: IsrChanges | None = None
    """Who grants changes of the in-sync set; None where there is nobody else."""
    may_join: Callable[[BrokerId], bool] = lambda _: True
    """Whether a broker is alive, so that it may be proposed for the in-sync set."""
    lag_ms_max: int = 30_000
    """`replica.lag.time.max.ms`"""


NO_PEERS = Peers()


class LogEndWaiters:
    """The end of a partition's log, for followers to wait at."""

    __slots__ = ("grown_bytes", "waiters")

    def __init__(self) -> None:
        self.purgatory: dict[DelayedOperation, None] = {}
        self.grown_bytes = 0
        """What came since they were told last."""
