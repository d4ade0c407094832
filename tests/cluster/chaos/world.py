"""Three brokers, ZooKeeper and the clients, each as a process in its own corner of the network."""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from kazoo.exceptions import KazooException

from sordini.protocol.api import ApiKey
from sordini.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.cluster.chaos.events import Found, Recorder, State, Stopped
from tests.cluster.chaos.files import committed_heads, written_watermark
from tests.cluster.chaos.network import Network
from tests.cluster.chaos.replica_laws import digest
from tests.cluster.chaos.working import Orders, split
from tests.cluster.tree import Tree
from tests.outside.java import ZooKeeperProcess
from tests.outside.needs import ROOT
from tests.outside.processes import OutsideProcess, ProcessError, SordiniProcess
from tests.support.wire_client import Client

BROKERS: Final = (1, 2, 3)
TOPICS: Final = 4
PARTITIONS: Final = 3
OFFSETS_TOPIC: Final = "__consumer_offsets"
START_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.2
SETTINGS: Final[dict[str, object]] = {
    "zookeeper.session.timeout.ms": 4_000,
    "replica.lag.time.max.ms": 3_000,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "offsets.commit.timeout.ms": 4_000,
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.retry.backoff.ms": 500,
    "group.initial.rebalance.delay.ms": 500,
    "log.segment.bytes": 2_000_000,
    # So that a disk that refuses to sync is noticed within a fault's time.
    "replica.high.watermark.checkpoint.interval.ms": 1_000,
}


class ChaosBroker(SordiniProcess):
    """One broker, in the namespace of its number; its wall clock can be turned."""

    def __init__(self, directory: Path, broker_id: int, network: Network, zookeeper: str) -> None:
        super().__init__(directory)
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.log_path = directory / f"{self.name}.log"
        self.prefix = network.enter(str(broker_id))
        self._network = network
        self.address = network.serve(str(broker_id), self.port)
        self.overrides = {
            **SETTINGS,
            "listeners": f"PLAINTEXT://{network.address(str(broker_id))}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data_directory),
            "broker.id": broker_id,
            "zookeeper.connect": zookeeper,
        }
        self._clock = directory / "clock"
        self.shift_clock(0)

    def environment(self) -> dict[str, str]:
        path = str(Path(__file__).with_name("clock"))
        return {**os.environ, "PYTHONPATH": path, "SORDINI_CHAOS_CLOCK": str(self._clock)}

    def shift_clock(self, seconds: int) -> None:
        """Add so much to its wall clock, while it runs."""
        with self._clock.open("r+b" if self._clock.exists() else "w+b") as file:
            file.write(struct.pack("<q", seconds * 1_000_000_000))

    def launch(self) -> None:
        super().launch()
        self._network.joined(str(self.broker_id), self.pid)

    def is_ready(self) -> bool:
        return "sordini is ready" in self.output()


class ClientProcess(OutsideProcess):
    """One of this package's programs, in the clients' namespace."""

    def __init__(self, directory: Path, module: str, orders: Orders, prefix: Sequence[str]) -> None:
        self.name = orders.name
        super().__init__(directory)
        self._module, self._orders = module, orders
        self.prefix = prefix

    def command(self) -> list[str]:
        return [sys.executable, "-m", f"tests.cluster.chaos.{self._module}", json.dumps(self._orders._asdict())]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        return self.is_running


class World:
    """All processes of a run. `partitions` are those that the clients write."""

    def __init__(self, directory: Path, network: Network) -> None:
        self.directory = directory
        self.network = network
        self.recorder = Recorder(directory / "cluster.jsonl")
        self.zookeeper = ZooKeeperProcess(directory / "zookeeper", network.address("zookeeper"))
        self.zookeeper.prefix = network.enter("zookeeper")
        self._connect = f"{network.serve('zookeeper', self.zookeeper.port)}/chaos"
        self.partitions = [f"t{topic}-{number}" for topic in range(TOPICS) for number in range(PARTITIONS)]
        self.brokers = {one: ChaosBroker(directory / str(one), one, network, self._connect) for one in BROKERS}
        self.clients: dict[str, ClientProcess] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything is there, and gone in the end, whatever happens."""
        with ExitStack() as stack:
            stack.callback(self.recorder.close)
            self.zookeeper.start()
            stack.callback(self.zookeeper.kill)
            self.tree = Tree(f"{self.zookeeper.connect}/chaos")
            stack.callback(self.tree.close)
            for broker in self.brokers.values():
                stack.callback(broker.kill)
                broker.launch()
            for broker in self.brokers.values():
                broker.wait_until(broker.is_ready, START_SECONDS_MAX, "be ready")
            self._create_topics()
            yield
            for client in self.clients.values():
                client.kill()

    def _create_topics(self) -> None:
        """Every broker leads as many partitions as any other."""
        names = sorted({split(tp)[0] for tp in self.partitions})
        wanted = []
        for name in names:
            rows = [
                CreatableReplicaAssignment(
                    partition_index=number, broker_ids=[BROKERS[(number + shift) % 3] for shift in range(3)]
                )
                for number in range(PARTITIONS)
            ]
            wanted.append(CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=rows))
        host, _, port = self.brokers[self.controller()].address.rpartition(":")
        with Client(host, int(port)) as client:
            answer = client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=wanted, timeout_ms=20_000))
        assert [row.error_code for row in answer.topics] == [0] * len(names), answer
        assert self.wait_for(self.is_full, START_SECONDS_MAX), "the topics have no replicas"

    @property
    def addresses(self) -> list[str]:
        return [broker.address for broker in self.brokers.values()]

    def start_client(self, module: str, name: str, per_second: int = 0) -> ClientProcess:
        history = str(self.directory / f"{module}-{name}.jsonl")
        orders = Orders(name, self.addresses, self.partitions, history, per_second)
        client = ClientProcess(self.directory, module, orders, self.network.enter("clients"))
        client.launch()
        self.network.joined("clients", client.pid)
        self.clients[f"{module}-{name}"] = client
        return client

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Poll; whether it came true in time. What ZooKeeper does not answer is not true."""
        deadline = time.monotonic() + seconds
        while True:
            with suppress(KazooException):
                if condition():
                    return True
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)

    def controller(self) -> int:
        """Who it is, or was last seen to be about to be: a broker at any rate."""
        self.wait_for(lambda: self.tree.controller() in BROKERS, START_SECONDS_MAX)
        return self.tree.controller()

    def state(self, tp: str) -> State | None:
        found = self.tree.state(*split(tp))
        if found is None:
            return None
        return State(tp, found.leader, found.leader_epoch, list(found.isr), found.version, time.monotonic())

    def is_full(self) -> bool:
        """Whether all replicas of all partitions are in sync, of those that the clients write."""
        return self._are_full(self.partitions)

    def is_settled(self) -> bool:
        """Whether those of the groups' topic are in sync, too."""
        numbers = self.tree.assignment(OFFSETS_TOPIC)
        return self._are_full([*self.partitions, *(f"{OFFSETS_TOPIC}-{number}" for number in numbers)])

    def _are_full(self, tps: Iterable[str]) -> bool:
        return all((one := self.state(tp)) is not None and len(one.isr) == len(BROKERS) for tp in tps)

    def registered(self) -> set[int]:
        return self.tree.registered()

    def kill(self, broker_id: int) -> None:
        """SIGKILL; what it leaves behind is noted."""
        broker = self.brokers[broker_id]
        broker.kill()
        now = time.monotonic()
        for tp in self.partitions:
            mark = written_watermark(broker.data_directory, tp)
            rows = committed_heads(broker.data_directory / tp, mark)
            self.recorder.note(Stopped(broker_id, tp, now, mark, digest(rows)))

    def launch_again(self, broker_id: int) -> bool:
        """Start a broker that does not run; whether it serves."""
        broker = self.brokers[broker_id]
        if not broker.is_running:
            broker.launch()
        return broker.is_ready()

    def revive(self) -> None:
        """Start the brokers that do not run, and wait until all serve. A broker that does not in time is noted."""
        for broker in self.brokers.values():
            if not broker.is_running:
                broker.launch()
        for broker_id, broker in self.brokers.items():
            try:
                broker.wait_until(broker.is_ready, START_SECONDS_MAX, "be ready")
            except ProcessError as problem:
                self.recorder.note(Found("I14", f"broker {broker_id} does not come back: {problem}"))


class Watcher(threading.Thread):
    """Notes the state node of every partition again and again, by a session of its own."""

    def __init__(self, world: World) -> None:
        super().__init__(daemon=True)
        self._world = world
        self._tree = Tree(world.tree.connect)
        self._recorder = Recorder(world.directory / "states.jsonl")
        self._enough = threading.Event()

    def run(self) -> None:
        seen: dict[str, int] = {}
        while not self._enough.wait(POLL_SECONDS):
            for tp in self._world.partitions:
                try:
                    found = self._tree.state(*split(tp))
                except KazooException:
                    continue
                if found is None or seen.get(tp) == found.version:
                    continue
                seen[tp] = found.version
                isr = list(found.isr)
                self._recorder.note(State(tp, found.leader, found.leader_epoch, isr, found.version, time.monotonic()))

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self.join()
        self._recorder.close()
        self._tree.close()
