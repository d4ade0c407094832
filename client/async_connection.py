"""A client connection on an asyncio loop, with at most one request in flight.

    bytes -> Socket -> ClientConnection -> the future that `send` returned

No task belongs to it: the loop calls it when the socket is ready, and a request costs one future and one timer. The
socket is a port, shaped like system calls, so that the simulated network can stand in; `client/sockets.py` opens real
ones.

Invariants:
  - every future that `send` returned is completed, by a response or by a ClientError, unless it was cancelled;
  - a connection that failed once is closed: bytes of a late response cannot be taken for those of the next one;
  - bytes that belong to no request end the connection.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from sordini.client.connection import ClientConnection
from sordini.client.errors import ClientError, ConnectionLost, InvalidResponse
from sordini.client.versions import run_steps

if TYPE_CHECKING:
    from sordini.client.ports import Socket
    from sordini.client.versions import Steps, T

SLICE_BYTES: Final = 1024 * 1024
"""What one connection receives at most in one call of the loop, before the loop serves others."""


class AsyncConnection:
    """A connected socket and the request in flight on it. It watches the socket from the beginning."""

    __slots__ = ("_loop", "_protocol", "_response", "_socket", "_timer", "_unsent", "is_open")

    def __init__(self, socket: Socket, protocol: ClientConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._protocol = protocol
        self._unsent: memoryview | None = None
        self._response: asyncio.Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.is_open = True
        self._loop.add_reader(socket, self._on_readable)

    def send(self, request: Any, version: int, timeout_ms: int | None = None) -> asyncio.Future[Any]:
        """Send a request message; its response message. Without `timeout_ms` the response may take any time.

        The future fails with ConnectionLost or InvalidResponse, and the connection is closed then. A caller that
        cancels the future closes the connection.
        """
        assert self._response is None, "a request is in flight already"
        if not self.is_open:
            raise ConnectionLost("the connection is closed")
        frame = self._protocol.send(request, version)
        self._response = response = self._loop.create_future()
        if timeout_ms is not None:
            self._timer = self._loop.call_later(timeout_ms / 1000, self._on_timeout, timeout_ms)
        self._write(memoryview(frame))
        return response

    async def run(self, steps: Steps[T]) -> T:
        """Carry out an exchange such as `negotiate()`; its result. Raises what `send` and the steps raise."""
        return await run_steps(steps, self.send)

    def close(self, reason: str = "the connection was closed here") -> None:
        """Close without waiting; a request in flight fails. May be called again."""
        self._fail(ConnectionLost(reason))

    def _fail(self, error: ClientError) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket)
        if self._unsent is not None:
            self._loop.remove_writer(self._socket)
            self._unsent = None
        self._socket.close()
        response = self._take_response()
        if response is not None and not response.done():
            response.set_exception(error)

    def _take_response(self) -> asyncio.Future[Any] | None:
        response, self._response = self._response, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return response

    def _on_timeout(self, timeout_ms: int) -> None:
        self._timer = None
        # A response that arrived while this process was busy is in time.
        self._on_readable()
        if self._response is not None:
            self.close(f"no response within {timeout_ms} ms")

    # Sending.

    def _write(self, data: memoryview) -> None:
        try:
            count = self._socket.send(data) or 0
        except OSError as error:
            self.close(_reason(error))
            return
        if count < len(data):
            if self._unsent is None:
                self._loop.add_writer(self._socket, self._on_writable)
            self._unsent = data[count:]
        elif self._unsent is not None:
            self._loop.remove_writer(self._socket)
            self._unsent = None

    def _on_writable(self) -> None:
        if self._unsent is not None:
            self._write(self._unsent)

    # Receiving.

    def _on_readable(self) -> None:
        budget = SLICE_BYTES
        protocol = self._protocol
        try:
            while self.is_open and budget > 0:
                count = self._socket.recv_into(protocol.space())
                if count is None:
                    return
                if not count:
                    self.close("it closed the connection")
                    return
                budget -= count
                message = protocol.received(count)
                if message is not None:
                    response = self._take_response()
                    if response is not None and not response.done():
                        response.set_result(message)
                if self._response is None:
                    return  # Nothing more is expected: if bytes come, the loop says so.
        except OSError as error:
            self.close(_reason(error))
        except InvalidResponse as error:
            self._fail(error)


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
