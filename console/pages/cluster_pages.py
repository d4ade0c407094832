"""The cluster: its brokers, and every partition, those that need attention first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from sordini.admin.broker_activity import BrokerActivity
from sordini.admin.topics.segments import read_logs
from sordini.client.errors import ClientError
from sordini.console.pages.live import event, repeated, stream
from sordini.console.pages.paging import Paging
from sordini.console.readers.broker_activity import event_changes, read_activities
from sordini.console.readers.changes import COMPACTION, RETENTION, Change
from sordini.console.readers.cluster_state import (
    BrokerFacts,
    ClusterState,
    PartitionRow,
    end_offsets,
    read_facts,
    read_state,
)
from sordini.console.readers.disks import Disks, read_disks
from sordini.console.readers.rebalances import read_rebalances
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit
from sordini.protocol.types import TopicPartition
from sordini.system.clock import SystemClock

PAGE_ROWS: Final = 100
DISKS_EVERY_S: Final = 30.0
"""A live page reads disks this often: the answer names every partition."""
REBALANCES_EVERY_S: Final = 30.0
ACTIVITY_EVERY_S: Final = 5.0
HOUR_MS: Final = 3_600_000
CHANGES_SHOWN: Final = 50
HOUSEKEEPING: Final = frozenset({RETENTION, COMPACTION})
HOUSEKEEPING_SHOWN: Final = 20
"""Of the changes shown: each topic has some of these in each hour, and they are rarely what is sought."""
SHOWS: Final = ("all", "attention")


def routes(gate: LoginGate) -> list[Route]:
    return [gate.get("/", show), gate.get("/live/cluster", live)]


async def show(visit: Visit) -> Response:
    """The page."""
    view = View(visit)
    return visit.page("cluster.html", **await view.read())


async def live(visit: Visit) -> Response:
    """Its parts as they change."""
    view = View(visit)

    async def read() -> list[str]:
        try:
            await view.read_rebalances()
            values = await view.read()
        except ClientError as error:
            return [event("note", text=str(error))]
        parts = ("summary", "brokers", "timeline", "partitions")
        return [event("part", id=part, html=visit.markup(f"parts/{part}.html", **values)) for part in parts] + [
            event("note", text="")
        ]

    def steps() -> AsyncIterator[str]:
        return repeated(read, visit)

    return stream(visit, steps)


class View:
    """What one page reads, and for rates what it read before."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._shows = visit.choice("show", SHOWS)
        self._sought = visit.field("find").strip()
        self._page = visit.number("page", 1, 1, 100_000)
        self._ends: dict[TopicPartition, int] = {}
        self._ends_s = 0.0
        self._disks: Disks | None = None
        self._disks_s = 0.0
        self._facts: dict[int, BrokerFacts] = {}
        self._activities: dict[int, BrokerActivity | None] = {}
        self._activities_s: float | None = None
        self._rebalances: list[Change] = []
        self._groups_omitted = 0
        self._rebalances_s: float | None = None

    async def read(self) -> dict[str, Any]:
        """The values of the templates. Raises ClientError."""
        cluster = self._visit.cluster
        state = await read_state(cluster)
        now_ms = SystemClock().now_ms()
        self._visit.compare(state, now_ms)
        ids = [row.broker for row in state.brokers]
        paging = Paging.of(self._wanted(state), self._page, PAGE_ROWS)
        # At once, as a broker that is silent delays each.
        await asyncio.gather(self._read_facts(ids), self._read_disks(ids), self._read_activities(ids))
        logs = await read_logs(cluster, {row.name: row.leader for row in paging.rows if row.leader is not None})
        ends = {name: log.high_watermark for name, log in logs.items()}
        ends |= await end_offsets(cluster, [row for row in paging.rows if row.name not in logs])
        return {
            "state": state,
            "facts": self._facts,
            "activities": self._activities,
            "disks": self._disks.directories if self._disks is not None else {},
            "paging": paging,
            "ends": ends,
            "logs": logs,
            "rates": self._rates(ends),
            "show": self._shows,
            "find": self._sought,
            "timeline": self._timeline(now_ms),
        }

    async def _read_facts(self, brokers: Sequence[int]) -> None:
        unknown = [broker for broker in brokers if broker not in self._facts]
        if unknown:
            self._facts |= await read_facts(self._visit.cluster, unknown)

    async def _read_disks(self, brokers: Sequence[int]) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._disks is None or now_s - self._disks_s > DISKS_EVERY_S:
            self._disks, self._disks_s = await read_disks(self._visit.cluster, brokers), now_s

    async def _read_activities(self, brokers: Sequence[int]) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._activities_s is None or now_s - self._activities_s > ACTIVITY_EVERY_S:
            since_ms = SystemClock().now_ms() - HOUR_MS
            self._activities = await read_activities(self._visit.cluster, brokers, since_ms)
            self._activities_s = now_s

    async def read_rebalances(self) -> None:
        """For the time line of a live page, which may take longer than a page that is waited for."""
        now_s = asyncio.get_running_loop().time()
        if self._rebalances_s is None or now_s - self._rebalances_s > REBALANCES_EVERY_S:
            since_ms = SystemClock().now_ms() - HOUR_MS
            self._rebalances, self._groups_omitted = await read_rebalances(self._visit.cluster, since_ms)
            self._rebalances_s = now_s

    def _timeline(self, now_ms: int) -> dict[str, Any]:
        """What happened in the last hour, newest first."""
        log, from_ms = self._visit.changes, now_ms - HOUR_MS
        every = (*log.changes, *self._rebalances, *event_changes(self._activities))
        found = sorted((change for change in every if change.at_ms >= from_ms), key=lambda change: -change.at_ms)
        shown = shown_changes(found)
        return {
            "rows": [{"change": one, "left": round(996 * (one.at_ms - from_ms) / HOUR_MS, 1)} for one in shown],
            "omitted": len(found) - len(shown),
            "from_ms": from_ms,
            "since_ms": log.since_ms,
            "groups_omitted": self._groups_omitted,
        }

    def _wanted(self, state: ClusterState) -> Sequence[PartitionRow]:
        rows: Sequence[PartitionRow] = state.partitions
        if self._shows == "attention":
            rows = [row for row in rows if row.state != "in sync"]
        if self._sought:
            rows = [row for row in rows if self._sought in row.topic]
        return rows

    def _rates(self, ends: dict[TopicPartition, int]) -> dict[TopicPartition, float]:
        """Records per second since the last reading."""
        now_s = asyncio.get_running_loop().time()
        passed_s, before = now_s - self._ends_s, self._ends
        self._ends, self._ends_s = ends, now_s
        return {
            name: max(end - before[name], 0) / passed_s for name, end in ends.items() if name in before and passed_s
        }


def shown_changes(newest_first: Sequence[Change]) -> list[Change]:
    """The newest, of which housekeeping is a part only: it hides neither an election nor a broker that is gone."""
    kept = [change for change in newest_first if change.kind in HOUSEKEEPING][:HOUSEKEEPING_SHOWN]
    room = CHANGES_SHOWN - len(kept)
    others = [change for change in newest_first if change.kind not in HOUSEKEEPING][:room]
    return sorted(kept + others, key=lambda change: -change.at_ms)
