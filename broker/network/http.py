"""As much of HTTP/1.1 as a scrape, a health check and the control of a test cluster need: one request on a connection,
one response, and the connection closes.

Bounded: the bytes of a request's head and body, the seconds for request and response, and the number of connections.
At the last limit the connection that has been sending its request for longest is closed, so peers that hold
connections open do not keep out others. A body has a length (no chunks); where none is taken it is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from sordini.replication.ports import Logger
from sordini.system.named_tuple import NamedTuple

DISCARDED_BYTES_MAX: Final = 1 << 20
"""How much of a body is read that is too large, and for how long at most."""
DISCARD_S_MAX: Final = 1.0
_DIGITS_MAX: Final = 16
TEXT: Final = "text/plain; charset=utf-8"
_PHRASES: Final = {
    200: "OK",
    201: "Created",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    409: "Conflict",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpLimits(NamedTuple):
    """Limits of all connections, and of each."""

    connections_max: int = 8
    request_bytes_max: int = 8 * 1024
    """Of a request without its body."""
    body_bytes_max: int = 0
    """At 0 a body is not read."""
    request_s_max: float = 5.0
    """From accept to the end of the request."""
    answer_s_max: float = 30.0
    """To make the response and to send it."""


class HttpRequest(NamedTuple):
    """A request that was received whole."""

    method: str
    path: str
    """As it was sent, without the query."""
    query: str
    headers: Mapping[str, str]
    """By their names in lower case; of several with one name the last."""
    body: bytes


class HttpResponse(NamedTuple):
    """A response; the body in pieces, so that a large one need not be joined."""

    status: int
    body: Sequence[bytes]
    content_type: str = TEXT
    allow: str = "GET"
    """The methods that the path has, for a 405."""


class BadHttpRequest(Exception):
    """The request is not served; the status says why."""

    def __init__(self, status: int) -> None:
        super().__init__(_PHRASES[status])
        self.status = status


Respond = Callable[[HttpRequest], Awaitable[HttpResponse]]


def served_by_path(paths: Mapping[str, Callable[[], Awaitable[HttpResponse]]]) -> Respond:
    """What responds to a GET of some paths; of a request nothing else is read."""

    async def respond(request: HttpRequest) -> HttpResponse:
        if request.method != "GET":
            return status_response(405)
        found = paths.get(request.path)
        return status_response(404) if found is None else await found()

    return respond


def status_response(status: int) -> HttpResponse:
    """A response that says no more than its status."""
    return HttpResponse(status, [f"{status} {_PHRASES[status]}\n".encode()])


class HttpServer:
    """Listens on one address, on the running loop."""

    def __init__(self, respond: Respond, log: Logger, limits: HttpLimits = HttpLimits()) -> None:  # noqa: B008 - immutable.
        self._respond = respond
        self._log = log
        self._limits = limits
        self._server: asyncio.Server | None = None
        self._reading: dict[asyncio.Task[None], None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the real address. Raises OSError, naming the address."""
        try:
            self._server = await asyncio.start_server(
                self._accept,
                host or None,
                port,
                limit=self._limits.request_bytes_max,
                backlog=self._limits.connections_max,
            )
        except OSError as error:
            # The loop's own text repeats the address; the bare reason is the system's.
            reason = f"cannot listen on {host or 'every address'} port {port}: {os.strerror(error.errno or 0)}"
            raise OSError(error.errno, reason) from error
        address = self._server.sockets[0].getsockname()
        return address[0], address[1]

    async def close(self) -> None:
        """Stop listening and end every connection."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._limits.connections_max:
            slowest = next(iter(self._reading), None)
            if slowest is None:
                writer.transport.abort()
                return
            # Dropped now: the cancelled task ends a little later.
            self._drop(slowest)
            slowest.cancel()
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        self._reading[task] = None
        task.add_done_callback(self._drop)

    def _drop(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._reading.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                async with asyncio.timeout(self._limits.request_s_max):
                    received = await self._receive(reader, writer)
                self._reading.pop(asyncio.current_task(), None)  # type: ignore[arg-type] # It runs inside its task.
                async with asyncio.timeout(self._limits.answer_s_max):
                    answer = await self._answer(received)
                    # Python 3.12 and 3.13 send an empty piece at the end again and again.
                    writer.writelines([_head(answer), *filter(None, answer.body)])
                    await writer.drain()
                    if answer.status == 413:
                        await _discard(reader)
                    writer.close()
                    await writer.wait_closed()
        finally:
            writer.transport.abort()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | HttpResponse:
        """The request, or the error response of one that is not served."""
        try:
            request = _parsed(await reader.readuntil(b"\r\n\r\n"))
            if not self._limits.body_bytes_max:
                return request
            size = _body_size(request.headers)
            if size > self._limits.body_bytes_max:
                return status_response(413)
        except asyncio.LimitOverrunError:
            return status_response(431)
        except BadHttpRequest as bad:
            return status_response(bad.status)
        if size and request.headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return request._replace(body=await reader.readexactly(size))

    async def _answer(self, received: HttpRequest | HttpResponse) -> HttpResponse:
        if isinstance(received, HttpResponse):
            return received
        try:
            return await self._respond(received)
        except Exception as error:  # noqa: BLE001 - logged; the broker continues.
            self._log.error("an HTTP request failed", path=received.path, exc_info=error)
            return status_response(500)


def _parsed(head: bytes) -> HttpRequest:
    """A request without its body. Raises BadHttpRequest."""
    first, *lines = head[:-4].split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise BadHttpRequest(400)
    pairs = (line.decode("latin-1").partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    path, _, query = words[1].decode("latin-1").partition("?")
    return HttpRequest(words[0].decode("latin-1"), path, query, headers, b"")


def _body_size(headers: Mapping[str, str]) -> int:
    """The size of a request's body. Raises BadHttpRequest."""
    if "transfer-encoding" in headers:
        raise BadHttpRequest(411)
    size = headers.get("content-length", "0")
    if not (size.isascii() and size.isdigit() and len(size) < _DIGITS_MAX):
        raise BadHttpRequest(400)
    return int(size)


async def _discard(reader: asyncio.StreamReader) -> None:
    """Read what is on its way: closing a connection with unread bytes resets it, and the response would be lost."""
    left = DISCARDED_BYTES_MAX
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_S_MAX):
            while left and (found := await reader.read(left)):
                left -= len(found)


def _head(answer: HttpResponse) -> bytes:
    size = sum(map(len, answer.body))
    allow = f"Allow: {answer.allow}\r\n" if answer.status == 405 else ""
    return (
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {size}\r\n{allow}Connection: close\r\n\r\n"
    ).encode()
