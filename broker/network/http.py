"""As much of HTTP/1.1 as a scrape and a health check need: one GET, one response, and the connection closes.

Bounded: the bytes of a request, the seconds for request and response, and the number of connections. At the last
limit the connection that has been sending its request for longest is closed, so peers that hold connections open do
not keep out others. Everything in a request but its path is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple

from sordini.replication.ports import Log

TEXT: Final = "text/plain; charset=utf-8"
_PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpLimits(NamedTuple):
    """Limits of all connections, and of each."""

    connections_max: int = 8
    request_bytes_max: int = 8 * 1024
    request_s_max: float = 5.0
    """From accept to the end of the request."""
    answer_s_max: float = 30.0
    """To make the response and to send it."""


class HttpResponse(NamedTuple):
    """A response; the body in pieces, so that a large one need not be joined."""

    status: int
    body: Sequence[bytes]
    content_type: str = TEXT


class BadHttpRequest(Exception):
    """The request is not served; the status says why."""

    def __init__(self, status: int) -> None:
        super().__init__(_PHRASES[status])
        self.status = status


Respond = Callable[[], Awaitable[HttpResponse]]
Paths = Mapping[str, Respond]


class HttpServer:
    """Listens on one address, on the running loop."""

    def __init__(self, paths: Paths, log: Log, limits: HttpLimits = HttpLimits()) -> None:  # noqa: B008 - immutable.
        self._paths = paths
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
                    handler = await self._handler(reader)
                self._reading.pop(asyncio.current_task(), None)  # type: ignore[arg-type] # It runs inside its task.
                async with asyncio.timeout(self._limits.answer_s_max):
                    answer = await self._respond(handler)
                    writer.writelines([_head(answer), *answer.body])
                    await writer.drain()
                    writer.close()
                    await writer.wait_closed()
        finally:
            writer.transport.abort()

    async def _handler(self, reader: asyncio.StreamReader) -> Respond | HttpResponse:
        """What makes the response, or the error response of a request that is not served."""
        try:
            path = _path(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError:
            return _error(431)
        except BadHttpRequest as bad:
            return _error(bad.status)
        return self._paths.get(path) or _error(404)

    async def _respond(self, handler: Respond | HttpResponse) -> HttpResponse:
        if isinstance(handler, HttpResponse):
            return handler
        try:
            return await handler()
        except Exception as error:  # noqa: BLE001 - logged; the broker continues.
            self._log.error("a metrics request failed", exc_info=error)
            return _error(500)


def _path(head: bytes) -> str:
    """The path in a request's head, without its query; raises BadHttpRequest."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise BadHttpRequest(400)
    if words[0] != b"GET":
        raise BadHttpRequest(405)
    return words[1].split(b"?", 1)[0].decode("latin-1")


def _error(status: int) -> HttpResponse:
    return HttpResponse(status, [f"{status} {_PHRASES[status]}\n".encode()])


def _head(answer: HttpResponse) -> bytes:
    size = sum(map(len, answer.body))
    allow = "Allow: GET\r\n" if answer.status == 405 else ""
    return (
        f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}\r\n"
        f"Content-Type: {answer.content_type}\r\nContent-Length: {size}\r\n{allow}Connection: close\r\n\r\n"
    ).encode()
