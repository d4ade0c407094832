"""How a command lets go of aiokafka's clients: in bounded time, whatever the cluster does.

aiokafka's `stop` sends what is left to send and waits for the answers without a limit, and it passes on the
CancelledError of a task that it has cancelled before the task's first step. Neither may reach the user.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

STOP_SECONDS_MAX: Final = 5.0
"""For the last batches, the last commit and the leaving of a group; a cluster that works takes milliseconds."""


class Stoppable(Protocol):
    """A producer or a consumer of aiokafka."""

    async def stop(self) -> None: ...


def quieten() -> None:
    """Keep aiokafka's own log lines from stderr: what matters comes as an error, too."""
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)


async def stopped(client: Stoppable) -> str | None:
    """Stop a client within STOP_SECONDS_MAX; in words what went wrong with that, None for nothing."""
    await asyncio.sleep(0)  # A task that was only just made takes its first step, and can then be cancelled in order.
    stopping = asyncio.ensure_future(client.stop())
    try:
        await asyncio.wait([stopping], timeout=STOP_SECONDS_MAX)
    finally:
        if not stopping.done():
            stopping.cancel()
    if not stopping.done():
        return f"the cluster did not answer within {STOP_SECONDS_MAX:g} s"
    error = None if stopping.cancelled() else stopping.exception()
    return None if error is None else str(error) or type(error).__name__
