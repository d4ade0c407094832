"""What the parts of a broker are built from."""

from __future__ import annotations

from typing import Protocol

from sordini.broker.cluster.identity import BrokerIdentity
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.configuration.config import Config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.metrics.telemetry.ports import PushReader
from sordini.broker.network.ports import Network
from sordini.broker.records.jobs.ports import RecordWorker
from sordini.broker.requests.call import Route
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.security.audit.audit_log import AuditOutput
from sordini.broker.security.sasl.oauthbearer.key_source import Fetch
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.replication.ports import CallLater, Clock, Logger, Session, Spawn
from sordini.storage.cleaner import Worker
from sordini.storage.log_dir_handle import Randomness
from sordini.system.named_tuple import NamedTuple


class Interposer(Protocol):
    """Stands between the decoding of requests and their handlers: what the test kit fails, delays and notes.

    With one, every request goes the general way, so that none passes it (`broker/records/prepared`).
    """

    def interposed(self, routes: list[Route], dispatcher: Dispatcher, metadata: MetadataCache) -> list[Route]:
        """The routes that are served instead."""


class Runtime(NamedTuple):
    """Time, chance, tasks and the log of one broker."""

    clock: Clock
    randomness: Randomness
    spawn: Spawn
    call_later: CallLater
    log: Logger


class ClusterDeps(NamedTuple):
    """Which broker of which cluster this is, and its coordination store."""

    identity: BrokerIdentity
    session: Session
    """The current session, across renewals."""
    contact: StoreContact
    is_clustered: bool
    """Whether other brokers can exist: the embedded store belongs to one process."""


class Workers(NamedTuple):
    """Child processes for CPU-bound work."""

    cleaner: Worker
    records: RecordWorker
    telemetry: PushReader | None = None
    """Reads metrics that clients push; None: the broker's own process does."""


class BrokerDeps(NamedTuple):
    """All of it."""

    dynamic: DynamicConfig
    cluster: ClusterDeps
    runtime: Runtime
    network: Network
    workers: Workers
    fetch_keys: Fetch
    """Reads the key sets of OAUTHBEARER."""
    audit: AuditOutput | None = None
    """Where the audit log goes; None without one."""
    interposer: Interposer | None = None
    """What stands in front of the handlers; None in production."""

    @property
    def config(self) -> Config:
        """The configuration now in force; a value taken from it is not updated."""
        return self.dynamic.config
