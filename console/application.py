"""The routes of the console, as a Starlette application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sordini.console.pages import (
    access_pages,
    cluster_pages,
    group_changes,
    group_pages,
    login_pages,
    mirror_pages,
    record_pages,
    schema_pages,
    topic_changes,
    topic_pages,
)
from sordini.console.security.login_gate import LoginGate
from sordini.console.security.request_limits import RequestLimits
from sordini.console.visit import ROOM, Console
from sordini.console.watch import watch

SWEEP_S: Final = 60.0
"""Between two searches for sessions that are over."""


def make_application(console: Console) -> ASGIApp:
    """The whole console."""
    gate = LoginGate(console)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(_end_idle_sessions(console))]
        if console.access.sasl_mechanism is None:  # Otherwise the cluster lets visitors see different things.
            tasks.append(asyncio.create_task(watch(console)))
        try:
            yield
        finally:
            console.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            console.sessions.close()

    routes = [
        Mount("/static", StaticFiles(directory=ROOM / "static")),
        *login_pages.routes(console),
        *(
            route
            for pages in (
                cluster_pages,
                topic_pages,
                record_pages,
                group_pages,
                access_pages,
                mirror_pages,
                schema_pages,
                topic_changes,
                group_changes,
            )
            for route in pages.routes(gate)
        ),
    ]
    application = Starlette(routes=routes, lifespan=lifespan)
    return RequestLimits(application, console.settings, lambda: asyncio.get_running_loop().time())


async def _end_idle_sessions(console: Console) -> None:
    while True:
        await asyncio.sleep(SWEEP_S)
        console.sessions.end_idle(asyncio.get_running_loop().time())
