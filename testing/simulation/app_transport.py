"""A stream transport of asyncio over a simulated socket: what applications and their libraries get of the loop."""

from __future__ import annotations

import asyncio
from asyncio import transports
from typing import TYPE_CHECKING, Any, Final

from sordini.testing.simulation.simulated_network import SimSocket

if TYPE_CHECKING:
    from sordini.testing.simulation.app_loop import AppLoop

RECEIVE_BYTES: Final = 65_536


class AppTransport(transports._FlowControlMixin, transports.Transport):  # noqa: SLF001 - limits of buffers.
    """One connection of an application. Its callbacks run as the application's process."""

    def __init__(self, loop: AppLoop, socket: SimSocket, protocol: asyncio.BaseProtocol) -> None:
        super().__init__({"peername": socket.peer_address, "sockname": socket.local_address}, loop)
        self._loop = loop
        self._socket = socket
        self._protocol = protocol
        self._unsent = bytearray()
        self._received = bytearray(RECEIVE_BYTES)
        self._is_closing = False
        self._is_reading_paused = False
        self._ends_output = False
        """Whether the output ends once it is sent."""
        self._is_lost = False

    async def open(self) -> None:
        """Tell the protocol, and read from now on."""
        made = self._loop.create_future()
        self._loop.call_soon(self._protocol.connection_made, self)
        self._loop.call_soon(self._start_reading)
        self._loop.call_soon(_done, made)
        await made

    # Of asyncio.BaseTransport.

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        # A killed process's socket is closed. From Python 3.13 on streams complain of transports that nothing closed.
        return self._is_closing or self._socket.fileno() < 0

    def close(self) -> None:
        """Send what is buffered, then close."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.remove_reader(self._socket)
            if not self._unsent:
                self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self._break(None)

    # Of asyncio.ReadTransport.

    def is_reading(self) -> bool:
        return not self._is_closing and not self._is_reading_paused

    def pause_reading(self) -> None:
        if self.is_reading():
            self._is_reading_paused = True
            self._loop.remove_reader(self._socket)

    def resume_reading(self) -> None:
        if not self._is_closing and self._is_reading_paused:
            self._is_reading_paused = False
            self._loop.add_reader(self._socket, self._on_readable)

    # Of asyncio.WriteTransport.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_lost or not data:
            return
        if self._ends_output:
            raise RuntimeError("Cannot call write() after write_eof()")
        if not self._unsent:
            self._loop.add_writer(self._socket, self._on_writable)
        self._unsent += data
        self._on_writable()
        self._maybe_pause_protocol()  # type: ignore[attr-defined]

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._is_closing and not self._ends_output:
            self._ends_output = True
            if not self._unsent:
                self._socket.outward.finish()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    # Called by the loop.

    def _start_reading(self) -> None:
        if self.is_reading():
            self._loop.add_reader(self._socket, self._on_readable)

    def _on_readable(self) -> None:
        try:
            size = self._socket.recv_into(self._received)
        except OSError as error:
            self._break(error)
            return
        if size is None:
            return
        if size == 0:
            self._loop.remove_reader(self._socket)
            keeps_open = self._protocol.eof_received()  # type: ignore[attr-defined]
            if not keeps_open:
                self.close()
            return
        self._deliver(memoryview(self._received)[:size])

    def _deliver(self, data: memoryview) -> None:
        protocol: Any = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(bytes(data))
            return
        while data:
            room = memoryview(protocol.get_buffer(len(data)))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            protocol.buffer_updated(size)
            data = data[size:]

    def _on_writable(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except OSError as error:
            self._break(error)
            return
        del self._unsent[: sent or 0]
        self._maybe_resume_protocol()  # type: ignore[attr-defined]
        if not self._unsent:
            self._loop.remove_writer(self._socket)
            if self._is_closing:
                self._lose(None)
            elif self._ends_output:
                self._socket.outward.finish()

    def _break(self, error: OSError | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._unsent.clear()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._loop.call_soon(self._reset, error)

    def _lose(self, error: OSError | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._loop.remove_reader(self._socket)
            self._socket.close()
            self._protocol.connection_lost(error)

    def _reset(self, error: OSError | None) -> None:
        self._socket.close(reset=True)
        self._protocol.connection_lost(error)


def _done(made: asyncio.Future[None]) -> None:
    if not made.done():
        made.set_result(None)
