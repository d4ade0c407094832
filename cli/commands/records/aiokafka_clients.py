"""How a command holds aiokafka's clients to what it promises, and lets go of them in bounded time.

aiokafka's `stop` sends what is left to send and waits for the answers without a limit, and it passes on the
CancelledError of a task that it has cancelled before the task's first step. Neither may reach the user.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Any, Final, Protocol

STOP_SECONDS_MAX: Final = 5.0
"""For the last batches, the last commit and the leaving of a group; a cluster that works takes milliseconds."""
UNCLOSED: Final = "Unclosed AIOKafkaConnection"


class Stoppable(Protocol):
    """A producer or a consumer of aiokafka."""

    async def stop(self) -> None: ...


def configure_aiokafka() -> None:
    """Keep aiokafka's own lines from stderr, as what matters comes as an error, too; and keep it from making topics.

    To be called inside the loop, before there is a client.
    """
    # Without an option for it, every one of its metadata requests asks a broker with auto.create.topics.enable to
    # make what is missing: a topic that is deleted while it is read would come back, empty.
    from aiokafka import client  # type: ignore[import-untyped]
    from aiokafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped]

    client.MetadataRequest = partial(MetadataRequest, allow_auto_topic_creation=False)
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL + 1)
    asyncio.get_running_loop().set_exception_handler(_handle_loop_error)


def _handle_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As the loop does by itself, but for a connection that aiokafka forgot when its first request was cancelled."""
    if context.get("message") != UNCLOSED:
        loop.default_exception_handler(context)


async def stop_client(client: Stoppable) -> str | None:
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
