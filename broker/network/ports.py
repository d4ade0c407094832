"""The network port, and the few types that the network and the rest of the broker share.

`Network`, `ListeningSocket` and `Socket` are shaped like system calls, so that a simulator can replace the kernel and
every layer above stays the same. A call that would block returns `None` instead of raising, because that happens on
every drained socket. The socket objects themselves are passed to `loop.add_reader` and `add_writer`: real loops call
their `fileno()`, the simulator's loop recognises its own objects.

    Socket -> FrameReader -> Service.serve(peer, frame) -> Parts | DelayedResponse | None -> Transport -> Socket

A `Service` is called once per request, in order. It returns a whole response frame, length and header included, as a
list of parts; or a `DelayedResponse`, which is completed later; or None, when no response is sent (acks=0).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Protocol

from sordini.broker.network.principal import ANONYMOUS
from sordini.protocol.request_pipeline import ResponseSlot
from sordini.storage.disk import File
from sordini.system.named_tuple import NamedTuple

Buffer = bytes | bytearray | memoryview


class Slice(Protocol):
    """A range of a file that is sent by reference; it pins the file until it is released."""

    @property
    def file(self) -> File: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...

    def release(self) -> None:
        """Give up the pin. Called exactly once, on every path, by the last owner of the slice."""


Part = bytes | bytearray | memoryview | Slice
Parts = list[Part]


class SliceError(Exception):
    """The file's side of a `sendfile` failed (the socket's side raises OSError); the cause is attached."""


class Socket(Protocol):
    """One connected, non-blocking stream socket. Every method raises OSError when the connection is broken."""

    def fileno(self) -> int: ...

    @property
    def peer_address(self) -> tuple[str, int]:
        """The peer's address and port."""

    @property
    def local_address(self) -> tuple[str, int]: ...

    def recv_into(self, buffer: bytearray | memoryview) -> int | None:
        """Bytes received; 0 at the end of the stream, None when none have arrived."""

    def send(self, data: Buffer, *, more: bool = False) -> int | None:
        """Bytes taken, which may be fewer than given; None when none fit. `more`: do not push a short packet yet."""

    def send_many(self, buffers: Sequence[Buffer], *, more: bool = False) -> int | None:
        """As `send`, for several buffers in one call."""

    def sendfile(self, file: File, position: int, size: int) -> int | None:
        """Bytes taken from the file; 0 past the end of the file, None when none fit. Raises SliceError, too."""

    def unsent(self) -> int:
        """Bytes given to this socket that the peer has not acknowledged."""

    def close(self, *, reset: bool = False) -> None:
        """Close the descriptor. `reset` discards unsent bytes (the peer gets RST) instead of sending them first."""


class ListeningSocket(Protocol):
    """A bound, listening, non-blocking socket."""

    def fileno(self) -> int: ...

    @property
    def address(self) -> tuple[str, int]:
        """The bound address, with the port that the system chose when 0 was given."""

    def accept(self) -> Socket | None:
        """The next connection, or None when there is none. Raises OSError (EMFILE, ENFILE, ECONNABORTED...)."""

    def close(self) -> None: ...


class SocketOptions(NamedTuple):
    """Options of every socket of a listener. Sizes of -1 keep the system's default (as in Apache Kafka)."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    keepalive_idle_s: int = 60
    keepalive_interval_s: int = 10
    keepalive_probes: int = 6
    user_timeout_ms: int = 30_000


class Network(Protocol):
    """Opens sockets."""

    def listen(self, host: str, port: int, options: SocketOptions) -> list[ListeningSocket]:
        """Listen on every address of `host` (empty: on all interfaces). Raises OSError naming the address."""

    async def connect(self, address: tuple[str, int], options: SocketOptions, timeout_ms: int) -> Socket:
        """A connection to a host (a name or an address) and port, whose addresses are tried one after the other.

        Raises OSError when none succeeds within `timeout_ms`, name resolution included. Names are resolved beside the
        loop. Cancellation leaves nothing open.
        """


class PageCache(Protocol):
    """Tells whether bytes of a file can be read without waiting for the disk, and reads them ahead if not."""

    def is_warm(self, file: File, position: int, size: int) -> bool: ...

    def warm(self, file: File, position: int, size: int) -> Awaitable[object]:
        """Read the range beside the loop. Errors of the file are not raised here: the send that follows raises them."""


class LoginState(Protocol):
    """The login of one connection, as the network sees it (`broker/security/sasl/login.py`)."""

    on_complete: Callable[[], None]
    """Called at the first login; set by the connection."""

    @property
    def receive_bytes_max(self) -> int:
        """Size of a frame before the login is complete."""

    def why_close(self, age_ms: int) -> str | None:
        """Why the connection, which is so old, must be closed; None where it may stay."""

    def closed(self) -> None:
        """The connection is closed."""


class Peer:
    """The client or broker at the other side of a connection, and what it has said of itself."""

    __slots__ = (
        "address",
        "connection_id",
        "endpoint_name",
        "gate",
        "listener",
        "login",
        "mute",
        "number",
        "on_closed",
        "port",
        "prefix_ends",
        "principal",
        "security_protocol",
        "session",
        "software_name",
        "software_version",
    )

    def __init__(
        self, listener: str, security_protocol: str, address: str, port: int, connection_id: str, number: int = 0
    ) -> None:
        """`number` is the count of connections that this broker accepted before, on all listeners."""
        self.listener = listener
        self.endpoint_name = listener
        """Under which name it is answered with addresses of brokers: its listener, or the rule that holds for it."""
        self.number = number
        self.security_protocol = security_protocol
        self.address = address
        self.port = port
        self.connection_id = connection_id
        self.software_name = "unknown"
        self.software_version = "unknown"
        self.principal = ANONYMOUS
        """Who the peer has proven to be; ANONYMOUS until then, and for ever on a listener without authentication."""
        self.login: LoginState | None = None
        """On a SASL listener; set before the first request."""
        self.gate: Service | None = None
        """Serves this connection instead of the broker's service, until the peer has authenticated."""
        self.mute: Callable[[int], None] = not_connected
        """Reads no request of this connection for so many milliseconds."""
        self.on_closed: dict[Hashable, Callable[[], None]] | None = None
        """Called when the connection is closed, behind its delayed responses; the keys are the service's."""
        # For the service: the network does not use them.
        self.session: Any = None
        self.prefix_ends: tuple[int, ...] = ()
        """Where prefixes of its prepared requests end (`broker/records/prepared`), the newest length first."""

    def __str__(self) -> str:
        """`address:port`, IPv6 addresses in brackets."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class DelayedResponse(ResponseSlot):
    """A response that is completed later, once: `resolve(parts)`, or `resolve(None)` for no response at all.

    When the connection closes first, `on_abandon` is called, once, and a later `resolve` only releases the slices it
    is given. `resolve` may be called before `serve` has returned the object. It sends at once when the order allows,
    and never calls the service: the processor starts the requests behind it afterwards.
    """

    __slots__ = ("_deliver", "abandoned", "amend", "failure", "on_abandon", "on_answer", "on_failure", "time_ns")

    def __init__(self, on_abandon: Callable[[], None] | None = None) -> None:
        # As the base class does: a call for each fetch that waits.
        self.is_answered = False
        self.answer = None
        self.is_produce = False
        self.frame_bytes = 0
        self.blocks_pipeline = False
        self.on_abandon = on_abandon
        self.on_answer: Callable[[], None] | None = None  # For the latency metrics.
        self.failure: Exception | None = None
        self.on_failure: Callable[[Exception], None] | None = None  # Set by the connection.
        self.abandoned = False
        self.amend: Callable[[Parts | None], Parts | None] | None = None  # Changes the response before it is sent.
        self.time_ns: Callable[[], int] | None = None  # How long slices of its work have taken.
        self._deliver: Callable[[], None] | None = None

    @property
    def parts(self) -> Parts | None:
        """The response, once it is complete."""
        answer: Parts | None = self.answer
        return answer

    def resolve(self, parts: Parts | None) -> None:
        """Complete the response. A second call is a bug."""
        assert not self.is_answered, "a delayed response was resolved twice"
        self.is_answered = True
        if self.abandoned:
            release_parts(parts)
            return
        if self.amend is not None:
            parts = self.amend(parts)
        if self.on_answer is not None:
            self.on_answer()
        self.answer = parts
        if self._deliver is not None:
            self._deliver()

    def unblock_pipeline(self) -> None:
        """The request has appended its records: requests behind it may start."""
        if self.blocks_pipeline:
            self.blocks_pipeline = False
            if self._deliver is not None:
                self._deliver()

    def fail(self, error: Exception) -> None:
        """Instead of a response: the connection is closed with this error."""
        self._fail(error)
        self.blocks_pipeline = False
        self.resolve(None)

    def _fail(self, error: Exception) -> None:
        self.failure = error  # For the connection, if it does not have this object yet.
        if not self.abandoned and self.on_failure is not None:
            self.on_failure(error)

    def attach(self, deliver: Callable[[], None]) -> None:
        """Called by the connection; `deliver` is called when the response is complete."""
        self._deliver = deliver

    def forward_to(self, outer: DelayedResponse) -> None:
        """Complete `outer`, the response that the connection knows, with what completes this one."""
        if outer.abandoned:
            self.abandon()
        elif self.is_answered:
            if self.failure is not None:
                outer._fail(self.failure)
            outer.resolve(self.parts)
        else:
            outer.on_abandon = self.abandon
            self.on_failure = outer._fail
            if self.blocks_pipeline:
                self.attach(lambda: self._forward_progress(outer))
            else:
                outer.unblock_pipeline()
                self.attach(lambda: outer.resolve(self.parts))

    def _forward_progress(self, outer: DelayedResponse) -> None:
        """Called when this response is complete, or has unblocked the pipeline."""
        if self.is_answered:
            outer.resolve(self.parts)
        elif not self.blocks_pipeline:
            outer.unblock_pipeline()

    def abandon(self) -> None:
        """The connection has closed: release a complete response that was not sent yet, or call `on_abandon`."""
        assert not self.abandoned, "a delayed response was abandoned twice"
        self.abandoned = True
        self._deliver = None
        if self.is_answered:
            parts, self.answer = self.answer, None
            release_parts(parts)
        elif self.on_abandon is not None:
            self.on_abandon()


class Service(Protocol):
    """Answers requests."""

    def serve(self, peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        """Start one request.

        `frame` is the request without its length; it is writable. A view of it keeps the whole receive buffer (64 KiB
        or more), which is not reused while a view exists: copy small values. Raises WireError to close the connection.
        """


def not_connected(_duration_ms: int) -> None:
    """Without a connection there is nothing to mute."""


def release_parts(parts: Parts | None) -> None:
    """Release the slices of a response that will not be sent."""
    for part in parts or ():
        if not isinstance(part, (bytes, bytearray, memoryview)):
            part.release()
