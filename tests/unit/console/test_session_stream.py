"""Live pages and downloads: how many there are of a session, and what ends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from sordini.console.pages.session_stream import SessionDownload, SessionStream, refusal_of
from sordini.console.security.sessions import STREAMS_MAX, Session, Sessions

SCOPE: Final[Any] = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}


class Browser:
    """The other end of a response."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.is_gone = asyncio.Event()
        self.has_received = asyncio.Event()

    async def receive(self) -> Any:
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.messages.append(message)
        self.has_received.set()
        await asyncio.sleep(0)


def make_session() -> tuple[Sessions, Session]:
    sessions = Sessions(lambda: "key")
    return sessions, sessions.begin("alice", "secret", 0.0)


async def endless() -> AsyncIterator[bytes]:
    yield b"first"
    await asyncio.Event().wait()


async def test_a_browser_that_is_gone_before_the_first_part_leaves_no_live_page_behind() -> None:
    _, session = make_session()
    for _ in range(2 * STREAMS_MAX):
        browser = Browser()
        browser.is_gone.set()
        await SessionStream(session, endless())(SCOPE, browser.receive, browser.send)
    assert session.streams == 0
    assert refusal_of(session) is None


async def test_a_session_has_few_live_pages_and_downloads() -> None:
    _, session = make_session()
    browsers = [Browser() for _ in range(STREAMS_MAX)]
    tasks = [
        asyncio.create_task(kind(session, endless())(SCOPE, browser.receive, browser.send))
        for browser, kind in zip(browsers, (SessionStream, SessionDownload) * STREAMS_MAX, strict=False)
    ]
    for browser in browsers:
        await browser.has_received.wait()
    refusal = refusal_of(session)
    assert refusal is not None
    assert refusal.status_code == 429
    for browser in browsers:
        browser.is_gone.set()
    await asyncio.gather(*tasks)
    assert (session.streams, session.closables) == (0, [])


async def test_a_download_ends_with_its_session_and_is_not_completed() -> None:
    sessions, session = make_session()
    browser = Browser()
    download = asyncio.create_task(SessionDownload(session, endless())(SCOPE, browser.receive, browser.send))
    await browser.has_received.wait()
    sessions.end(session)
    await download
    assert session.streams == 0
    assert all(message.get("more_body", True) for message in browser.messages)


async def test_a_download_that_is_cancelled_with_the_console_is_cancelled() -> None:
    _, session = make_session()
    browser = Browser()
    download = asyncio.create_task(SessionDownload(session, endless())(SCOPE, browser.receive, browser.send))
    await browser.has_received.wait()
    download.cancel()
    with pytest.raises(asyncio.CancelledError):
        await download
    assert session.streams == 0
