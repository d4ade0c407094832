"""Responses to requests that append: sent once the appends may be acknowledged (`replication/acks.py`)."""

from __future__ import annotations

from typing import Any

from sordini.broker.dispatch import Call, RespondLater
from sordini.broker.network.ports import DelayedResponse
from sordini.replication.acks import UnfinishedAppends
from sordini.replication.ports import CallLater


def respond_when_finished(
    call: Call,
    response: Any,
    unfinished: UnfinishedAppends,
    later: RespondLater,
    call_later: CallLater,
    timeout_ms: int,
) -> DelayedResponse:
    """The response, once the appends are flushed where that is due, and committed where all replicas are awaited."""
    if unfinished.needs_flush:
        return later(call, _wait(response, unfinished, call_later, timeout_ms))
    pending = DelayedResponse()
    delayed = unfinished.when_committed(lambda: call.complete(pending, response), call_later, timeout_ms)
    pending.on_abandon = delayed.cancel
    return pending


async def _wait(response: Any, unfinished: UnfinishedAppends, call_later: CallLater, timeout_ms: int) -> Any:
    await unfinished.wait(call_later, timeout_ms)
    return response
