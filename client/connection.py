"""The protocol of one client connection, without I/O: requests become bytes to send, received bytes become responses.

    connection = ClientConnection("my-client", response_bytes_max=100_000_000)
    socket.sendall(connection.send(MetadataRequest(), version=12))
    while (response := connection.received(socket.recv_into(connection.space()))) is None:
        pass

The caller owns the socket and the clock; `async_connection.py` and `blocking.py` are the two callers. A broker answers
in the order of the requests, which may be pipelined (sent before earlier ones are answered). So a response whose
correlation id is not that of the oldest request in flight is an error.

Buffers: a response that fits the first 16 KiB is copied out of the connection's own buffer. A longer one gets a buffer
of its own, into which the rest is received directly; records in the message are views of it. That buffer grows as the
bytes arrive, so a peer that announces much and sends little costs little.

Invariants:
  - every response that `received` returns belongs to the request that was sent the longest ago;
  - bytes that belong to no request in flight are an error;
  - after InvalidResponse the connection is unusable: the caller closes it.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, Final

from sordini.client.errors import InvalidLength, InvalidResponse
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.codecs import Slices
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.served_apis import ALL_APIS, APIS, Api

HEAD_BYTES: Final = 16 * 1024
"""The buffer that every connection has. Nearly all responses fit."""
GROWTH_BYTES: Final = 1024 * 1024
"""The steps in which the buffer of a longer response grows."""

API_OF: Final[dict[type, Api]] = {api.request: api for api in ALL_APIS.values()}
"""By the class of the request message."""

_API_VERSIONS: Final = APIS[ApiKey.API_VERSIONS]
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AND_CORRELATION_ID: Final = struct.Struct(">ii")
_CORRELATION_ID_BYTES: Final = 4
REQUEST_CORRELATION_POSITION: Final = 8
"""Of the correlation id in a request's frame: after the length, the API key and the version."""
_CORRELATION_ID_MASK: Final = 0x7FFF_FFFF
_ZEROS: Final = bytes(GROWTH_BYTES)
_UNSUPPORTED_VERSION: Final = struct.pack(">h", ErrorCode.UNSUPPORTED_VERSION)


class ClientConnection:
    """Requests in flight on one connection, and the bytes received of the next response."""

    __slots__ = (
        "_body",
        "_client_id",
        "_correlation_id",
        "_filled",
        "_head",
        "_in_flight",
        "_size",
        "peer",
        "response_bytes_max",
    )

    def __init__(self, client_id: str, response_bytes_max: int, peer: str = "the broker") -> None:
        """`peer` is the broker's name in error texts, such as its address."""
        self.peer = peer
        self.response_bytes_max = response_bytes_max
        """A longer response is refused before it is received. May be changed between responses."""
        self._client_id = client_id
        self._correlation_id = 0
        self._in_flight: deque[tuple[Api, int, int]] = deque()  # API, version, correlation id.
        self._head = bytearray(HEAD_BYTES)
        self._body: bytearray | None = None  # Only for a response that does not fit the head.
        self._size = 0  # The length that the body will have.
        self._filled = 0  # Bytes received of the head, or of the body if there is one.

    @property
    def in_flight(self) -> int:
        """How many requests have no response yet."""
        return len(self._in_flight)

    def send(self, request: Any, version: int) -> bytearray:
        """The frame to write for a request message; it is in flight from now on."""
        api = API_OF[type(request)]
        correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        frame = encode_request(api, version, correlation_id, self._client_id, request)
        self._correlation_id = correlation_id
        self._in_flight.append((api, version, correlation_id))
        return frame

    def space(self) -> bytearray | memoryview:
        """Where the next bytes are to be received; never empty. Let go of it before `received` is called."""
        body = self._body
        if body is None:
            return memoryview(self._head)[self._filled :] if self._filled else self._head
        if self._filled == len(body):
            body += memoryview(_ZEROS)[: self._size - len(body)]
        return memoryview(body)[self._filled :]

    def received(self, count: int) -> Any:
        """Take note of `count` bytes in `space`; the oldest request's response, or None while it is incomplete.

        One receive may bring several responses: with 0 bytes, it returns the next that is there already. Raises
        InvalidResponse.
        """
        frame = self.received_frame(count)
        return None if frame is None else self.decoded(frame)

    def received_frame(self, count: int) -> memoryview | None:
        """As `received`, but the whole response without its length: for `decoded`, `discard` or `next_sent`.

        Raises InvalidResponse.
        """
        self._filled += count
        if self._body is None:
            return self._frame_in_head()
        if self._filled < self._size:
            return None
        frame = memoryview(self._body)
        self._filled = 0
        self._body = None
        return frame

    def decoded(self, frame: memoryview) -> Any:
        """The message in the oldest request's response. Raises InvalidResponse."""
        api, version, _ = self._in_flight.popleft()
        try:
            return decode_response(api, version, frame)
        except WireError as error:
            raise InvalidResponse(f"{self.peer} sent a response that cannot be read: {error}") from None

    def discard(self) -> None:
        """The oldest request's response is dealt with."""
        self._in_flight.popleft()

    def next_sent(self, request: bytearray) -> None:
        """The oldest request's response is dealt with, and another request like it is sent: set its correlation id."""
        api, version, _ = self._in_flight.popleft()
        self._correlation_id = correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        _LENGTH.pack_into(request, REQUEST_CORRELATION_POSITION, correlation_id)
        self._in_flight.append((api, version, correlation_id))

    def _frame_in_head(self) -> memoryview | None:
        """The next response without its length, if all of it is in the head; a longer one moves to a body."""
        filled = self._filled
        if not self._in_flight:
            if filled:
                raise InvalidResponse(f"{self.peer} sent bytes that belong to no request")
            return None
        if filled < _LENGTH_AND_CORRELATION_ID.size:
            if filled >= _LENGTH.size:
                self._check_length(*_LENGTH.unpack_from(self._head))
            return None
        size, correlation_id = _LENGTH_AND_CORRELATION_ID.unpack_from(self._head)
        if not _CORRELATION_ID_BYTES <= size <= self.response_bytes_max:
            self._check_length(size)
        expected = self._in_flight[0][2]
        if correlation_id != expected:
            raise InvalidResponse(f"{self.peer} sent response {correlation_id} where {expected} was due")
        end = _LENGTH.size + size
        if filled < end:
            if end > HEAD_BYTES:
                self._size = size
                self._body = bytearray(memoryview(self._head)[_LENGTH.size : filled])
                self._filled = filled - _LENGTH.size
            return None
        # Copied, so that the head can be used again at once.
        frame = memoryview(bytes(memoryview(self._head)[_LENGTH.size : end]))
        rest = filled - end
        if rest:
            if len(self._in_flight) == 1:
                raise InvalidResponse(f"{self.peer} sent more bytes than the response")
            self._head[:rest] = self._head[end:filled]
        self._filled = rest
        return frame

    def _check_length(self, size: int) -> None:
        if not _CORRELATION_ID_BYTES <= size <= self.response_bytes_max:
            raise InvalidLength(self.peer, size, self.response_bytes_max, bytes(self._head[: _LENGTH.size]))


def encode_request(api: Api, version: int, correlation_id: int, client_id: str, request: Any) -> bytearray:
    """A whole request frame, length included."""
    frame = bytearray(_LENGTH.size)
    frame += request_header(api, version, correlation_id, client_id)
    slices: Slices = []
    codecs.encode_into(request, version, frame, slices)
    assert not slices, "a client's records are bytes, not slices of a file"
    _LENGTH.pack_into(frame, 0, len(frame) - _LENGTH.size)
    return frame


def decode_response(api: Api, version: int, frame: memoryview) -> Any:
    """The message in a response frame (without its length). Raises WireError. Records in it are views of `frame`."""
    # KIP-511: a broker that does not know the version of ApiVersions answers with an error, in version 0.
    if api is _API_VERSIONS and frame[4:6] == _UNSUPPORTED_VERSION:
        version = 0
    _, position = read_response_header(api, version, frame)
    return codecs.decoder(api.response, version)(frame, position)[0]
