"""Three brokers, ZooKeeper and the clients, each as a process in its own corner of the network."""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import KazooException

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tests.cluster.chaos.events import Found, Recorder, State, Stopped
from tests.cluster.chaos.files import committed_heads, written_watermark
from tests.cluster.chaos.network import Network
from tests.cluster.chaos.replica_laws import digest
from tests.cluster.chaos.transaction_laws import COPY_SOURCE, COPY_TARGET
from tests.cluster.chaos.working import Orders, split
from tests.cluster.security import BROKER, CLIENT, Security, connected
from tests.cluster.tree import Tree
from tests.outside.java import ZooKeeperProcess
from tests.outside.needs import ROOT
from tests.outside.processes import OutsideProcess, ProcessError, SordiniProcess
from tests.support.wire_client import PATIENCE_S

BROKERS: Final = (1, 2, 3)
PARTITIONS: Final = 3
PLAIN_TOPICS: Final = ("t0", "t1", "t2", "t3")
"""Written by idempotent producers and by one that resends nothing, the last one in transactions, too."""
TRANSACTIONAL_TOPICS: Final = (COPY_SOURCE, "x1", COPY_TARGET)
IN_TRANSACTIONS: Final = (PLAIN_TOPICS[-1], COPY_SOURCE, "x1")
"""What transactional producers write to; the copying program writes its own."""
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
START_SECONDS_MAX: Final = 60.0
POLL_SECONDS: Final = 0.2
SETTINGS: Final[dict[str, object]] = {
    "zookeeper.session.timeout.ms": 4_000,
    "replica.lag.time.max.ms": 3_000,
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": PARTITIONS,
    "offsets.commit.timeout.ms": 4_000,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.num.partitions": PARTITIONS,
    "unclean.leader.election.enable": "false",
    "auto.create.topics.enable": "false",
    "controlled.shutdown.retry.backoff.ms": 500,
    "group.initial.rebalance.delay.ms": 500,
    "log.segment.bytes": 2_000_000,
    # So that a disk that refuses to sync is noticed within a fault's time.
    "replica.high.watermark.checkpoint.interval.ms": 1_000,
}


def partitions_of(topics: Iterable[str]) -> list[str]:
    return [f"{topic}-{number}" for topic in topics for number in range(PARTITIONS)]


class ChaosBroker(SordiniProcess):
    """One broker, in the namespace of its number; its wall clock can be turned."""

    def __init__(
        self, directory: Path, broker_id: int, network: Network, zookeeper: str, security: Security | None
    ) -> None:
        super().__init__(directory)
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.log_path = directory / f"{self.name}.log"
        self.prefix = network.enter(str(broker_id))
        self._network = network
        self.address = network.serve(str(broker_id), self.port)
        protocol = "PLAINTEXT" if security is None else "SASL_SSL"
        self.overrides = {
            **SETTINGS,
            "listeners": f"{protocol}://{network.address(str(broker_id))}:{self.port}",
            "advertised.listeners": f"{protocol}://{self.address}",
            "log.dirs": str(self.data_directory),
            "broker.id": broker_id,
            "zookeeper.connect": zookeeper,
            **({} if security is None else security.broker_settings(broker_id)),
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
        self.module, self.orders = module, orders
        self.prefix = prefix

    def command(self) -> list[str]:
        return [sys.executable, "-m", f"tests.cluster.chaos.{self.module}", json.dumps(self.orders._asdict())]

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        return self.is_running


class World:
    """All processes of a run. `partitions` are those that clients write, `plain` those that are not for transactions
    alone, `internal` those of coordinators. When it is `secured`, brokers and clients use TLS and SCRAM, and access is
    controlled.
    """

    def __init__(self, directory: Path, network: Network, *, secured: bool = False) -> None:
        self.directory = directory
        self.network = network
        self.recorder = Recorder(directory / "cluster.jsonl")
        self.zookeeper = ZooKeeperProcess(directory / "zookeeper", network.address("zookeeper"))
        self.zookeeper.prefix = network.enter("zookeeper")
        self._connect = f"{network.serve('zookeeper', self.zookeeper.port)}/chaos"
        self.plain = partitions_of(PLAIN_TOPICS)
        self.partitions = [*self.plain, *partitions_of(TRANSACTIONAL_TOPICS)]
        self.internal = partitions_of(INTERNAL_TOPICS)
        hosts = {one: network.address(str(one)) for one in BROKERS}
        self.security = Security(directory / "security", hosts) if secured else None
        self.brokers = {
            one: ChaosBroker(directory / str(one), one, network, self._connect, self.security) for one in BROKERS
        }
        self.clients: dict[str, ClientProcess] = {}
        self.ending: list[ClientProcess] = []
        """Clients that were asked to end, and whose successors are at work."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Everything is there, and gone in the end, whatever happens."""
        with ExitStack() as stack:
            stack.callback(self.recorder.close)
            self.zookeeper.start()
            stack.callback(self.zookeeper.kill)
            self.tree = Tree(f"{self.zookeeper.connect}/chaos")
            stack.callback(self.tree.close)
            if self.security is not None:
                self.security.store_users(self.tree)
            for broker in self.brokers.values():
                stack.callback(broker.kill)
                broker.launch()
            for broker in self.brokers.values():
                broker.wait_until(broker.is_ready, START_SECONDS_MAX, "be ready")
            self._create_topics()
            stack.callback(self._kill_clients)
            yield

    def _kill_clients(self) -> None:
        for client in [*self.clients.values(), *self.ending]:
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
        settings = {} if self.security is None else self.security.client_settings(BROKER)
        with connected(self.brokers[self.controller()].address, settings, PATIENCE_S) as client:
            if self.security is not None:
                self.security.create_entries(client)
            answer = client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=wanted, timeout_ms=20_000))
        assert [row.error_code for row in answer.topics] == [0] * len(names), answer
        assert self.wait_for(self.is_full, START_SECONDS_MAX), "the topics have no replicas"
        if self.security is not None:
            assert self.wait_for(lambda: self._are_described(names), START_SECONDS_MAX), (
                "not all brokers know the entries"
            )

    def _are_described(self, topics: Sequence[str]) -> bool:
        """Whether every broker has the access control entries, and so describes the topics to the clients' user."""
        for broker in self.brokers.values():
            with connected(broker.address, self.client_settings, PATIENCE_S) as client:
                if any(topic.error_code for topic in client.metadata(*topics).topics):
                    return False
        return True

    @property
    def addresses(self) -> list[str]:
        return [broker.address for broker in self.brokers.values()]

    @property
    def client_settings(self) -> dict[str, str]:
        """How clients connect, in librdkafka's names, without the addresses."""
        return {} if self.security is None else self.security.client_settings(CLIENT)

    @property
    def connection(self) -> dict[str, str]:
        """The same with the addresses."""
        return {"bootstrap.servers": ",".join(self.addresses), **self.client_settings}

    def start_client(self, module: str, name: str, partitions: Sequence[str], **orders: Any) -> ClientProcess:
        """`orders` are those of `Orders` that not every client has."""
        history = str(self.directory / f"{module}-{name}.jsonl")
        given = Orders(name, self.addresses, list(partitions), history, **{"security": self.client_settings, **orders})
        client = ClientProcess(self.directory, module, given, self.network.enter("clients"))
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
        """Whether those of coordinators are in sync, too."""
        return self._are_full([*self.partitions, *self.internal])

    def _are_full(self, tps: Iterable[str]) -> bool:
        return all((one := self.state(tp)) is not None and len(one.isr) == len(BROKERS) for tp in tps)

    def registered(self) -> set[int]:
        return self.tree.registered()

    def kill(self, broker_id: int) -> None:
        """SIGKILL; what it leaves behind is noted."""
        broker = self.brokers[broker_id]
        broker.kill()
        now = time.monotonic()
        for tp in [*self.partitions, *self.internal]:
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


def processor_seconds(world: World) -> float:
    """What all processes of the run have used, those that have ended and this one included."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    processes = [*world.brokers.values(), *world.clients.values(), *world.ending, world.zookeeper]
    seconds = ended.ru_utime + ended.ru_stime + time.process_time()
    for one in processes:
        if one.is_running:
            fields = Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()
            seconds += sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    return seconds


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
            for tp in [*self._world.partitions, *self._world.internal]:
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
