"""Looks at the cluster again and again, with or without a visitor, so that a time line has what happened."""

from __future__ import annotations

import asyncio
from typing import Final

from sordini.client.errors import ClientError
from sordini.console.readers.cluster_state import read_state
from sordini.console.visit import Console
from sordini.system.clock import SystemClock

POLL_INTERVAL_S: Final = 5.0
POLL_S: Final = 20.0
LOAD_PART: Final = 0.02
"""Of the time in which the cluster works for it, if a poll takes long."""


async def watch(console: Console) -> None:
    """Until it is cancelled."""
    loop, clock = asyncio.get_running_loop(), SystemClock()
    async with console.access.own() as cluster:
        while True:
            began_s = loop.time()
            try:
                async with asyncio.timeout(POLL_S):
                    console.changes.compare(await read_state(cluster), clock.now_ms())
            except (ClientError, TimeoutError):
                console.changes.miss(clock.now_ms())
            await asyncio.sleep(max(POLL_INTERVAL_S, (loop.time() - began_s) / LOAD_PART))
