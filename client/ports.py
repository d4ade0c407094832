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


class Transport(Protocol):
    """A connected byte stream. `send` and `receive_into` raise OSError; TimeoutError when the time is over."""

    def send(self, data: bytearray, seconds: float) -> None:
        """Send all of it within `seconds`."""

    def receive_into(self, buffer: bytearray | memoryview, seconds: float) -> int:
        """Bytes received, at least one, within `seconds`; 0 at the end of the stream."""

    def close(self) -> None:
        """Close. May be called again."""
