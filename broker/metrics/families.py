"""What a metric is: its name, its help text, and the function that reads its samples at a scrape.

A family reads plain attributes of the broker's parts at the moment of a scrape; nothing is updated for it in between.
It yields its samples lazily, over snapshots of collections that may change, because the exporter lets the loop serve
requests between any two steps. A step is a sample, or None for an element that was read and has no sample of its own:
so a slice is bounded by what was read, and not only by what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sordini.broker.administration.lag.append_watch import AppendWatch
from sordini.broker.cluster.commands.command_receiver import CommandReceiver
from sordini.broker.cluster.peer_clocks import PeerClocks
from sordini.broker.cluster.store_contact import StoreContact
from sordini.broker.groups.any_group import AnyGroup
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.metrics.latency import Latencies
from sordini.broker.metrics.telemetry.client_telemetry import ClientTelemetry
from sordini.broker.network.server import SocketServer
from sordini.broker.network.tls_handshakes import Handshakes
from sordini.broker.network.watchdog import Watchdog
from sordini.broker.records.fetch_sessions import FetchSessions
from sordini.broker.records.jobs.queue import JobQueue
from sordini.broker.records.schemas.schema_check import SchemaCheck
from sordini.broker.requests.dispatch import Dispatcher
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.security.access import Access
from sordini.broker.security.audit.audit_log import AuditLog
from sordini.broker.security.audit.login_events import LoginEvents
from sordini.broker.shares.dead_letters.dead_letter_writer import DeadLetterWriter
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.protocol.types import BrokerId
from sordini.replication.replica_set import ReplicaSet
from sordini.storage.cleaner import LogCleaner
from sordini.storage.log_manager import LogManager
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.broker.metrics.tracing.span_export import SpanExport
    from sordini.broker.security.tls.listener_tls import TlsListeners

T = TypeVar("T")


class GroupSource(Protocol):
    """The consumer groups that this broker coordinates."""

    def groups(self) -> Iterable[AnyGroup]:
        """All groups now; they are immutable."""

    def offsets(self, group_id: str) -> OffsetTable:
        """The committed offsets of a group. Raises BrokerError when it is not coordinated here any more."""


class ControllerStatus(Protocol):
    """Tells whether this broker is the controller."""

    @property
    def is_active(self) -> bool: ...


class SecuritySource(Protocol):
    """Logins, access and the audit log."""

    @property
    def login_events(self) -> LoginEvents: ...

    @property
    def access(self) -> Access: ...

    @property
    def audit(self) -> AuditLog: ...


class TlsSource(Protocol):
    """The listeners with TLS, and the handshakes of connections that are accepted."""

    @property
    def listeners(self) -> TlsListeners: ...

    @property
    def handshakes(self) -> Handshakes: ...


class LagSource(Protocol):
    """What was seen of log ends."""

    @property
    def appends(self) -> AppendWatch: ...


class DeadLettersSource(Protocol):
    """Dead letters of share groups."""

    @property
    def writer(self) -> DeadLetterWriter: ...


class SharesSource(Protocol):
    """Share partitions that this broker leads."""

    @property
    def dead_letters(self) -> DeadLettersSource: ...


class PartsSource(Protocol):
    """What is read of a broker's parts (`broker/wiring/parts.py` has all)."""

    @property
    def logs(self) -> LogManager: ...

    @property
    def cleaner(self) -> LogCleaner: ...

    @property
    def record_jobs(self) -> JobQueue: ...

    @property
    def schemas(self) -> SchemaCheck: ...

    @property
    def replicas(self) -> ReplicaSet: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def groups(self) -> GroupCoordinator: ...

    @property
    def transactions(self) -> TransactionCoordinator: ...

    @property
    def led_shares(self) -> SharesSource: ...

    @property
    def metadata(self) -> MetadataCache: ...

    @property
    def receiver(self) -> CommandReceiver: ...

    @property
    def dispatcher(self) -> Dispatcher: ...

    @property
    def security(self) -> SecuritySource: ...

    @property
    def quotas(self) -> ClientQuotas: ...

    @property
    def lag(self) -> LagSource: ...

    @property
    def telemetry(self) -> ClientTelemetry | None: ...


class MetricSources(NamedTuple):
    """The parts of the broker that metrics are read from."""

    parts: PartsSource
    sockets: SocketServer
    controller: ControllerStatus
    watchdog: Watchdog
    latencies: Latencies
    groups: GroupSource
    clocks: PeerClocks
    uptime_ms: Callable[[], int]
    lines_lost: Callable[[], int]
    """Log lines that could not be written."""
    contact: StoreContact
    tls: TlsSource | None
    broker_id: BrokerId
    monotonic_ms: Callable[[], int]
    group_partitions_max: int
    """Committed offsets of which there are series."""
    tracing: SpanExport | None = None
    """None where requests are not traced."""


class MetricKind(Enum):
    """Metric types of the Prometheus text format."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Histogram(NamedTuple):
    """The value of a histogram: durations counted by the number of bits of their nanoseconds, and their sum."""

    counts: Sequence[int]
    nanoseconds: int


Sample = tuple[tuple[str, ...], float | Histogram]
"""Label values in the order of the family's labels, and the value."""
Step = Sample | None
"""None: an element was read that has no sample."""


class MetricFamily(NamedTuple):
    """All metrics of one name. Names follow Prometheus: base units, `_total` for counters."""

    name: str
    kind: MetricKind
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[MetricSources], Iterable[Step]]


def counter(name: str, meaning: str, read: Callable[[MetricSources], Any], *labels: str) -> MetricFamily:
    """What only grows. `read` gives the number, or with labels a sample for each of their values."""
    return MetricFamily(name, MetricKind.COUNTER, meaning, labels, read if labels else single(read))


def gauge(name: str, meaning: str, read: Callable[[MetricSources], Any], *labels: str) -> MetricFamily:
    """What rises and falls; `read` as for a counter."""
    return MetricFamily(name, MetricKind.GAUGE, meaning, labels, read if labels else single(read))


def tally(
    name: str, meaning: str, elements: Callable[[MetricSources], Iterable[T]], value: Callable[[T], float]
) -> MetricFamily:
    """A gauge without labels: the sum of `value` over elements, each of which is a step."""

    def read(sources: MetricSources) -> Iterator[Step]:
        total: float = 0
        for element in elements(sources):
            total += value(element)
            yield None
        yield (), total

    return MetricFamily(name, MetricKind.GAUGE, meaning, (), read)


def single(read: Callable[[MetricSources], float]) -> Callable[[MetricSources], Iterable[Sample]]:
    """The samples of a family without labels: a single number."""
    return lambda sources: [((), read(sources))]
