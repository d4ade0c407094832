"""Connections to the console and to a registry end when their peers send or take nothing, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from uvicorn import Config
from uvicorn.server import ServerState

from sordini.cli.common.slow_peers import PEER_S, PeerBoundProtocol
from sordini.cli.common.web_server import server_config

WHOLE = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
HEAD = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n"


class Socket(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.unsent_bytes = 0
        self.is_aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return


class Timer:
    """What `call_later` returns."""

    def __init__(self, at_s: float, call: Callable[[], object], timers: list[Timer]) -> None:
        self.at_s, self.call, self._timers = at_s, call, timers

    def cancel(self) -> None:
        if self in self._timers:
            self._timers.remove(self)


class Loop:
    """A loop whose time is set; tasks do not run."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._timers: list[Timer] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call: Callable[[], object]) -> Timer:
        self._timers.append(Timer(self.now_s + delay_s, call, self._timers))
        return self._timers[-1]

    def get_debug(self) -> bool:
        return False

    def create_task(self, coroutine: Coroutine[Any, Any, Any], **others: Any) -> asyncio.Future[None]:
        coroutine.close()
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def wait(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while due := sorted((one for one in self._timers if one.at_s <= until_s), key=lambda one: one.at_s):
            due[0].cancel()
            self.now_s = due[0].at_s
            due[0].call()
        self.now_s = until_s


class Peer:
    """A connection, and what its peer does."""

    def __init__(self) -> None:
        self.loop, self.socket = Loop(), Socket()
        config = Config(answered, lifespan="off", ws="none", log_config=None)
        self.protocol = PeerBoundProtocol(config, ServerState(), {}, self.loop)  # type: ignore[arg-type]
        self.protocol.connection_made(self.socket)

    @property
    def is_ended(self) -> bool:
        return self.socket.is_aborted


async def answered(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("no request is answered")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD, HEAD + b"a"])
def test_a_peer_that_does_not_complete_its_request_is_cut_off(sent: bytes) -> None:
    peer = Peer()
    for byte in sent:  # Bytes now and then are no request either.
        peer.loop.wait(PEER_S / 100)
        peer.protocol.data_received(bytes([byte]))
    peer.loop.wait(2 * PEER_S)
    assert peer.is_ended


def test_a_request_that_is_worked_on_is_not_cut_off_however_long_it_takes() -> None:
    peer = Peer()
    peer.protocol.data_received(WHOLE)
    peer.loop.wait(50 * PEER_S)
    assert not peer.is_ended


def test_a_body_that_is_not_read_yet_is_not_late() -> None:
    peer = Peer()
    peer.protocol.data_received(HEAD)
    peer.protocol.flow.pause_reading()
    peer.loop.wait(5 * PEER_S)
    assert not peer.is_ended
    peer.protocol.flow.resume_reading()
    peer.loop.wait(PEER_S)
    assert peer.is_ended


def test_the_time_of_a_request_begins_with_the_end_of_the_response_before_it() -> None:
    peer = Peer()
    peer.loop.wait(0.9 * PEER_S)
    peer.protocol.on_response_complete()
    peer.protocol.data_received(b"GET / HT")
    peer.loop.wait(0.9 * PEER_S)
    assert not peer.is_ended
    peer.loop.wait(PEER_S)
    assert peer.is_ended


def test_a_peer_that_takes_nothing_of_a_response_is_cut_off_and_one_that_is_slow_is_not() -> None:
    peer = Peer()
    peer.protocol.data_received(WHOLE)
    for unsent_bytes in (9_000_000, 8_000_000, 7_000_000):
        peer.socket.unsent_bytes = unsent_bytes
        peer.loop.wait(PEER_S)
        assert not peer.is_ended
    peer.loop.wait(PEER_S)
    assert peer.is_ended


def test_a_stream_whose_buffer_was_emptied_between_two_checks_goes_on() -> None:
    peer = Peer()
    peer.protocol.data_received(WHOLE)
    for _ in range(5):
        peer.socket.unsent_bytes = 70_000
        peer.loop.wait(PEER_S)
        peer.protocol.resume_writing()
        assert not peer.is_ended


def test_the_console_and_registries_are_served_with_these_bounds() -> None:
    assert server_config(answered, None, None, lifespan="off").http_protocol_class is PeerBoundProtocol
