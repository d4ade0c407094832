"""Responses that last: live pages and downloads. Of one session there are few, however they end."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from sordini.console.security.sessions import STREAMS_MAX, Session


def refusal_of(session: Session) -> Response | None:
    """429 for a session that has as many as it may have."""
    if session.streams < STREAMS_MAX:
        return None
    return PlainTextResponse(f"A session has at most {STREAMS_MAX} live pages and downloads.\n", 429)


class SessionStream(StreamingResponse):
    """Counts from its first step to its last: what it streams is never begun where the browser is gone by then."""

    def __init__(self, session: Session, content: Any, **others: Any) -> None:
        super().__init__(content, **others)
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._session.streams += 1
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._session.streams -= 1


class SessionDownload(SessionStream):
    """Is cut where it is when the session ends: the browser reports a download that is not whole."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        end = _End(task)
        self._session.closables.append(end)
        try:
            await super().__call__(scope, receive, send)
        except asyncio.CancelledError:
            if not end.is_called or task.uncancel():
                raise
        finally:
            with contextlib.suppress(ValueError):
                self._session.closables.remove(end)


class _End:
    """Ends a response with its session."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task
        self.is_called = False

    def close(self) -> None:
        self.is_called = True
        self._task.cancel()
