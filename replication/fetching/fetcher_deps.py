"""What all fetchers of a broker share."""

from __future__ import annotations

from collections.abc import Callable

from sordini.protocol.types import BrokerId
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.inter_broker_versions import InterBrokerVersions
from sordini.replication.ports import Clock, Logger
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.system.named_tuple import NamedTuple


class FetcherDeps(NamedTuple):
    """One for each broker."""

    broker_id: BrokerId
    broker_epoch: Callable[[], int]
    """Of the current registration; -1 without one."""
    versions: InterBrokerVersions
    settings: FetchSettings
    quota: ReplicaQuota
    clock: Clock
    log: Logger
