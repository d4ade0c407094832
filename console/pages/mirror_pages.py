"""Mirrors that copy into this cluster, and pipeline jobs by their checkpoints: read only."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from sordini.client.errors import ClientError
from sordini.client.lag.model import age_order
from sordini.console.pages.live import event, repeated, stream
from sordini.console.readers.checkpoints import read_checkpoints
from sordini.console.readers.cluster_state import read_state
from sordini.console.readers.mirrors import read_mirrors
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit
from sordini.system.clock import SystemClock

PARTITIONS_SHOWN: Final = 200
"""Of one checkpoint."""


def routes(gate: LoginGate) -> list[Route]:
    return [
        gate.get("/mirrors", show_mirrors),
        gate.get("/pipelines", show_pipelines),
        gate.get("/live/pipelines", live_pipelines),
    ]


async def show_mirrors(visit: Visit) -> Response:
    """Sources, their topics, and the groups whose offsets are translated."""
    state = await read_state(visit.cluster)
    async with visit.console.access.of_mirrors(visit.session) as mirrors:
        found = await read_mirrors(visit.cluster, mirrors, state)
    return visit.page("mirrors.html", found=found, now_ms=SystemClock().now_ms())


async def show_pipelines(visit: Visit) -> Response:
    """The checkpoints that the console was started with."""
    return visit.page("pipelines.html", **await _read_pipelines(visit))


async def live_pipelines(visit: Visit) -> Response:
    """The same as it changes: rates are known from the second reading on."""

    async def read() -> list[str]:
        try:
            values = await _read_pipelines(visit)
        except ClientError as error:
            return [event("note", text=str(error))]
        html = visit.markup("parts/pipelines.html", **values)
        return [event("part", id="pipelines", html=html), event("note", text="")]

    return stream(visit, lambda: repeated(read, visit))


async def _read_pipelines(visit: Visit) -> dict[str, Any]:
    """Raises ClientError."""
    locations = visit.console.settings.checkpoints
    clock = SystemClock()
    found = await read_checkpoints(visit.cluster, locations)
    jobs = []
    for location, lag in found.items():
        if lag.problem is None:
            lag = visit.session.checkpoints.of(location).add(lag, clock.now_ms(), clock.monotonic_ms())  # noqa: PLW2901
        rows = sorted(lag.partitions, key=lambda row: (-age_order(row), -(row.lag or 0)))
        jobs.append(
            {
                "location": location,
                "lag": lag,
                "rows": rows[:PARTITIONS_SHOWN],
                "omitted": max(len(rows) - PARTITIONS_SHOWN, 0),
            }
        )
    return {"jobs": jobs}
