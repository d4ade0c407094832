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
from sordini.client.errors import ClientError, Disconnected, InvalidResponse, lost, too_late
from sordini.client.versions import run_steps

if TYPE_CHECKING:
    from sordini.client.ports import Rounds, Socket
    from sordini.client.versions import Steps, T

SLICE_BYTES: Final = 1024 * 1024
"""What one connection receives at most in one call of the loop, before the loop serves others."""


TICKS_OF_A_TIMEOUT: Final = 4
"""While rounds are under way one timer counts the quarters of a timeout in which no response came."""


class AsyncConnection:
    """A connected socket and the request in flight on it. It watches the socket from the beginning."""

    __slots__ = (
        "_loop",
        "_protocol",
        "_response",
        "_rounds",
        "_silent_ticks",
        "_socket",
        "_timer",
        "_unsent",
        "is_open",
    )

    def __init__(self, socket: Socket, protocol: ClientConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._protocol = protocol
        self._unsent: memoryview | None = None
        self._response: asyncio.Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._rounds: Rounds | None = None
        self._silent_ticks = 0
        self.is_open = True
        self._loop.add_reader(socket, self._on_readable)

    def send(self, request: Any, version: int, timeout_ms: int | None = None) -> asyncio.Future[Any]:
        """Send a request message; its response message. Without `timeout_ms` the response may take any time.

        The future fails with Disconnected or InvalidResponse, and the connection is closed then. A caller that
        cancels the future closes the connection.
        """
        response = self._loop.create_future()
        self._send(request, version, response, timeout_ms)
        return response

    def _send(self, request: Any, version: int, response: asyncio.Future[Any], timeout_ms: int | None) -> bytearray:
        assert self._response is None, "a request is in flight already"
        if not self.is_open:
            raise Disconnected(f"the connection to {self._protocol.peer} is closed")
        frame = self._protocol.send(request, version)
        self._response = response
        if timeout_ms is not None:
            self._timer = self._loop.call_later(timeout_ms / 1000, self._on_timeout, timeout_ms)
        self._write(memoryview(frame))
        return frame

    def send_rounds(self, request: Any, version: int, timeout_ms: int, rounds: Rounds) -> asyncio.Future[Any]:
        """As `send`, and `rounds` takes the responses, until there is one that it does not answer by a request.

        The result is that response, or None when `rounds` took it, too. The timeout is each response's; it is measured
        to a quarter, so that a round costs no timer. The future also fails with what `rounds` raises.
        """
        response = self._loop.create_future()
        frame = self._send(request, version, response, None)
        if self.is_open:
            rounds.on_sent(frame)
            self._rounds = rounds
            self._silent_ticks = 0
            self._start_tick(timeout_ms)
        return response

    def _start_tick(self, timeout_ms: int) -> None:
        self._timer = self._loop.call_later(timeout_ms / 1000 / TICKS_OF_A_TIMEOUT, self._on_tick, timeout_ms)

    def _on_tick(self, timeout_ms: int) -> None:
        self._timer = None
        self._silent_ticks += 1
        if self._silent_ticks >= TICKS_OF_A_TIMEOUT:
            # A response that arrived while this process was busy is in time.
            self._on_readable()
        if self._rounds is None:
            return
        if self._silent_ticks >= TICKS_OF_A_TIMEOUT:
            self._fail(too_late(self._protocol.peer, timeout_ms / 1000))
        else:
            self._start_tick(timeout_ms)

    async def run(self, steps: Steps[T]) -> T:
        """Carry out an exchange such as `negotiate()`; its result. Raises what `send` and the steps raise."""
        return await run_steps(steps, self.send)

    def close(self) -> None:
        """Close without waiting; a request in flight fails. May be called again."""
        self._fail(Disconnected(f"the connection to {self._protocol.peer} was closed here"))

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
        self._rounds = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return response

    def _on_timeout(self, timeout_ms: int) -> None:
        self._timer = None
        # A response that arrived while this process was busy is in time.
        self._on_readable()
        if self._response is not None:
            self._fail(too_late(self._protocol.peer, timeout_ms / 1000))

    # Sending.

    def _write(self, data: memoryview) -> None:
        try:
            count = self._socket.send(data) or 0
        except OSError as error:
            self._fail(lost(self._protocol.peer, error))
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
                    self._fail(lost(self._protocol.peer))
                    return
                budget -= count
                if self._rounds is not None:
                    frame = protocol.received_frame(count)
                    if frame is None:
                        continue
                    self._next_round(self._rounds, frame)
                    return
                message = protocol.received(count)
                if message is not None:
                    response = self._take_response()
                    if response is not None and not response.done():
                        response.set_result(message)
                if self._response is None:
                    return  # Nothing more is expected: if bytes come, the loop says so.
            if self.is_open:
                self._loop.call_soon(self._on_readable)  # After the others: a TLS socket may hold what it has received.
        except OSError as error:
            self._fail(lost(self._protocol.peer, error))
        except InvalidResponse as error:
            self._fail(error)

    def _next_round(self, rounds: Rounds, frame: memoryview) -> None:
        """Send the request that follows this response, or end the rounds."""
        try:
            request = rounds.on_response(frame)
        except Exception as error:  # noqa: BLE001 - the one who awaits the rounds gets it.
            response = self._take_response()
            self.close()
            if response is not None and not response.done():
                response.set_exception(error)
            return
        if request is None:
            message = None
            if rounds.is_taken:
                self._protocol.discard()
            else:
                message = self._protocol.decoded(frame)
            response = self._take_response()
            if response is not None and not response.done():
                response.set_result(message)
            return
        self._silent_ticks = 0
        self._protocol.next_sent(request)
        self._write(memoryview(request))
