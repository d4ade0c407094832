"""One listener for this machine, for a network, and for a tunnel into another one: namespaces, and real clients in them.

this machine ── 127.0.0.1 ──────────────► broker      in `shop` clients reach the bridge's address;
shop ────────── the bridge's address ───► broker      in `tunnel` only what examples/listeners/forward.py forwards
tunnel ── 127.0.0.1:19092 ── forward.py ► broker
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cluster.chaos.network import Namespaces, NoNetworkError
from tests.outside.needs import ROOT, need_program
from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess, SordiniProcess

SECONDS_MAX = 60
TUNNEL_PORT = 19092


class Forwarder(OutsideProcess):
    """The program of examples/listeners that stands for a tunnel's."""

    name = "forward"

    def __init__(self, directory: Path, enter: Sequence[str], target: str) -> None:
        super().__init__(directory)
        self.prefix = self._enter = enter
        self._target = target

    def command(self) -> list[str]:
        return [sys.executable, str(ROOT / "examples" / "listeners" / "forward.py"), str(TUNNEL_PORT), self._target]

    def is_ready(self) -> bool:
        probe = f"import socket; socket.create_connection(('127.0.0.1', {TUNNEL_PORT}), 5)"
        return (
            subprocess.run([*self._enter, sys.executable, "-c", probe], check=False, capture_output=True).returncode
            == 0
        )


class Scene:
    """The broker here, two namespaces, and where clients of each reach the broker."""

    def __init__(self, directory: Path, network: Namespaces) -> None:
        bridge = f"{network.address('shop').rpartition('.')[0]}.254"
        port = free_port()
        self.enter = {"here": [], "shop": network.enter("shop"), "tunnel": network.enter("tunnel")}
        self.addresses = {
            "here": f"127.0.0.1:{port}",
            "shop": f"{bridge}:{port}",
            "tunnel": f"127.0.0.1:{TUNNEL_PORT}",
        }
        self.broker = SordiniProcess(directory / "broker", {"group.initial.rebalance.delay.ms": 0})
        self.broker.port, self.broker.bootstrap = port, self.addresses["here"]
        self.broker.overrides |= {
            "listeners": f"PLAINTEXT://:{port}",
            "advertised.listeners": f"PLAINTEXT://{self.addresses['here']}",
            "sordini.advertised.listeners.rules": (
                f"TUNNEL://{self.addresses['tunnel']} from={network.address('tunnel')}; "
                f"SHOP://{self.addresses['shop']} from={bridge.rpartition('.')[0]}.0/24"
            ),
        }
        self.forwarder = Forwarder(directory / "forward", self.enter["tunnel"], self.addresses["shop"])

    def run(self, place: str, *command: str, given: str = "") -> str:
        """What a command in one of the places prints."""
        words = [*self.enter[place], *command]
        done = subprocess.run(words, input=given, capture_output=True, text=True, check=False, timeout=SECONDS_MAX)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if os.geteuid() != 0:
        pytest.skip("namespaces of networks take root")
    try:
        network = Namespaces(["shop", "tunnel"])
    except NoNetworkError as reason:
        pytest.skip(str(reason))
    with ExitStack() as stack:
        stack.callback(network.close)
        made = Scene(tmp_path_factory.mktemp("networks"), network)
        stack.enter_context(made.broker)
        stack.enter_context(made.forwarder)
        yield made


@pytest.mark.parametrize("place", ["here", "shop", "tunnel"])
def test_librdkafka_receives_an_address_that_it_reaches_and_writes_and_reads(scene: Scene, place: str) -> None:
    kcat, address = need_program("kcat", "kcat"), scene.addresses[place]
    listed = scene.run(place, kcat, "-L", "-b", address)
    assert f" at {address} " in listed
    assert not [other for other in scene.addresses.values() if other != address and other in listed]
    scene.run(place, kcat, "-P", "-b", address, "-t", place, given="from there\n")
    read = scene.run(place, kcat, "-C", "-b", address, "-t", place, "-o", "beginning", "-e", "-q")
    assert read == "from there\n"


@pytest.mark.parametrize("place", ["here", "shop", "tunnel"])
def test_our_commands_read_with_a_group_in_each_place(scene: Scene, place: str) -> None:
    sordini, address = str(Path(sys.prefix) / "bin" / "sordini"), scene.addresses[place]
    topic = f"commands-{place}"
    scene.run(place, sordini, "produce", topic, "-b", address, given="from there\n")
    words = ("consume", topic, "--group", topic, "--from", "beginning", "--max-messages", "1", "-b", address)
    assert "from there" in scene.run(place, sordini, *words)
