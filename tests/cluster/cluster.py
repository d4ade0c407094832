"""A cluster of brokers of every kind on one machine: real Apache Kafka of both versions, and ours."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster.tree import Tree
from tests.outside.java import SHORT_LIVED, ApacheKafkaProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.support.wire_client import Client

Partition = tuple[str, int]

OURS: Final = "ours"
SECONDS_MAX: Final = 90.0
"""How long the cluster may take for one change: several JVMs share the machine's cores."""
IN_SYNC_SECONDS_MAX: Final = 10.0
"""How long a broker that was stopped in order may take, once it serves, until it is in sync everywhere."""
LAG_MS_MAX: Final = 2_500
SESSION_MS: Final = 6_000
STOPPED: Final = frozenset({0, 143})
"""The status after an orderly stop; a JVM's says by which signal it was asked."""
FLAGS: Final = ("-Xms128m", "-Xmx256m", *SHORT_LIVED)
COMMON: Final[dict[str, object]] = {
    "zookeeper.session.timeout.ms": SESSION_MS,
    "replica.lag.time.max.ms": LAG_MS_MAX,
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "unclean.leader.election.enable": "false",
    "controlled.shutdown.retry.backoff.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.min.isr": 2,
    "share.coordinator.state.topic.num.partitions": 1,
    # Without it the heap of each JVM would have to hold 128 MiB more.
    "log.cleaner.dedupe.buffer.size": 4_194_304,
}
_POLL_SECONDS: Final = 0.05
_FROZEN_SECONDS_MAX: Final = SESSION_MS / 3_000
"""A broker whose ping was due when it was frozen has its session yet when it goes on."""
_ERROR: Final = re.compile(
    r"^\[[^]]*\] (?:ERROR|FATAL) |^\S+ \[(?:error|critical) *\] |^Traceback "
    r"|(?i:failed to enqueue)|^\[[^]]*\] [A-Z]+ .*(?i:unexpected)"
)
"""How Apache Kafka begins a line of the worst kind, and how ours does; and what Apache Kafka says, at whatever level,
when another broker answers what it does not expect (KAFKA-14010)."""
_ALLOWED: Final[tuple[tuple[str, str], ...]] = (
    (r"Error for partition failing-\d+ at offset", "the leader's log directory has failed"),
    (r"Error while appending records to failing-\d+ in dir", "so it says when the directory is its own"),
    (r"from OfflinePartition to OnlinePartition", "the only replica of a partition is not there"),
    (r"cannot become follower since the new leader -1 is unavailable", "the same, on that replica"),
    (r"api(?:Key)?=UPDATE_METADATA[^\n]*\n.*ControllerMovedException", "a deposed controller's last words"),
    (r"Controller \d fails to send a request to broker", "it is deposed while it sends"),
    (
        r"Received error STALE_CONTROLLER_EPOCH in (?:LeaderAndIsr|StopReplica|UpdateMetadata) response",
        "it was frozen while another was elected, or was deposed while it sent",
    ),
    (r"\] log directory is offline ", "so ours says it when the directory is its own"),
    (
        r"Error processing append operation on partition[^\n]*\n[^\n]*OutOfOrderSequenceException",
        "Apache Kafka refused a batch before it led, and does not remember that for those behind it; they are sent again",
    ),
)
"""What a broker says of what is done to it here, and why it says so."""


class Cluster:
    """Brokers by id on one chroot; `protocol` is the inter.broker.protocol.version of all."""

    def __init__(self, directory: Path, zookeeper: str, protocol: str) -> None:
        self.directory = directory
        self.protocol = protocol
        self.tree = Tree(f"{zookeeper}/{directory.name}")
        self.brokers: dict[int, BrokerProcess] = {}
        self._admin: AdminClient | None = None

    def close(self) -> None:
        for process in self.brokers.values():
            process.kill()
        self._admin = None
        self.tree.close()

    def start(self, kinds: Mapping[int, str], overrides: Mapping[str, object] | None = None) -> None:
        """Start brokers together. A kind is an Apache Kafka version or OURS."""
        for broker_id, kind in kinds.items():
            self.brokers[broker_id] = self._made(broker_id, kind, overrides or {})
            self.brokers[broker_id].launch()
        for broker_id in kinds:
            process = self.brokers[broker_id]
            process.wait_until(process.is_ready, SECONDS_MAX, "be ready")
        self.wait(lambda: self.tree.registered() >= set(kinds), f"{sorted(kinds)} are registered")

    def _made(self, broker_id: int, kind: str, overrides: Mapping[str, object]) -> BrokerProcess:
        home = self.directory / f"{broker_id}-{kind}"
        settings: dict[str, object] = {
            **COMMON,
            "broker.id": broker_id,
            "log.dirs": f"{home}/data,{home}/data-2",
            "inter.broker.protocol.version": self.protocol,
            **overrides,
        }
        if kind == OURS:
            return SordiniProcess(home, {"zookeeper.connect": self.tree.connect, **settings})
        return ApacheKafkaProcess(home, self.tree.connect, settings, version=kind, flags=FLAGS)

    @property
    def bootstrap(self) -> str:
        return ",".join(process.bootstrap for process in self.brokers.values())

    @property
    def admin(self) -> AdminClient:
        """One client for all administration; it is made when the first brokers run."""
        if self._admin is None:
            self._admin = AdminClient(
                {"bootstrap.servers": self.bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0}
            )
        return self._admin

    def ours(self, broker_id: int) -> SordiniProcess:
        process = self.brokers[broker_id]
        assert isinstance(process, SordiniProcess)
        return process

    def is_ours(self, broker_id: int) -> bool:
        return isinstance(self.brokers[broker_id], SordiniProcess)

    def kill(self, broker_id: int) -> None:
        """kill -9; the cluster detects it when the session has expired."""
        self.brokers[broker_id].kill()

    def wait_until_gone(self, broker_id: int) -> None:
        self.wait(lambda: broker_id not in self.tree.registered(), f"broker {broker_id} is forgotten")

    def restart(self, broker_id: int) -> None:
        """Start a broker that was stopped or killed."""
        self.wait_until_gone(broker_id)
        process = self.brokers[broker_id]
        process.start()
        self.wait(lambda: broker_id in self.tree.registered(), f"broker {broker_id} is back")

    def stop_in_order(self, broker_id: int) -> None:
        """An orderly stop of one broker and its start; then all replicas have to be in sync in bounded time."""
        process = self.brokers[broker_id]
        process.terminate()
        status = process.wait_for_exit(SECONDS_MAX)
        assert status in STOPPED, f"broker {broker_id} ended with {status}\n{process.tail()}"
        assert "shut down without" not in process.output()
        self.restart(broker_id)
        self.wait(lambda: not self.under_replicated(), "no partition is under-replicated", IN_SYNC_SECONDS_MAX)

    def under_replicated(self) -> list[Partition]:
        """Partitions of which a replica is not in sync."""
        found = (
            (topic, number) for topic in self.tree.children("/brokers/topics") for number in self.tree.assignment(topic)
        )
        return [one for one in found if not self._is_full(*one)]

    def stop(self) -> None:
        """An orderly stop of all brokers at once."""
        for process in self.brokers.values():
            process.terminate()
        for broker, process in self.brokers.items():
            status = process.wait_for_exit(SECONDS_MAX)
            assert status in STOPPED, f"broker {broker} ended with {status}\n{process.tail()}"

    def ask_controller(self, request: Callable[[AdminClient], Mapping[Any, Future[Any]]]) -> None:
        """Repeat a request until the brokers know their present controller and grant it."""

        def granted() -> bool:
            self.admin.list_topics(timeout=SECONDS_MAX)  # The client updates its controller only with new metadata.
            try:
                for future in request(self.admin).values():
                    future.result(SECONDS_MAX)
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.NOT_CONTROLLER:
                    raise
                return False
            return True

        self.wait(granted, "the controller answers")

    def create(
        self, topic: str, assignment: Sequence[Sequence[int]], config: Mapping[str, str] | None = None
    ) -> list[Partition]:
        """Make a topic with these replicas, and wait until every partition has its first in-sync set."""
        wanted = NewTopic(
            topic, len(assignment), replica_assignment=[list(ids) for ids in assignment], config=dict(config or {})
        )
        self.ask_controller(lambda admin: admin.create_topics([wanted], operation_timeout=30, request_timeout=60))
        partitions = [(topic, number) for number in range(len(assignment))]
        self.wait_for_full_isr(partitions)
        self._wait_until_led(partitions)
        return partitions

    def _wait_until_led(self, partitions: Iterable[Partition]) -> None:
        """Until each leader knows that it is one.

        An idempotent client that has several requests under way to a leader that refuses the first and takes the
        second gets the answer that the first was a duplicate, and loses it, as with Apache Kafka alone.
        """
        for partition in partitions:
            self.wait(lambda one=partition: self._is_led(one), f"{partition} is served")

    def _is_led(self, partition: Partition) -> bool:
        topic, number = partition
        wanted = ListOffsetsPartition(partition_index=number, timestamp=-1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])
        with Client("127.0.0.1", self.brokers[self.leader(partition)].port) as client:
            answer = client.ask(ApiKey.LIST_OFFSETS, 5, request)
        return [one.error_code for row in answer.topics for one in row.partitions] == [0]

    def wait_until_known(self, partitions: Iterable[Partition]) -> None:
        """Until the metadata of every running broker has all of them: clients read nothing of unknown partitions."""
        wanted = set(partitions)
        for broker, process in self.brokers.items():
            self.wait(
                lambda one=process: (
                    not one.is_running or wanted <= partitions_known_to(one, {topic for topic, _ in wanted})
                ),
                f"{broker} knows of {sorted(wanted)}",
            )

    def add_partitions(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Let a topic grow by partitions with these replicas."""
        count = len(self.tree.assignment(topic)) + len(assignment)
        wanted = NewPartitions(topic, count, replica_assignment=[list(ids) for ids in assignment])
        self.ask_controller(lambda admin: admin.create_partitions([wanted], request_timeout=60))

    def create_internal(self, replicas: Sequence[int]) -> None:
        """The coordinators' topics, on the brokers that shall be coordinators."""
        common = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
        self.create("__consumer_offsets", [replicas], {**common, "compression.type": "producer"})
        own = {"compression.type": "uncompressed", "min.insync.replicas": "2"}
        self.create("__transaction_state", [replicas], {**common, **own})

    def move_controller(self, wanted: int) -> None:
        """Depose the controller while only one broker can be elected."""
        others = [process for broker, process in self.brokers.items() if broker != wanted and process.is_running]
        if self.tree.controller() == wanted:
            return

        def has_run() -> bool:
            with ExitStack() as stack:
                for process in others:
                    stack.enter_context(process.hung())
                self.tree.delete("/controller")
                deadline = time.monotonic() + _FROZEN_SECONDS_MAX
                while self.tree.controller() != wanted and time.monotonic() < deadline:
                    time.sleep(_POLL_SECONDS)
            return self.tree.controller() == wanted

        self.wait(has_run, f"{wanted} is the controller")

    def leader(self, partition: Partition) -> int:
        state = self.tree.state(*partition)
        return -1 if state is None else state.leader

    def isr(self, partition: Partition) -> set[int]:
        state = self.tree.state(*partition)
        return set() if state is None else set(state.isr)

    def wait_for_leader(self, partition: Partition, leader: int) -> None:
        self.wait(lambda: self.leader(partition) == leader, f"{leader} leads {partition}")

    def wait_for_isr(self, partition: Partition, wanted: Iterable[int]) -> None:
        members = set(wanted)
        self.wait(lambda: self.isr(partition) == members, f"{sorted(members)} are the in-sync set of {partition}")

    def wait_for_full_isr(self, partitions: Iterable[Partition]) -> None:
        """Until every replica of every one of them is in sync."""
        for topic, number in partitions:
            self.wait(
                lambda topic=topic, number=number: self._is_full(topic, number),
                f"every replica of {topic}-{number} is in sync",
            )

    def _is_full(self, topic: str, number: int) -> bool:
        replicas = self.tree.assignment(topic).get(number)
        return replicas is not None and self.isr((topic, number)) == set(replicas)

    def wait(self, condition: Callable[[], bool], what: object, seconds: float = SECONDS_MAX) -> None:
        """Poll; `what` is the sentence that never became true, made only then, and reported with the cluster's state."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"after {seconds:g} s it is not so that {what}\n{self.account()}"
            time.sleep(_POLL_SECONDS)

    def account(self) -> str:
        """Who is there, who leads what, and the end of every broker's log."""
        tree = self.tree
        lines = [f"registered {sorted(tree.registered())}, controller {tree.controller()}"]
        for topic in tree.children("/brokers/topics"):
            for number, replicas in sorted(tree.assignment(topic).items()):
                lines.append(f"{topic}-{number}: replicas {replicas}, {tree.state(topic, number)}")
        return "\n".join([*lines, *(process.tail() for process in self.brokers.values())])

    def errors(self) -> list[str]:
        """Error lines of the brokers' logs, each with the next, except for those that the test causes."""
        found = []
        for broker, process in self.brokers.items():
            lines = [*whole_log(process).splitlines(), ""]
            found += [f"{broker}: {line}\n    {cause}" for line, cause in pairwise(lines) if _ERROR.match(line)]
        return [one for one in found if not any(re.search(known, one) for known, _ in _ALLOWED)]


def partitions_known_to(process: BrokerProcess, topics: Iterable[str]) -> set[Partition]:
    """The partitions of these topics that a broker's metadata has."""
    rows = [MetadataRequestTopic(name=topic) for topic in topics]
    with Client("127.0.0.1", process.port) as client:
        answer = client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=rows, allow_auto_topic_creation=False))
    return {(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions}


def whole_log(process: BrokerProcess) -> str:
    """What it has printed in all its runs."""
    return process.log_path.read_text(errors="replace") if process.log_path.exists() else ""


def config_of(tree: Tree, topic: str) -> dict[str, Any]:
    """The topic's own settings, as ZooKeeper has them."""
    found = tree.read(f"/config/topics/{topic}")
    return {} if found is None else dict(found["config"])
