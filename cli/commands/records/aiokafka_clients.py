"""Configures aiokafka's clients for commands, and stops them in bounded time.

aiokafka's `stop` sends pending records and waits for the responses without a limit, and it raises the CancelledError
of a task that it cancelled before the task's first step. Neither must affect the user.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, Final, Protocol

STOP_SECONDS_MAX: Final = 5.0
"""For the last batches, the last commit and LeaveGroup; a healthy cluster takes milliseconds."""
UNCLOSED: Final = "Unclosed AIOKafkaConnection"


class Stoppable(Protocol):
    """An aiokafka producer or consumer."""

    async def stop(self) -> None: ...


def configure_aiokafka() -> None:
    """Keep aiokafka's log lines off stderr (what matters is raised as well), and keep it from creating topics.

    Call it inside the event loop, before a client is made.
    """
    # aiokafka has no option for it: each of its Metadata requests allows automatic topic creation, so that a topic
    # deleted while it is read would be created again, empty.
    from aiokafka import client  # type: ignore[import-untyped]
    from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]

    client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    asyncio.get_running_loop().set_exception_handler(_handle_loop_error)


def _handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's default, except for a connection that aiokafka left open when its first request was cancelled."""
    if context.get("message") != UNCLOSED:
        loop.default_exception_handler(context)


async def stop_client(client: Stoppable) -> str | None:
    """Stop a client within STOP_SECONDS_MAX. Returns the text of the error, or None."""
    await asyncio.sleep(0)  # Lets a new task take its first step, after which it can be cancelled cleanly.
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
