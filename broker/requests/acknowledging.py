"""Responses to requests that append: sent once the appends may be acknowledged (`replication/acks.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, RespondLater
from sordini.replication.acks import UnfinishedAppends
from sordini.replication.ports import CallLater


def respond_when_finished(
    call: Call,
    response: Any,
    unfinished: UnfinishedAppends,
    later: RespondLater,
    call_later: CallLater,
    timeout_ms: int,
    when_refused: Callable[[Call], None] | None = None,
) -> DelayedResponse:
    """The response, once the appends are flushed where that is due, and committed where all replicas are awaited.

    `when_refused` is called before when some are not: they have timed out, or their leader is another one.
    """
    if unfinished.needs_flush:
        return later(call, _wait(call, response, unfinished, call_later, timeout_ms, when_refused))

    def on_done() -> None:
        _check(call, unfinished, when_refused)
        call.complete(pending, response)

    pending = DelayedResponse()
    pending.on_abandon = unfinished.when_committed(on_done, call_later, timeout_ms).cancel
    return pending


async def _wait(
    call: Call,
    response: Any,
    unfinished: UnfinishedAppends,
    call_later: CallLater,
    timeout_ms: int,
    when_refused: Callable[[Call], None] | None,
) -> Any:
    await unfinished.wait(call_later, timeout_ms)
    _check(call, unfinished, when_refused)
    return response


def _check(call: Call, unfinished: UnfinishedAppends, when_refused: Callable[[Call], None] | None) -> None:
    if when_refused is not None and any(append.result.error_code for append in unfinished.appends):
        when_refused(call)
