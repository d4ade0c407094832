"""`sordini doctor` beside networks of containers: real ones, of network namespaces, where this machine allows them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.chaos.network import Namespaces, NoNetworkError
from tests.doctor.running import PROGRAM, command_line, examined
from tests.outside.needs import need
from tests.outside.ports import is_listening
from tests.outside.processes import SordiniProcess


class FarBroker(SordiniProcess):
    """A broker in a network namespace of its own, which listens on all its addresses."""

    def __init__(self, directory: Path, prefix: list[str], address: str, advertised: str) -> None:
        super().__init__(directory)
        self.prefix = prefix
        self.address = address
        self.overrides["listeners"] = f"PLAINTEXT://0.0.0.0:{self.port}"
        self.overrides["advertised.listeners"] = f"PLAINTEXT://{advertised}:{self.port}"

    def is_ready(self) -> bool:
        return "sordini is ready" in self.output() or is_listening(self.port)


@pytest.fixture
def network() -> Iterator[Namespaces]:
    need(shutil.which("ip"), "ip", "`apt-get install iproute2` installs it")
    try:
        made = Namespaces(["far", "near"])
    except NoNetworkError as error:
        need(False, "a network namespace", str(error))
        raise
    yield made
    made.close()


def test_a_loopback_address_is_named_where_the_bootstrap_is_another_machine(
    network: Namespaces, tmp_path: Path
) -> None:
    broker = FarBroker(tmp_path / "broker", network.enter("far"), network.address("far"), "localhost")
    with broker:
        done = examined(
            command_line(tmp_path, f"{broker.address}:{broker.port}", {}, "--timeout", "3"), network.enter("near")
        )
    assert done.wrong == ["advertised-loopback"], done.text
    remedy = done.finding("advertised-loopback")["remedy"]["lines"]
    assert remedy == [f"advertised.listeners=PLAINTEXT://{broker.address}:{broker.port}"]


def test_a_loopback_address_is_a_note_on_the_broker_s_own_machine(network: Namespaces, tmp_path: Path) -> None:
    broker = FarBroker(tmp_path / "broker", network.enter("far"), network.address("far"), "localhost")
    with broker:
        done = examined(
            command_line(tmp_path, f"{broker.address}:{broker.port}", {}, "--timeout", "3"), network.enter("far")
        )
    assert (done.wrong, done.notes, done.status) == ([], ["advertised-loopback-to-this-machine"], 0), done.text


def test_the_address_of_a_container_network_is_named_where_it_is_not_reached(
    network: Namespaces, tmp_path: Path
) -> None:
    broker = FarBroker(tmp_path / "broker", network.enter("far"), network.address("far"), "172.31.200.9")
    with broker:
        done = examined([PROGRAM, "doctor", f"127.0.0.1:{broker.port}", "--timeout", "2"], network.enter("far"))
    assert done.wrong == ["advertised-container-network"], done.text


def test_an_address_that_is_reached_from_here_is_well_whatever_network_it_is_of(
    network: Namespaces, tmp_path: Path
) -> None:
    address = network.address("far")
    broker = FarBroker(tmp_path / "broker", network.enter("far"), address, address)
    with broker:
        done = examined([PROGRAM, "doctor", f"{address}:{broker.port}"], network.enter("near"))
    assert (done.wrong, done.notes) == ([], []), done.text
