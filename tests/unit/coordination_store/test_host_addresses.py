"""No name delays the connection to a server of another name."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from sordini.coordination_store.host_addresses import HostAddresses, ServerAddress
from sordini.system.resolver import Found

ONE, TWO = ("zookeeper-1", 2181), ("zookeeper-2", 2182)
SOON_S = 0.05
ENOUGH_S = 60.0


class Resolver:
    """Knows some names at once, and answers others when it is allowed to."""

    def __init__(self) -> None:
        self.known = {"zookeeper-1": ["10.0.0.1"], "zookeeper-2": ["10.0.0.2"]}
        self.hanging: dict[str, threading.Event] = {}
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Found:
        self.asked.append(host)
        if host in self.hanging:
            assert self.hanging[host].wait(ENOUGH_S)
        if host not in self.known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, (address, port)) for address in self.known[host]]

    def hang(self, host: str) -> None:
        self.hanging[host] = threading.Event()

    def answer(self, host: str) -> None:
        self.hanging.pop(host).set()


@pytest.fixture
def resolver() -> Iterator[Resolver]:
    made = Resolver()
    yield made
    for event in made.hanging.values():
        event.set()


def test_every_name_has_its_addresses(resolver: Resolver) -> None:
    resolver.known["zookeeper-2"] = ["10.0.0.2", "10.0.1.2"]
    assert sorted(HostAddresses(resolver).resolved([ONE, TWO], ENOUGH_S)) == [
        ServerAddress("zookeeper-1", "10.0.0.1", 2181),
        ServerAddress("zookeeper-2", "10.0.0.2", 2182),
        ServerAddress("zookeeper-2", "10.0.1.2", 2182),
    ]


def test_a_name_whose_resolution_hangs_delays_no_other(resolver: Resolver) -> None:
    resolver.hang("zookeeper-2")
    assert HostAddresses(resolver).resolved([ONE, TWO], SOON_S) == [("zookeeper-1", "10.0.0.1", 2181)]


def test_it_has_the_addresses_of_its_last_answer_behind_those_that_were_found(resolver: Resolver) -> None:
    addresses = HostAddresses(resolver)
    addresses.resolved([ONE, TWO], ENOUGH_S)
    resolver.hang("zookeeper-1")
    for _ in range(20):  # Not by chance.
        assert [one.address for one in addresses.resolved([ONE, TWO], SOON_S / 10)][-1] == "10.0.0.1"


def test_a_name_that_hangs_is_resolved_once_and_its_answer_is_used_when_it_comes(resolver: Resolver) -> None:
    resolver.hang("zookeeper-2")
    addresses = HostAddresses(resolver)
    for _ in range(3):
        addresses.resolved([ONE, TWO], SOON_S)
    assert resolver.asked.count("zookeeper-2") == 1
    resolver.answer("zookeeper-2")
    assert ("zookeeper-2", "10.0.0.2", 2182) in addresses.resolved([ONE, TWO], ENOUGH_S)


def test_an_unknown_name_is_left_out_and_one_that_is_no_longer_known_has_its_last_addresses(resolver: Resolver) -> None:
    addresses = HostAddresses(resolver)
    del resolver.known["zookeeper-2"]
    assert addresses.resolved([ONE, TWO], ENOUGH_S) == [("zookeeper-1", "10.0.0.1", 2181)]
    del resolver.known["zookeeper-1"]
    resolver.known["zookeeper-2"] = ["10.0.0.9"]
    assert addresses.resolved([ONE, TWO], ENOUGH_S) == [
        ("zookeeper-2", "10.0.0.9", 2182),
        ("zookeeper-1", "10.0.0.1", 2181),
    ]


def test_without_any_address_there_is_none(resolver: Resolver) -> None:
    resolver.known.clear()
    assert HostAddresses(resolver).resolved([ONE, TWO], ENOUGH_S) == []
