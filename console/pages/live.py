"""Server-sent events: parts of a page as they change, for as long as the page is open and within bounds.

An event `part` is a JSON object with the id of an element and its new markup; `records` has rows to put before others;
`note` has a sentence. A stream ends after STREAM_S, when the session is over or the console stops; the page's script
opens it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.responses import Response

from sordini.console.pages.session_stream import SessionStream, refusal_of
from sordini.console.visit import Visit

STREAM_S: Final = 600.0
LEAST_PAUSE_S: Final = 2.0
LOAD_PART: Final = 0.05
"""Of the time in which a stream lets the cluster work for it."""
AGAIN_MS: Final = 3_000

Steps = Callable[[], AsyncIterator[str]]


def event(kind: str, **fields: Any) -> str:
    """One event; JSON has no line breaks, which would end it."""
    return f"event: {kind}\ndata: {json.dumps(fields, ensure_ascii=True)}\n\n"


def stream(visit: Visit, steps: Steps) -> Response:
    """What `steps` yields, as a response; 429 for a session that has too many."""
    session, console = visit.session, visit.console
    refusal = refusal_of(session)
    if refusal is not None:
        return refusal

    async def content() -> AsyncIterator[str]:
        until_s = asyncio.get_running_loop().time() + STREAM_S
        yield f"retry: {AGAIN_MS}\n\n"
        async for text in steps():
            if console.stopping.is_set() or asyncio.get_running_loop().time() > until_s or not session.is_open:
                return
            yield text

    return SessionStream(session, content(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})


async def repeated(read: Callable[[], Awaitable[list[str]]], visit: Visit) -> AsyncIterator[str]:
    """The events of `read` again and again: the longer a reading takes, the longer the pause after it."""
    loop = asyncio.get_running_loop()
    while True:
        began_s = loop.time()
        for text in await read():
            yield text
        pause_s = max(LEAST_PAUSE_S, (loop.time() - began_s) / LOAD_PART)
        with contextlib.suppress(TimeoutError):  # Whichever is first, the pause's end or that of the console.
            async with asyncio.timeout(pause_s):
                await visit.console.stopping.wait()
