"""A cluster whose transactions have a coordinator of the chosen kind, and the kind that takes over from it.

    broker                   1 Apache Kafka    2 ours    4 ours
    __transaction_state-0    leader            next      follower
    __transaction_state-1    next              leader    follower

The same for `__consumer_offsets` and the partitions of a test's topic. 3, an Apache Kafka, and 5, ours, are there in
long runs: the other controller, and leaders that have no part in the coordinators' topics.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final, NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from sordini.broker.coordinators.partitioning import partition_for
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_transactions import DescribeTransactionsRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.cluster.cluster import OURS, SECONDS_MAX, Cluster, Partition
from tests.cluster.loads import read_all
from tests.cluster.transactional_clients import Librdkafka
from tests.support.wire_client import Client

THEIRS, OWN, THIRD, WITNESS, FIFTH = range(1, 6)
LEADERS: Final = (THEIRS, OWN)
"""By partition."""
REPLICAS: Final = [[THEIRS, OWN, WITNESS], [OWN, THEIRS, WITNESS]]
SAFE: Final = {"min.insync.replicas": "2"}
INTERNAL: Final = ("__transaction_state", "__consumer_offsets")
SETTINGS: Final[dict[str, object]] = {
    f"{topic}.num.partitions": len(REPLICAS) for topic in ("transaction.state.log", "offsets.topic")
}
QUICK_TIMEOUTS: Final = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 500}
"""Of Apache Kafka, which looks every ten seconds otherwise."""
TRANSACTION_TIMEOUT_MS: Final = 30_000
"""See `loads` for what a coordinator of Apache Kafka 2.7 needs it for."""
REQUEST_TIMEOUT_MS: Final = 10_000


def fill(cluster: Cluster, version: str, *, is_long: bool) -> None:
    """Start the brokers and make the coordinators' topics."""
    cluster.start(dict.fromkeys([THEIRS, *[THIRD] * is_long], version), {**SETTINGS, **QUICK_TIMEOUTS})
    cluster.start(dict.fromkeys([OWN, WITNESS, *[FIFTH] * is_long], OURS), SETTINGS)
    common = {"cleanup.policy": "compact", "segment.bytes": "104857600"}
    for topic, compression in zip(INTERNAL, ("uncompressed", "producer"), strict=True):
        cluster.create(topic, REPLICAS, {**common, **SAFE, "compression.type": compression})


def restore(cluster: Cluster) -> None:
    """All brokers run, are in sync, and lead what they shall lead."""
    for broker, process in cluster.brokers.items():
        if not process.is_running:
            cluster.restart(broker)
    internal = [(topic, number) for topic in INTERNAL for number in range(len(REPLICAS))]
    cluster.wait_for_full_isr(internal)
    cluster.tree.elect_preferred(internal)
    for one in internal:
        cluster.wait_for_leader(one, LEADERS[one[1]])


class Coordinated(NamedTuple):
    """One test's transactional id, group and topic; the id's coordinator is `broker`, the group's is the other one."""

    cluster: Cluster
    broker: int
    name: str
    group: str
    topic: str

    @classmethod
    def by(cls, cluster: Cluster, broker: int, assignment: list[list[int]]) -> Coordinated:
        topic = f"across-{uuid4().hex[:8]}"
        cluster.wait_until_known(cluster.create(topic, assignment, SAFE if len(assignment[0]) > 1 else {}))
        number = LEADERS.index(broker)
        made = cls(cluster, broker, _keyed("id", number), _keyed("group", 1 - number), topic)
        made.wait_for_coordinator(broker)
        return made

    def client(self, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS) -> Librdkafka:
        return Librdkafka(self.cluster.bootstrap, self.name, transaction_timeout_ms, REQUEST_TIMEOUT_MS)

    @property
    def successor(self) -> int:
        """The other kind."""
        return LEADERS[1 - LEADERS.index(self.broker)]

    def wait_for_coordinator(self, broker: int) -> None:
        """Until this broker serves the transactional id."""

        def serves() -> bool:
            if self.cluster.leader((INTERNAL[0], self._number)) != broker:
                return False
            # Its error is NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS as long as it does not.
            return self._find(broker) == broker

        self.cluster.wait(serves, f"{broker} is the coordinator of {self.name}")

    def state(self) -> str:
        """Of the transactional id, as its coordinator has it; Apache Kafka 2.7 has no API for that."""
        request = DescribeTransactionsRequest(transactional_ids=[self.name])
        leader = self.cluster.leader((INTERNAL[0], self._number))
        with Client("127.0.0.1", self.cluster.brokers[leader].port) as client:
            found = client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states[0]
        return str(found.transaction_state)

    def assert_settled(self, committed: list[list[bytes]], offset: int) -> None:
        """No transaction is open, and readers get just this; `offset` is -1 where none is committed."""
        partitions: list[Partition] = [(self.topic, number) for number in range(len(committed))]
        for one in partitions:
            self.cluster.wait(lambda at=one: self._is_stable(at), f"no transaction is open in {one}")
        found = read_all(self.cluster.bootstrap, partitions, "read_committed")
        assert [[value for _, value in found[one]] for one in partitions] == committed
        assert self._committed_offset() == offset

    @property
    def _number(self) -> int:
        return partition_for(self.name, len(REPLICAS))

    def _find(self, asked: int) -> int:
        request = FindCoordinatorRequest(key=self.name, key_type=1)
        with Client("127.0.0.1", self.cluster.brokers[asked].port) as client:
            answer = client.ask(ApiKey.FIND_COORDINATOR, 2, request)
        return -1 if answer.error_code else int(answer.node_id)

    def _is_stable(self, partition: Partition) -> bool:
        """Whether its last stable offset is its high watermark."""
        leader = self.cluster.leader(partition)
        if leader < 0 or not self.cluster.brokers[leader].is_running:
            return False
        topic, number = partition
        wanted = ListOffsetsPartition(partition_index=number, timestamp=-1)
        rows = [ListOffsetsTopic(name=topic, partitions=[wanted])]
        with Client("127.0.0.1", self.cluster.brokers[leader].port) as client:
            answers: list[Any] = [
                client.ask(
                    ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, isolation_level=level, topics=rows)
                )
                .topics[0]
                .partitions[0]
                for level in (0, 1)
            ]
        return not any(one.error_code for one in answers) and len({one.offset for one in answers}) == 1

    def _committed_offset(self) -> int:
        """Once no offset is pending."""
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": self.group, "log_level": 0})
        try:
            (found,) = consumer.committed([TopicPartition(self.topic, 0)], timeout=SECONDS_MAX)
        finally:
            consumer.close()
        return max(found.offset, -1)


def _keyed(prefix: str, number: int) -> str:
    """A new name of which this partition of the coordinators' topics has the records."""
    unique = uuid4().hex[:8]
    names = (f"{prefix}-{unique}-{attempt}" for attempt in count())
    return next(name for name in names if partition_for(name, len(REPLICAS)) == number)
