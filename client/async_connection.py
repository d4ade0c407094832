"""One connection to another broker, with at most one request under way on it.

    bytes -> Socket -> [ length | correlation id | ... ] -> the future that `ask` returned

No task belongs to it: the loop calls it when the socket is ready, and a request costs one future and one timer. A
response that fits the first receive is copied out of the connection's own buffer; a longer one gets a buffer of its
own, into which the rest is received directly, and whoever got the response keeps it as long as a view of it lives.
That buffer grows as the bytes arrive: a peer that announces much and sends little costs little.

Invariants:
  - every future that `ask` returned is completed, by a response or by Unreachable, unless it was cancelled;
  - a connection that failed once is closed: bytes of a late answer cannot be taken for those of the next one;
  - bytes that nobody asked for end the connection.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any, Final

from sordini.broker.network.ports import Socket
from sordini.protocol import schema
from sordini.protocol.api import Api
from sordini.protocol.headers import request_header
from sordini.replication.ports import Unreachable

HEAD_BYTES: Final = 16 * 1024
"""The buffer that every connection has. Nearly all answers fit."""
GROWTH_BYTES: Final = 1024 * 1024
"""The steps in which the buffer of a long response grows."""
TURN_BYTES: Final = 1024 * 1024
"""What one connection receives at most before others have their turn."""

_LENGTH: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ii")
_CORRELATION_ID_MASK: Final = 0x7FFF_FFFF
_ZEROS: Final = bytes(GROWTH_BYTES)


class Connection:
    """A connected socket and the request that waits on it. It begins to watch the socket at once."""

    __slots__ = (
        "_answer",
        "_body",
        "_correlation_id",
        "_filled",
        "_head",
        "_late",
        "_loop",
        "_peer",
        "_response_bytes_max",
        "_size",
        "_socket",
        "_unsent",
        "is_open",
    )

    def __init__(self, socket: Socket, peer: str, response_bytes_max: int) -> None:
        """`peer` is how messages call the other end; a longer response than `response_bytes_max` is refused."""
        self._loop = asyncio.get_running_loop()
        self._socket = socket
        self._peer = peer
        self._response_bytes_max = response_bytes_max
        self._head = bytearray(HEAD_BYTES)
        self._body: bytearray | None = None  # Only for a response that does not fit the head.
        self._size = 0  # How long the body will be.
        self._filled = 0  # Bytes received of the head, or of the body when there is one.
        self._unsent: memoryview | None = None
        self._answer: asyncio.Future[memoryview] | None = None
        self._late: asyncio.TimerHandle | None = None
        self._correlation_id = 0
        self.is_open = True
        self._loop.add_reader(socket, self._on_readable)

    def ask(self, api: Api, version: int, client_id: str, request: Any, timeout_ms: int) -> asyncio.Future[memoryview]:
        """Send a request; its response, without the length and with the header.

        The future fails with Unreachable, and the connection is closed then. Whoever cancels it closes the connection.
        """
        assert self._answer is None, "a request is under way already"
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        frame = bytearray(_LENGTH.size)
        frame += request_header(api, version, correlation_id, client_id)
        frame += schema.encode(request, version)
        _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
        self._answer = answer = self._loop.create_future()
        self._late = self._loop.call_later(timeout_ms / 1000, self._on_timeout, timeout_ms)
        self._send(memoryview(frame))
        return answer

    def close(self, reason: str = "the connection was closed here") -> None:
        """Hang up; a request under way fails. Harmless when it is closed already."""
        if not self.is_open:
            return
        self.is_open = False
        self._loop.remove_reader(self._socket)
        if self._unsent is not None:
            self._loop.remove_writer(self._socket)
            self._unsent = None
        self._socket.close()
        self._body = None
        answer = self._take_answer()
        if answer is not None and not answer.done():
            answer.set_exception(Unreachable(f"{self._peer}: {reason}"))

    def _take_answer(self) -> asyncio.Future[memoryview] | None:
        answer, self._answer = self._answer, None
        if self._late is not None:
            self._late.cancel()
            self._late = None
        return answer

    def _on_timeout(self, timeout_ms: int) -> None:
        self._late = None
        # What came while our own loop stood still is an answer in time.
        self._on_readable()
        if self._answer is not None:
            self.close(f"no answer within {timeout_ms} ms")

    # Sending.

    def _send(self, data: memoryview) -> None:
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
            self._send(self._unsent)

    # Receiving.

    def _on_readable(self) -> None:
        budget = TURN_BYTES
        try:
            while self.is_open and budget > 0:
                count = self._socket.recv_into(self._space())
                if count is None:
                    return
                if not count:
                    self.close("it closed the connection")
                    return
                self._filled += count
                budget -= count
                if self._body is None:
                    self._look_at_head()
                elif self._filled == self._size:
                    self._deliver(memoryview(self._body))
                if self._answer is None:
                    return  # Nothing more is expected: if something comes, the loop says so.
        except OSError as error:
            self.close(_reason(error))

    def _space(self) -> bytearray | memoryview:
        """Where the next bytes go; never empty, and never beyond the response."""
        body = self._body
        if body is None:
            return memoryview(self._head)[self._filled :] if self._filled else self._head
        if self._filled == len(body):
            body += memoryview(_ZEROS)[: self._size - len(body)]
        return memoryview(body)[self._filled :]

    def _look_at_head(self) -> None:
        if self._answer is None:
            self.close("it sent what nobody asked for")
            return
        if self._filled < _HEADER.size:
            return
        size, correlation_id = _HEADER.unpack_from(self._head)
        if not _HEADER.size - _LENGTH.size <= size <= self._response_bytes_max:
            self.close(f"it announced a response of {size} bytes, the limit is {self._response_bytes_max}")
        elif correlation_id != self._correlation_id:
            self.close(f"it sent response {correlation_id} where {self._correlation_id} was due")
        elif self._filled > _LENGTH.size + size:
            self.close("it sent more than was asked for")
        elif self._filled == _LENGTH.size + size:
            # Copied, so that the head can be used again at once.
            self._deliver(memoryview(bytes(memoryview(self._head)[_LENGTH.size : self._filled])))
        elif _LENGTH.size + size > HEAD_BYTES:
            self._size = size
            self._body = bytearray(memoryview(self._head)[_LENGTH.size : self._filled])
            self._filled -= _LENGTH.size

    def _deliver(self, response: memoryview) -> None:
        self._filled = 0
        self._body = None
        answer = self._take_answer()
        if answer is not None and not answer.done():
            answer.set_result(response)


def _reason(error: OSError) -> str:
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]
