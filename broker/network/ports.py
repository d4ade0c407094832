"""The network port, and the few types that the network and the rest of the broker share.

`Network`, `ListeningSocket` and `Socket` are shaped like system calls, so that a simulator can stand in for the
kernel with every line above unchanged. What would block is an answer (`None`), not an exception, because it happens
on every drained socket. The port's socket objects themselves are given to `loop.add_reader` and `add_writer`: real
loops ask them for `fileno()`, the simulator's loop knows its own.

    bytes -> Socket -> FrameReader -> Service.serve(peer, frame) -> Parts | Pending | None -> Transport -> Socket

A `Service` is called once per request, in order. What it returns is a whole response frame, length and header
included, as a list of parts; or a `Pending`, when the answer comes later; or None, when no answer is sent (acks=0).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from sordini.protocol.request_pipeline import Turn
from sordini.storage.disk import File

Buffer = bytes | bytearray | memoryview


class Slice(Protocol):
    """A range of a file that leaves by reference; it pins what it points into until it is released."""

    @property
    def file(self) -> File: ...

    @property
    def position(self) -> int: ...

    @property
    def size(self) -> int: ...

    def release(self) -> None:
        """Give up the pin. Called exactly once, on every path, by whoever holds the slice last."""


Part = bytes | bytearray | memoryview | Slice
Parts = list[Part]


class SliceError(Exception):
    """The file's side of a `sendfile` failed (the socket's side raises OSError); the cause is attached."""


class Socket(Protocol):
    """One connected, non-blocking stream socket. Every method raises OSError when the connection is broken."""

    def fileno(self) -> int: ...

    @property
    def peer_address(self) -> tuple[str, int]:
        """The other end's address and port."""

    @property
    def local_address(self) -> tuple[str, int]: ...

    def recv_into(self, buffer: bytearray | memoryview) -> int | None:
        """Bytes received; 0 at the end of the stream, None when nothing is there yet."""

    def send(self, data: Buffer, *, more: bool = False) -> int | None:
        """Bytes taken, which may be fewer than given; None when none fit. `more`: do not push a short packet yet."""

    def send_many(self, buffers: Sequence[Buffer], *, more: bool = False) -> int | None:
        """As `send`, for several buffers in one call."""

    def sendfile(self, file: File, position: int, size: int) -> int | None:
        """Bytes taken from the file; 0 when the file has none there, None when none fit. Raises SliceError, too."""

    def unsent(self) -> int:
        """Bytes given to this socket that the other end has not acknowledged."""

    def close(self, *, reset: bool = False) -> None:
        """Give the descriptor back. `reset` throws away what was not sent yet, instead of sending it first."""


class ListeningSocket(Protocol):
    """A bound, listening, non-blocking socket."""

    def fileno(self) -> int: ...

    @property
    def address(self) -> tuple[str, int]:
        """Where it really listens: the port that the system chose when 0 was asked for."""

    def accept(self) -> Socket | None:
        """The next connection, or None when there is none. Raises OSError (EMFILE, ENFILE, ECONNABORTED...)."""

    def close(self) -> None: ...


class SocketOptions(NamedTuple):
    """What every socket of a listener is set to. Sizes of -1 leave the system's choice (Apache Kafka's meaning)."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    keepalive_idle_s: int = 60
    keepalive_interval_s: int = 10
    keepalive_probes: int = 6
    user_timeout_ms: int = 30_000


class Network(Protocol):
    """Where sockets come from."""

    def listen(self, host: str, port: int, options: SocketOptions) -> list[ListeningSocket]:
        """Listen on every address of `host` (empty: every address there is). Raises OSError naming the address."""

    async def connect(self, address: tuple[str, int], options: SocketOptions, timeout_ms: int) -> Socket:
        """A connection to a host (a name or an address) and port, the host's addresses tried one after the other.

        Raises OSError when there is none within `timeout_ms`, looking up the name included. A name is looked up
        beside the loop. Cancelled, it leaves nothing open.
        """


class PageCache(Protocol):
    """Says whether bytes of a file can be read without waiting for the disk, and brings them in when they cannot."""

    def is_warm(self, file: File, position: int, size: int) -> bool: ...

    def warm(self, file: File, position: int, size: int) -> Awaitable[object]:
        """Read the range beside the loop. Never raises for the file's sake: the send that follows will tell."""


class Log(Protocol):
    """A structured logger: one event per line, facts as fields."""

    def debug(self, event: str, **fields: Any) -> object: ...

    def info(self, event: str, **fields: Any) -> object: ...

    def warning(self, event: str, **fields: Any) -> object: ...

    def error(self, event: str, **fields: Any) -> object: ...


class Peer:
    """Who is at the other end of a connection, as far as it is known, and what is remembered about them."""

    __slots__ = (
        "address",
        "connection_id",
        "listener",
        "port",
        "security_protocol",
        "session",
        "software_name",
        "software_version",
    )

    def __init__(self, listener: str, security_protocol: str, address: str, port: int, connection_id: str) -> None:
        self.listener = listener
        self.security_protocol = security_protocol
        self.address = address
        self.port = port
        self.connection_id = connection_id
        self.software_name = "unknown"
        self.software_version = "unknown"
        self.session: Any = None  # Free for whoever serves: the network never looks at it.

    def __str__(self) -> str:
        """`address:port`, IPv6 addresses in brackets."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


class Pending(Turn):
    """An answer that is completed later, once: `resolve(parts)`, or `resolve(None)` for no answer at all.

    When the connection dies first, `on_abandon` is called, once, and a later `resolve` only releases the slices it
    was given. `resolve` may be called before `serve` has returned the object. It sends at once when the order allows,
    and never calls the service: the requests behind it are started by their processor afterwards.
    """

    __slots__ = ("_deliver", "abandoned", "on_abandon", "on_answer", "on_failure")

    def __init__(self, on_abandon: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.on_abandon = on_abandon
        self.on_answer: Callable[[], None] | None = None  # For whoever counts how long answers take.
        self.on_failure: Callable[[Exception], None] | None = None  # The connection's, of an answer that holds.
        self.abandoned = False
        self._deliver: Callable[[], None] | None = None

    @property
    def parts(self) -> Parts | None:
        """The answer, when it is there."""
        answer: Parts | None = self.answer
        return answer

    def resolve(self, parts: Parts | None) -> None:
        """Complete the answer. A second call is a bug."""
        assert not self.is_answered, "a pending answer was resolved twice"
        self.is_answered = True
        if self.abandoned:
            release_parts(parts)
            return
        if self.on_answer is not None:
            self.on_answer()
        self.answer = parts
        if self._deliver is not None:
            self._deliver()

    def let_go(self) -> None:
        """What was to be written is written: requests behind this one may start."""
        if self.holds:
            self.holds = False
            if self._deliver is not None:
                self._deliver()

    def fail(self, error: Exception) -> None:
        """Instead of an answer: the connection ends with this error."""
        if not self.abandoned and self.on_failure is not None:
            self.on_failure(error)
        self.holds = False
        self.resolve(None)

    def attach(self, deliver: Callable[[], None]) -> None:
        """The connection takes the place in its order; `deliver` is called when the answer is complete."""
        self._deliver = deliver

    def abandon(self) -> None:
        """The connection is gone: drop a complete answer that was waiting for its turn, or call `on_abandon`."""
        assert not self.abandoned, "a pending answer was abandoned twice"
        self.abandoned = True
        self._deliver = None
        if self.is_answered:
            parts, self.answer = self.answer, None
            release_parts(parts)
        elif self.on_abandon is not None:
            self.on_abandon()


class Service(Protocol):
    """What answers requests."""

    def serve(self, peer: Peer, frame: memoryview) -> Parts | Pending | None:
        """Start one request.

        `frame` is the request without its length; it is writable. Whoever keeps a view of it keeps the whole
        receive buffer (64 KiB or more), which is never written to again while a view lives: copy small things.
        Raises WireError to close the connection.
        """


def release_parts(parts: Parts | None) -> None:
    """Give up the slices of an answer that will not be sent."""
    for part in parts or ():
        if not isinstance(part, (bytes, bytearray, memoryview)):
            part.release()
