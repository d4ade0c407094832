"""The sockets that the shells of a client need; tests and the simulation put others behind them."""

from __future__ import annotations

from typing import Protocol


class Socket(Protocol):
    """A connected, non-blocking stream socket. Receiving and sending raise OSError when the connection is broken."""

    def fileno(self) -> int: ...

    def recv_into(self, buffer: bytearray | memoryview) -> int | None:
        """Bytes received; 0 at the end of the stream, None when there are none yet."""

    def send(self, data: memoryview) -> int | None:
        """Bytes taken, which may be fewer than given; None when none fit."""

    def close(self) -> None:
        """Give the descriptor back."""


class Rounds(Protocol):
    """A conversation that goes on without its caller: each response has the next request in it.

    It costs one callback for each response where a coroutine costs a future, a timer and two switches.
    """

    is_taken: bool
    """Whether the last response was dealt with; if not, it is the caller's."""

    def on_sent(self, frame: bytearray) -> None:
        """The frame of the first request, which is being sent; after its response it may be changed and sent again."""

    def on_response(self, frame: memoryview) -> bytearray | None:
        """The next request to send, in a buffer whose correlation id is still to be set; None when the rounds end.

        `frame` is a response without its length, valid during the call. The requests are of the first one's API and
        version. Whatever is raised ends the connection.
        """


class Transport(Protocol):
    """A connected byte stream. `send` and `receive_into` raise OSError; TimeoutError when the time is over."""

    def send(self, data: bytearray, seconds: float) -> None:
        """Send all of it within `seconds`."""

    def receive_into(self, buffer: bytearray | memoryview, seconds: float) -> int:
        """Bytes received, at least one, within `seconds`; 0 at the end of the stream."""

    def close(self) -> None:
        """Close. May be called again."""
