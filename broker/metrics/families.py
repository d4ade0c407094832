"""What a metric is: its name, its help text, and the function that reads its samples at a scrape.

A family reads plain attributes of the broker's parts at the moment of a scrape; nothing is updated for it in between.
It yields its samples lazily, over snapshots of collections that may change, because the exporter lets the loop serve
requests between any two samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import Group
from sordini.broker.membership.peer_clocks import PeerClocks
from sordini.broker.membership.store_contact import StoreContact
from sordini.broker.metrics.latency import Latencies
from sordini.broker.network.server import SocketServer
from sordini.broker.network.watchdog import Watchdog
from sordini.broker.wiring.parts import BrokerParts
from sordini.broker.wiring.tls import TlsParts


class Groups(Protocol):
    """The consumer groups that this broker coordinates."""

    def groups(self) -> Iterable[Group]:
        """All groups now; a `Group` is immutable."""

    def offsets(self, group_id: str) -> OffsetTable:
        """The committed offsets of a group. Raises BrokerError when it is not coordinated here any more."""


class ControllerStatus(Protocol):
    """Tells whether this broker is the controller."""

    @property
    def is_active(self) -> bool: ...


class MetricSources(NamedTuple):
    """The parts of the broker that metrics are read from."""

    parts: BrokerParts
    sockets: SocketServer
    controller: ControllerStatus
    watchdog: Watchdog
    latencies: Latencies
    groups: Groups
    clocks: PeerClocks
    uptime_ms: Callable[[], int]
    lines_lost: Callable[[], int]
    """Log lines that could not be written."""
    contact: StoreContact
    tls: TlsParts | None


class Kind(Enum):
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


class MetricFamily(NamedTuple):
    """All metrics of one name. Names follow Prometheus: base units, `_total` for counters."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[MetricSources], Iterable[Sample]]


def single(read: Callable[[MetricSources], float]) -> Callable[[MetricSources], Iterable[Sample]]:
    """The samples of a family without labels: a single number."""
    return lambda sources: [((), read(sources))]
