"""Groups, and one group: members, offsets with lag, rebalances."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from sordini.admin.groups.group_description import (
    DEAD,
    OTHER_TYPES,
    SHARE,
    GroupDescription,
    OtherGroupType,
    describe_group,
)
from sordini.admin.groups.group_history import cause_words, group_history
from sordini.admin.groups.group_requests import list_groups
from sordini.client.errors import ClientError, Refused
from sordini.client.lag.model import age_order
from sordini.console.pages.lag_plot import lag_plot
from sordini.console.pages.live import event, repeated, stream
from sordini.console.pages.paging import Paging
from sordini.console.readers.group_lags import read_lags
from sordini.console.readers.share_groups import read_share_group
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit
from sordini.protocol.errors import ErrorCode
from sordini.system.clock import SystemClock

PAGE_ROWS: Final = 50
PARTITIONS_SHOWN: Final = 500
HISTORY_SHOWN: Final = 50
PARTS: Final = ("group_facts", "lag_plot", "group_members", "group_offsets")
SHARE_PARTS: Final = ("share_facts", "group_members", "share_partitions", "share_in_flight")
"""Of a live page, by the kind of the group."""


def routes(gate: LoginGate) -> list[Route]:
    return [
        gate.get("/groups", show_groups),
        gate.get("/groups/lags", show_lags),
        gate.get("/group", show_group),
        gate.get("/live/group", live_group),
        gate.get("/group/history", show_history),
    ]


async def show_groups(visit: Visit) -> Response:
    """The list; what it takes longer to read, the lag, comes in a second request."""
    sought = visit.field("find").strip()
    found = await list_groups(visit.cluster, (), ())
    states = sorted({str(row["state"]) for row in found if row["state"]})
    state = visit.field("state")
    rows = [row for row in found if sought in row["group"] and state in ("", row["state"])]
    paging = Paging.of(rows, visit.number("page", 1, 1, 100_000), PAGE_ROWS)
    return visit.page("groups.html", paging=paging, find=sought, state=state, states=states)


async def show_lags(visit: Visit) -> Response:
    """The same rows with their lag: a part of the page."""
    wanted = {name for name, _ in zip(visit.request.query_params.getlist("group"), range(PAGE_ROWS), strict=False)}
    rows = [row for row in await list_groups(visit.cluster, (), ()) if row["group"] in wanted]
    lags = await read_lags(visit.cluster, [row["group"] for row in rows if row["type"] not in OTHER_TYPES])
    return visit.part("parts/group_rows.html", rows=rows, lags=lags)


async def show_group(visit: Visit) -> Response:
    """Members and offsets; of streams groups what the list has."""
    try:
        template, _, values = await _read_group(visit)
        return visit.page(template, tab="members", **values)
    except OtherGroupType:
        name = visit.needed("name")
        row = next((one for one in await list_groups(visit.cluster, (), ()) if one["group"] == name), None)
        if row is None:
            raise
        return visit.page("group_other.html", name=name, row=row)


async def live_group(visit: Visit) -> Response:
    """The same as it changes, with the lag's course since the page was opened."""
    visit.needed("name")

    async def read() -> list[str]:
        try:
            _, parts, values = await _read_group(visit)
        except ClientError as error:
            return [event("note", text=str(error))]
        return [event("part", id=part, html=visit.markup(f"parts/{part}.html", **values)) for part in parts] + [
            event("note", text="")
        ]

    def steps() -> AsyncIterator[str]:
        return repeated(read, visit)

    return stream(visit, steps)


async def _read_group(visit: Visit) -> tuple[str, Sequence[str], dict[str, Any]]:
    """The template of a group's page, those of its parts, and their values. Raises ClientError."""
    name = visit.needed("name")
    described = await describe_group(visit.cluster, name)
    common = {"name": name, "group": described, "kind": described.kind, "coordinator": await _coordinator(visit, name)}
    if described.kind == SHARE:
        return "share_group.html", SHARE_PARTS, common | await _share_values(visit, described)
    return "group.html", PARTS, common | await _lag_values(visit, described)


async def _coordinator(visit: Visit, name: str) -> int:
    coordinator = await visit.cluster.coordinator(name)
    ids = {address: broker for broker, address in visit.cluster.cluster_map.addresses.items()}
    broker = ids.get(coordinator.address)
    if broker is None:
        await visit.cluster.metadata([])
        ids = {address: broker for broker, address in visit.cluster.cluster_map.addresses.items()}
        broker = ids.get(coordinator.address, -1)
    return broker


async def _share_values(visit: Visit, described: GroupDescription) -> dict[str, Any]:
    share = await read_share_group(visit.cluster, described)
    rows = sorted(share.rows, key=lambda row: -(row["lag"] or 0))
    return {"share": share, "rows": rows[:PARTITIONS_SHOWN], "omitted": max(len(rows) - PARTITIONS_SHOWN, 0)}


async def _lag_values(visit: Visit, described: GroupDescription) -> dict[str, Any]:
    name = described.group
    found = (await read_lags(visit.cluster, [name]))[name]
    if described.state == DEAD and not found.partitions:
        raise Refused(f"group '{name}'", ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
    clock, history = SystemClock(), visit.session.lags.of(name)
    lag = history.add(found, clock.now_ms(), clock.monotonic_ms())
    rows = sorted(lag.partitions, key=lambda row: (-age_order(row), -(row.lag or 0)))
    return {
        "lag": lag,
        "plot": lag_plot(history.points, lag.outlook),
        "rows": rows[:PARTITIONS_SHOWN],
        "has_client_lag": any(row.client is not None for row in rows),
        "omitted": max(len(rows) - PARTITIONS_SHOWN, 0),
        "without_owner": sum(row.lacks_owner for row in rows),
        "stuck": sum(row.is_stuck for row in rows),
    }


async def show_history(visit: Visit) -> Response:
    """Rebalances as a time line, where the coordinator remembers them."""
    name = visit.needed("name")
    try:
        found: dict[str, Any] | None = await group_history(visit.cluster, name, HISTORY_SHOWN)
        problem = None
    except ClientError as error:
        found, problem = None, str(error)
    rebalances = list(reversed(found["rebalances"])) if found else []
    return visit.page(
        "group_history.html",
        name=name,
        tab="history",
        found=found,
        problem=problem,
        rebalances=rebalances,
        bars=_bars(rebalances),
        cause_words=cause_words,
    )


def _bars(rebalances: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where each rebalance is on a line from the oldest to the newest, in thousandths of its length."""
    times = [(_ms(row["began"]), _ms(row["ended"])) for row in rebalances]
    known = [time for pair in times for time in pair if time is not None]
    if not known:
        return []
    first, span = min(known), max(max(known) - min(known), 1)
    bars = []
    for row, (began, ended) in zip(rebalances, times, strict=True):
        if began is None:
            continue
        left = 1000 * (began - first) / span
        width = 1000 * ((ended or max(known)) - began) / span
        bars.append({"left": round(left, 1), "width": round(max(width, 4.0), 1), "row": row})
    return bars


def _ms(text: str | None) -> int | None:
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)
