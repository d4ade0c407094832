"""A client connection on an asyncio loop with any number of requests in flight, for what has to fill a long line.

    bytes -> Socket -> ClientConnection -> the futures that `send` returned, in the order of the requests

`async_connection` has one request in flight, and is what brokers use among themselves. Here each request costs a
future; the caller bounds how many are in flight, and the time that they take.

Invariants:
  - every future that `send` returned is completed, by a response or by a ClientError, unless it was cancelled;
  - a future that was cancelled gives its response up, and those behind it get theirs;
  - a connection that failed once is closed, with all that is in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from sordini.client.errors import ClientError, Disconnected, InvalidResponse, lost
from sordini.client.versions import run_steps

if TYPE_CHECKING:
    from sordini.client.connection import ClientConnection
    from sordini.client.ports import Socket
    from sordini.client.versions import Steps, T

_SLICE_BYTES: Final = 4 * 1024 * 1024
"""What is received at most in one call of the loop."""


class PipelinedConnection:
    """A connected socket and the requests in flight on it."""

    def __init__(self, socket: Socket, protocol: ClientConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._protocol = protocol
        self._unsent: deque[memoryview] = deque()
        self._responses: deque[asyncio.Future[Any]] = deque()
        self.is_open = True
        self._loop.add_reader(socket, self._on_readable)

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Send a request message; its response message. The future fails with Disconnected or InvalidResponse."""
        if not self.is_open:
            raise Disconnected(f"the connection to {self._protocol.peer} is closed")
        response: asyncio.Future[Any] = self._loop.create_future()
        frame = self._protocol.send(request, version)
        self._responses.append(response)
        self._unsent.append(memoryview(frame))
        if len(self._unsent) == 1:
            self._write()
        return response

    async def run(self, steps: Steps[T]) -> T:
        """Carry out an exchange such as `negotiate()`; its result. Raises what `send` and the steps raise."""
        return await run_steps(steps, self.send)

    def close(self) -> None:
        """Close without waiting; requests in flight fail. May be called again."""
        self._fail(Disconnected(f"the connection to {self._protocol.peer} was closed here"))

    def _fail(self, error: ClientError) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket)
        if self._unsent:
            self._loop.remove_writer(self._socket)
            self._unsent.clear()
        self._socket.close()
        failed, self._responses = self._responses, deque()
        for response in failed:
            if not response.done():
                response.set_exception(error)

    def _write(self) -> None:
        """Send what the socket takes. With something left, the loop watches for room."""
        unsent = self._unsent
        try:
            while unsent:
                count = self._socket.send(unsent[0]) or 0
                if count < len(unsent[0]):
                    unsent[0] = unsent[0][count:]
                    self._loop.add_writer(self._socket, self._write)
                    return
                unsent.popleft()
        except OSError as error:
            self._fail(lost(self._protocol.peer, error))
            return
        self._loop.remove_writer(self._socket)

    def _on_readable(self) -> None:
        budget = _SLICE_BYTES
        try:
            while self.is_open and budget > 0:
                count = self._socket.recv_into(self._protocol.space())
                if count is None:
                    return
                if not count:
                    self._fail(lost(self._protocol.peer))
                    return
                budget -= count
                self._take_responses(count)
            if self.is_open:
                self._loop.call_soon(self._on_readable)  # A TLS socket may hold what it has received.
        except OSError as error:
            self._fail(lost(self._protocol.peer, error))
        except InvalidResponse as error:
            self._fail(error)

    def _take_responses(self, count: int) -> None:
        """Complete the futures of all responses that `count` received bytes completed."""
        message = self._protocol.received(count)
        while message is not None:
            response = self._responses.popleft()
            if not response.done():
                response.set_result(message)
            message = self._protocol.received(0)
