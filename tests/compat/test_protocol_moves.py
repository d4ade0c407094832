"""A group in use whose members are replaced one by one: from the classic protocol to the consumer protocol, and back.

At every moment both kinds are members of one group, kafka-python's among them, which speaks the classic protocol only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, KafkaProducer

from tests.compat.groups.member import Settings
from tests.compat.groups.members import MemberProcess, Partition, await_shared
from tests.compat.groups.polled import QUICK_MEMBERS
from tests.compat.groups.waiting import eventually
from tests.outside.processes import BrokerProcess

TOPIC, GROUP = "orders", "billing"
PARTITIONS = [(TOPIC, partition) for partition in range(6)]
RECORDS_EACH = 5
ANSWER_S = 15
StartBroker = Callable[[dict[str, object]], BrokerProcess]


class Kind(NamedTuple):
    """A client library, and the protocol that it is set to."""

    client: str
    protocol: str


CLASSIC, CONSUMER = Kind("confluent", "classic"), Kind("confluent", "consumer")
PYTHON = Kind("kafka-python", "classic")


class Service:
    """Members of the group that are started and stopped, and records for them."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self._directory = directory
        self._bootstrap = bootstrap
        self._numbers = count()
        self._producer = KafkaProducer(bootstrap_servers=bootstrap)
        self.running: list[MemberProcess] = []
        self.everyone: list[MemberProcess] = []
        self.end = 0

    def start(self, kind: Kind) -> None:
        settings = Settings(
            kind=kind.client,
            name=f"{kind.client}-{kind.protocol}-{next(self._numbers)}",
            bootstrap=self._bootstrap,
            group=GROUP,
            topic=TOPIC,
            protocol=kind.protocol,
        )
        process = MemberProcess(self._directory, settings)
        process.launch()
        self.running.append(process)
        self.everyone.append(process)

    def replace(self, index: int, kind: Kind) -> None:
        """A member leaves, and one of another kind joins."""
        self.running.pop(index).stop()
        self.start(kind)

    def send(self) -> None:
        for topic, partition in PARTITIONS:
            for _ in range(RECORDS_EACH):
                self._producer.send(topic, b"order", partition=partition)
        self._producer.flush(timeout=ANSWER_S)
        self.end += RECORDS_EACH

    def read(self) -> set[tuple[Partition, int]]:
        """Every record that any member has read."""
        runs = [run for process in self.everyone for run in process.runs()]
        return {(run.partition, offset) for run in runs for offset in range(run.first, run.end)}

    def close(self) -> None:
        self._producer.close()
        for process in self.everyone:
            process.kill()


@pytest.fixture
def broker(start_broker: StartBroker, request: pytest.FixtureRequest) -> BrokerProcess:
    if request.config.getoption("--broker") == "apache":
        pytest.skip("Apache Kafka 3.9 with ZooKeeper has no consumer groups of this kind")
    return start_broker(QUICK_MEMBERS)


@pytest.fixture
def service(broker: BrokerProcess, tmp_path: Path) -> Iterator[Service]:
    with ExitStack() as opened:
        admin = opened.enter_context(closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)))
        shape = {"num_partitions": len(PARTITIONS), "replication_factor": 1}
        admin.create_topics({TOPIC: shape}, wait_for_metadata=True)
        yield opened.enter_context(closing(Service(tmp_path, broker.bootstrap)))


def test_members_are_replaced_one_by_one_there_and_back_and_every_record_is_read(
    broker: BrokerProcess, service: Service
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def group() -> tuple[object, object, int]:
        described = admin.describe_consumer_groups([GROUP])[GROUP].result(ANSWER_S)
        return described.type, described.state, len(described.members)

    def shared() -> None:
        await_shared(service.running, PARTITIONS)
        service.send()

    for kind in (CLASSIC, CLASSIC, PYTHON):
        service.start(kind)
    shared()
    assert group() == (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE, 3)
    for _ in range(3):  # The first is the oldest: both of librdkafka, then the one of kafka-python.
        service.replace(0, CONSUMER)
        shared()
        assert group()[0] == ConsumerGroupType.CONSUMER
    for kind in (PYTHON, CLASSIC):
        service.replace(0, kind)
        shared()
        assert group()[0] == ConsumerGroupType.CONSUMER
    service.replace(0, CLASSIC)
    shared()
    assert group() == (ConsumerGroupType.CLASSIC, ConsumerGroupState.STABLE, 3)
    everything = {(partition, offset) for partition in PARTITIONS for offset in range(service.end)}
    eventually(lambda: service.read() == everything, "every record was read")
