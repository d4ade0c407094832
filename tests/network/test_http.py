"""The small HTTP server: what it answers, what it refuses, and what one peer can cost the others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from sordini.broker.network.http import HttpLimits, HttpRequest, HttpResponse, HttpServer, served_by_path
from tests.support.fake_ports import ListLog

PATIENCE_S = 20.0
LARGE = b"x" * 3_000_000


async def well() -> HttpResponse:
    return HttpResponse(200, [b"all ", b"well\n"])


async def large() -> HttpResponse:
    return HttpResponse(200, [LARGE, LARGE])


async def broken() -> HttpResponse:
    raise ValueError("the reason")


async def never() -> HttpResponse:
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


class Site:
    def __init__(self, limits: HttpLimits = HttpLimits()) -> None:  # noqa: B008
        self.log = ListLog()
        paths = {"/well": well, "/large": large, "/broken": broken, "/never": never}
        self.server = HttpServer(served_by_path(paths), self.log, limits)
        self.port = 0
        self.writers: list[asyncio.StreamWriter] = []

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Site]:
        _, self.port = await self.server.start("127.0.0.1", 0)
        try:
            yield self
        finally:
            for writer in self.writers:
                writer.close()
            await self.server.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def ask(self, request: bytes) -> bytes:
        """Everything that comes until the server hangs up; nothing when it does so by a reset."""
        reader, writer = await self.connect()
        writer.write(request)
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await reader.read()
        except ConnectionError:
            return b""


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


async def test_a_path_is_answered_with_its_size_and_the_connection_ends() -> None:
    async with Site().open() as site:
        head, _, body = (await site.ask(b"GET /well HTTP/1.1\r\nHost: a\r\n\r\n")).partition(b"\r\n\r\n")
        assert head.split(b"\r\n")[0] == b"HTTP/1.1 200 OK"
        assert b"Content-Length: 9" in head
        assert b"Connection: close" in head
        assert body == b"all well\n"


async def test_a_query_is_ignored_and_an_old_client_is_served() -> None:
    async with Site().open() as site:
        assert status(await site.ask(b"GET /well?a=b HTTP/1.0\r\n\r\n")) == 200


async def test_a_large_answer_arrives_whole() -> None:
    async with Site().open() as site:
        answer = await site.ask(b"GET /large HTTP/1.1\r\n\r\n")
        assert answer.partition(b"\r\n\r\n")[2] == LARGE + LARGE


@pytest.mark.parametrize(
    ("request_line", "expected"),
    [
        (b"GET /other HTTP/1.1", 404),
        (b"GET /well/ HTTP/1.1", 404),
        (b"POST /well HTTP/1.1", 405),
        (b"HEAD /well HTTP/1.1", 405),
        (b"GET well HTTP/1.1", 400),
        (b"GET /well", 400),
        (b"GET /well SMTP", 400),
        (b"\x00\xff\x00 \xff", 400),
        (b"", 400),
        (b"GET /broken HTTP/1.1", 500),
    ],
)
async def test_what_is_not_served_is_refused_with_a_status(request_line: bytes, expected: int) -> None:
    async with Site().open() as site:
        assert status(await site.ask(request_line + b"\r\n\r\n")) == expected
        assert status(await site.ask(b"GET /well HTTP/1.1\r\n\r\n")) == 200
        assert [event for event, _ in site.log.at("error")] == ["an HTTP request failed"] * (expected == 500)


async def test_a_request_without_an_end_is_kept_up_to_a_bound_only() -> None:
    async with Site(HttpLimits(request_bytes_max=1000, request_s_max=60)).open() as site:
        assert status(await site.ask(b"GET /well HTTP/1.1\r\nA: " + b"a" * 900 + b"\r\n\r\n")) == 200
        answer = await site.ask(b"GET /well HTTP/1.1\r\nA: " + b"a" * 100_000)
        assert answer == b"" or status(answer) == 431
        assert status(await site.ask(b"GET /well HTTP/1.1\r\n\r\n")) == 200


async def test_a_peer_that_does_not_finish_its_request_is_hung_up_on() -> None:
    async with Site(HttpLimits(request_s_max=0.02)).open() as site:
        assert await site.ask(b"GET /we") == b""


async def test_an_answer_that_is_not_made_in_time_is_given_up() -> None:
    async with Site(HttpLimits(answer_s_max=0.02)).open() as site:
        assert await site.ask(b"GET /never HTTP/1.1\r\n\r\n") == b""


async def test_idle_connections_are_closed_for_one_that_sends_a_request() -> None:
    async with Site(HttpLimits(connections_max=3)).open() as site:
        slow = []
        for _ in range(3):
            slow.append(await site.connect())
            slow[-1][1].write(b"GET /we")
            # The answered connection came after the slow one.
            assert status(await site.ask(b"GET /well HTTP/1.1\r\n\r\n")) == 200
        assert await slow[0][0].read() == b"", "the connection with the oldest unfinished request is closed"
        slow[2][1].write(b"ll HTTP/1.1\r\n\r\n")
        assert status(await slow[2][0].read()) == 200


async def test_when_all_connections_are_being_answered_another_one_is_refused() -> None:
    async with Site(HttpLimits(connections_max=2)).open() as site:
        asked = [await site.connect() for _ in range(2)]
        for _, writer in asked:
            writer.write(b"GET /never HTTP/1.1\r\n\r\n")
        while site.server._reading or len(site.server._tasks) < 2:  # noqa: ASYNC110 - it happens in sockets.
            await asyncio.sleep(0)
        assert await site.ask(b"GET /well HTTP/1.1\r\n\r\n") == b""
        assert len(site.server._tasks) == 2


async def test_closing_ends_every_connection() -> None:
    site = Site()
    async with site.open():
        reader, writer = await site.connect()
        writer.write(b"GET /never HTTP/1.1\r\n\r\n")
        while not site.server._tasks:  # noqa: ASYNC110 - as above.
            await asyncio.sleep(0)
        await site.server.close()
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection("127.0.0.1", site.port)


async def test_a_taken_port_is_named() -> None:
    async with Site().open() as site:
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1 port {site.port}: "):
            await HttpServer(served_by_path({}), site.log).start("127.0.0.1", site.port)


async def mirror(request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, [f"{request.method} {request.path}?{request.query} ".encode(), request.body])


@contextlib.asynccontextmanager
async def mirrored() -> AsyncIterator[Site]:
    """A server that takes bodies of 100 bytes."""
    site = Site()
    site.server = HttpServer(mirror, site.log, HttpLimits(body_bytes_max=100))
    async with site.open():
        yield site


async def test_a_body_is_read_by_its_length() -> None:
    async with mirrored() as site:
        head = b"POST /a/b?c=d HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
        answer = await site.ask(head + b"hello, and more")
        assert (status(answer), answer.partition(b"\r\n\r\n")[2]) == (200, b"POST /a/b?c=d hello")
        assert status(await site.ask(b"DELETE /a HTTP/1.1\r\n\r\n")) == 200


async def test_a_client_that_waits_before_it_sends_the_body_is_answered() -> None:
    async with mirrored() as site:
        reader, writer = await site.connect()
        writer.write(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ok")
        assert (await reader.read()).endswith(b"ok")


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        (b"Content-Length: 101\r\n", b"x" * 101, 413),
        (b"Content-Length: 3000000\r\n", b"x" * 1_000_000, 413),
        (b"Content-Length: -1\r\n", b"", 400),
        (b"Content-Length: 1e3\r\n", b"", 400),
        (b"Content-Length: 99999999999999999999\r\n", b"", 400),
        (b"Transfer-Encoding: chunked\r\n", b"2\r\nok\r\n0\r\n\r\n", 411),
    ],
)
async def test_a_body_that_is_too_large_or_has_no_length_is_refused(headers: bytes, body: bytes, expected: int) -> None:
    async with mirrored() as site:
        answer = await site.ask(b"POST / HTTP/1.1\r\n" + headers + b"\r\n" + body)
        assert status(answer) == expected
