"""What a metric is here: its name, what it means, and where its numbers are when somebody asks.

A family reads plain attributes of the broker's parts at the moment of a scrape; nothing is kept up to date for it in
between. Its rows come lazily, over snapshots of what may change, because the exporter lets the loop serve requests
between any two of them.
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


class Groups(Protocol):
    """The consumer groups that this broker coordinates."""

    def groups(self) -> Iterable[Group]:
        """All that are here now; a group itself never changes."""

    def offsets(self, group_id: str) -> OffsetTable:
        """What a group has committed. Raises BrokerError when it is not looked after here any more."""


class Elected(Protocol):
    """Whoever may be the controller."""

    @property
    def is_active(self) -> bool: ...


class Sources(NamedTuple):
    """The parts of the broker that metrics are read from."""

    parts: BrokerParts
    sockets: SocketServer
    controller: Elected
    watchdog: Watchdog
    latencies: Latencies
    groups: Groups
    clocks: PeerClocks
    uptime_ms: Callable[[], int]
    lines_lost: Callable[[], int]
    """Log lines that could not be written."""
    contact: StoreContact


class Kind(Enum):
    """The types of the Prometheus text format that are used."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Durations(NamedTuple):
    """A histogram's value: how many durations had so many bits in nanoseconds, and their sum."""

    counts: Sequence[int]
    nanoseconds: int


Row = tuple[tuple[str, ...], float | Durations]
"""Label values in the order of the family's labels, and the value."""


class Family(NamedTuple):
    """Every metric of one name. Names follow Prometheus: base units, `_total` for what only grows."""

    name: str
    kind: Kind
    meaning: str
    labels: tuple[str, ...]
    read: Callable[[Sources], Iterable[Row]]


def one(read: Callable[[Sources], float]) -> Callable[[Sources], Iterable[Row]]:
    """The rows of a family without labels: a single number."""
    return lambda sources: [((), read(sources))]
