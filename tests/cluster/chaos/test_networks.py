"""A cut holds bytes back in one direction, and healing delivers them."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.cluster.chaos.proxies import Proxies

SILENCE_SECONDS = 0.2


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that echoes in capitals."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while data := connection.recv(100):
                connection.sendall(data.upper())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(10)
    listener.close()


@pytest.mark.parametrize("direction", [("1", "2"), ("2", "1")])
def test_a_cut_direction_is_silent_until_it_is_healed_and_loses_nothing(echo: int, direction: tuple[str, str]) -> None:
    network = Proxies()
    network.joined("1", os.getpid())
    host, _, port = network.serve("2", echo).rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=10) as link:
            link.sendall(b"before")
            assert link.recv(100) == b"BEFORE"
            network.cut(*direction)
            link.sendall(b"meanwhile")
            link.settimeout(SILENCE_SECONDS)
            with pytest.raises(TimeoutError):
                link.recv(100)
            link.settimeout(10)
            network.heal()
            assert link.recv(100) == b"MEANWHILE"
    finally:
        network.close()


def test_a_cut_between_others_is_not_noticed(echo: int) -> None:
    network = Proxies()
    network.joined("1", os.getpid())
    host, _, port = network.serve("2", echo).rpartition(":")
    try:
        network.cut_both("3", "2")
        with socket.create_connection((host, int(port)), timeout=10) as link:
            link.sendall(b"still")
            assert link.recv(100) == b"STILL"
    finally:
        network.close()
