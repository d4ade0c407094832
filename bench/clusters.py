"""Clusters of three brokers of one kind, for the parts of the benchmark that need more than one broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from bench import starting
from bench.client import load
from tests.outside.java import ApacheKafkaProcess, ZooKeeperProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import APACHE_KAFKA

IDS = (1, 2, 3)
SESSION_MS = 6_000
SECONDS_MAX = 120.0
_SETTINGS: dict[str, object] = {
    **starting.SETTINGS,
    "zookeeper.session.timeout.ms": SESSION_MS,
    "auto.leader.rebalance.enable": "false",  # Elections are requested when their time is measured.
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": 3,
}


class Labels(NamedTuple):
    """The two sides, as tables call them."""

    theirs: str
    ours: str


class Three:
    """Three brokers of one kind with a chroot of their own."""

    def __init__(self, label: str, brokers: dict[int, BrokerProcess], tree: KazooClient) -> None:
        self.label = label
        self.brokers = brokers
        self._tree = tree

    @property
    def bootstrap(self) -> str:
        """All that run."""
        return ",".join(process.bootstrap for process in self.brokers.values() if process.is_running)

    def controller(self) -> int:
        """The controller's id, -1 for none."""
        try:
            return int(json.loads(self._tree.get("/controller")[0])["brokerid"])
        except NoNodeError:
            return -1

    def registered(self) -> set[int]:
        try:
            return {int(name) for name in self._tree.get_children("/brokers/ids")}
        except NoNodeError:
            return set()

    def note_change_of_brokers(self) -> list[float]:
        """A list that will hold the moment (monotonic seconds) of the next change of who is registered."""
        moments: list[float] = []
        self._tree.get_children("/brokers/ids", watch=lambda _: moments.append(time.monotonic()))
        return moments

    def wait(self, condition: Callable[[], bool], awaited: str) -> None:
        """Poll until something is true. Raises SystemExit when it never is."""
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            if time.monotonic() > deadline:
                tails = "\n".join(process.tail() for process in self.brokers.values())
                raise SystemExit(f"{self.label}: it was never so that {awaited}\n{tails}")
            time.sleep(0.05)

    def settle(self, topic: str, want: str, *, topics: int = 1, partitions: int = 1) -> float:
        """Wait until partitions are as wanted (the work `settled`) and acknowledge records; the seconds it took."""
        shape = {"topics": topics, "partitions": partitions}
        return load(self.bootstrap, "settled", topic, want=want, **shape).seconds

    def back(self, broker_id: int) -> None:
        """Start a broker again that has ended."""
        self.wait(lambda: broker_id not in self.registered(), f"broker {broker_id} is forgotten")
        self.brokers[broker_id].start()
        self.wait(lambda: broker_id in self.registered(), f"broker {broker_id} has registered")


@contextmanager
def both(directory: Path, labels: Labels, *, apache_only: bool, ours_only: bool = False) -> Iterator[list[Three]]:
    """Theirs and ours, side by side on one ZooKeeper; only one of them has work at a time."""
    with ExitStack() as running:
        zookeeper = running.enter_context(ZooKeeperProcess(directory / "clusters-zookeeper"))
        sides = []
        for label, is_java in ((labels.theirs, True), (labels.ours, apache_only)):
            if ours_only and is_java:
                continue
            chroot = f"cluster-{len(sides)}"
            version = APACHE_KAFKA if is_java else ""
            home = directory / chroot
            sides.append(running.enter_context(three(home, label, zookeeper, chroot, version=version)))
        yield sides


@contextmanager
def three(
    home: Path,
    label: str,
    zookeeper: ZooKeeperProcess,
    chroot: str,
    *,
    version: str,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Three]:
    """One cluster that is ready: of an Apache Kafka, or of ours where there is no version."""
    with ExitStack() as running:
        root = running.enter_context(_client(zookeeper.connect))
        root.ensure_path(f"/{chroot}")
        connect = f"{zookeeper.connect}/{chroot}"
        tree = running.enter_context(_client(connect))
        own = {**_SETTINGS, **(settings or {})}
        brokers = {one: _made(home / str(one), connect, {**own, "broker.id": one}, version) for one in IDS}
        made = Three(label, brokers, tree)
        for process in brokers.values():
            running.callback(process.kill)
            process.launch()
        for process in brokers.values():
            process.wait_until(process.is_ready, SECONDS_MAX, "be ready")
        made.wait(lambda: made.registered() == set(IDS) and made.controller() in IDS, "all brokers are registered")
        yield made


def _made(home: Path, connect: str, settings: dict[str, object], version: str) -> BrokerProcess:
    if version:
        return ApacheKafkaProcess(home, connect, settings, version=version, flags=starting.HEAP)
    return SordiniProcess(home, {"zookeeper.connect": connect, **settings})


@contextmanager
def _client(connect: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=connect)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()
