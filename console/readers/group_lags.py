"""How far groups are behind: the one place where the pages get their lag, in records, in time, and what becomes of it.

What the brokers do not tell (those of Apache Kafka no rates) is measured by pages that look again and again: a session
keeps a `LagHistory` of the groups whose pages it has opened last, which has the plot's points too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from sordini.client.cluster import Cluster
from sordini.client.lag import cluster_reader
from sordini.client.lag.measured_rates import MeasuredRates
from sordini.client.lag.model import GroupLag
from sordini.system.clock import SystemClock
from sordini.system.named_tuple import NamedTuple

POINTS_MAX: Final = 400
"""Of one plot: of more, every other one of the older half is dropped."""
HISTORIES_MAX: Final = 8
"""Groups of one session."""


async def read_lags(cluster: Cluster, names: Sequence[str] | None, *, topic: str | None = None) -> dict[str, GroupLag]:
    """The lag of these groups, or (None) of all, by name; with `topic` in that one alone. Raises ClientError."""
    topics = frozenset() if topic is None else frozenset({topic})
    found = await cluster_reader.read_lags(cluster, names, SystemClock().now_ms, topics=topics)
    return {group.name: group for group in found}


class LagPoint(NamedTuple):
    """The lag of a group at one time."""

    at_ms: int
    """Since 1970."""
    lag: int


class LagHistory:
    """What one session has seen of one group."""

    def __init__(self) -> None:
        self._rates = MeasuredRates()
        self._points: list[LagPoint] = []

    def add(self, group: GroupLag, at_ms: int, monotonic_ms: int) -> GroupLag:
        """A look; returned with rates that were measured where the brokers know none."""
        (rated,) = self._rates.add([group], monotonic_ms)
        if rated.problem is None:
            self._points.append(LagPoint(at_ms, rated.lag))
        if len(self._points) > POINTS_MAX:
            half = POINTS_MAX // 2
            self._points = self._points[:half:2] + self._points[half:]
        return rated

    @property
    def points(self) -> Sequence[LagPoint]:
        """Oldest first."""
        return self._points


class LagHistories:
    """Those of one session: the groups, or the checkpoints, that it looked at last."""

    def __init__(self, histories_max: int = HISTORIES_MAX) -> None:
        self._histories: OrderedDict[str, LagHistory] = OrderedDict()
        self._histories_max = histories_max

    def of(self, group: str) -> LagHistory:
        found = self._histories.setdefault(group, LagHistory())
        self._histories.move_to_end(group)
        while len(self._histories) > self._histories_max:
            self._histories.popitem(last=False)
        return found
