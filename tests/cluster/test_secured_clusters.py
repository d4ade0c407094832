"""Brokers of both kinds that log in to each other by SCRAM over TLS, with one set of access control entries.

The users are in ZooKeeper before the first broker starts; entries that one kind writes are obeyed by the other; and a
user without rights is served by neither, as a client or in a broker's name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from sordini.protocol.errors import ErrorCode
from tests.cluster.chaos.unauthorized_client import ATTEMPTS, attempt, ways
from tests.cluster.chaos.working import Orders
from tests.cluster.cluster import FLAGS
from tests.cluster.conftest import EVERYTHING, PROTOCOLS
from tests.cluster.security import BROKER, CLIENT, GUEST, Security, connected
from tests.cluster.tree import Tree
from tests.outside.java import ApacheKafkaProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.support.confluent_admin import admin_of
from tests.support.secured_client import User

pytestmark = pytest.mark.skipif(not EVERYTHING, reason="a cluster of its own: with SORDINI_MIXED=all")
OURS, ALSO_OURS, THEIRS = 1, 2, 4
PARTITIONS = 3
SECONDS_MAX = 90.0
POLL_SECONDS = 0.2


class Secured:
    """Two brokers of ours and one Apache Kafka, all with one SASL_SSL listener."""

    def __init__(self, directory: Path, zookeeper: str, version: str) -> None:
        self.security = Security(directory / "security", dict.fromkeys((OURS, ALSO_OURS, THEIRS), "127.0.0.1"))
        self.tree = Tree(zookeeper)
        self.security.store_users(self.tree)
        self.brokers: dict[int, BrokerProcess] = {}
        for number in (OURS, ALSO_OURS, THEIRS):
            settings = {
                **self.security.broker_settings(number, for_java=number == THEIRS),
                "broker.id": number,
                "inter.broker.protocol.version": PROTOCOLS[version],
                "zookeeper.session.timeout.ms": 6_000,
                "replica.lag.time.max.ms": 2_500,
                "offsets.topic.num.partitions": 1,
                "transaction.state.log.num.partitions": 1,
                "transaction.state.log.min.isr": 2,
                "group.initial.rebalance.delay.ms": 0,
                "log.cleaner.dedupe.buffer.size": 4_194_304,
            }
            home = directory / str(number)
            made: BrokerProcess
            if number == THEIRS:
                made = ApacheKafkaProcess(home, zookeeper, settings, version=version, flags=FLAGS)
                made.settings["listeners"] = f"SASL_SSL://{made.bootstrap}"
            else:
                made = SordiniProcess(home, {"zookeeper.connect": zookeeper, **settings})
                made.overrides["listeners"] = f"SASL_SSL://{made.bootstrap}"
            self.brokers[number] = made

    def is_full(self, topic: str) -> bool:
        states = [self.tree.state(topic, number) for number in range(PARTITIONS)]
        return all(state is not None and len(state.isr) == len(self.brokers) for state in states)

    def is_writable(self, topic: str) -> bool:
        """Whether all brokers let CLIENT write."""
        orders = Orders("probe", [], [f"{topic}-0"], "", security=self.security.client_settings(CLIENT))
        codes: list[int] = []
        for broker in self.brokers.values():
            with connected(broker.bootstrap, orders.security, 20.0) as client:
                produce = ATTEMPTS["produce"]
                codes += produce.codes(client.ask(produce.key, produce.version, produce.request(orders, "probe")))
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED not in codes

    def settings(self, user: str, *numbers: int) -> dict[str, str]:
        """How a librdkafka client connects as a user, to these brokers or to all."""
        addresses = [self.brokers[number].bootstrap for number in numbers or self.brokers]
        return {"bootstrap.servers": ",".join(addresses), **self.security.client_settings(user)}

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        while not condition():
            tails = "\n".join(broker.tail() for broker in self.brokers.values())
            assert time.monotonic() < deadline, f"not within {SECONDS_MAX} s: {what}\n{tails}"
            time.sleep(POLL_SECONDS)

    def allow(self, operation: AclOperation, kind: ResourceType, name: str, *, by: int) -> None:
        """Have one broker write an entry for CLIENT."""
        entry = AclBinding(
            kind, name, ResourcePatternType.LITERAL, f"User:{CLIENT}", "*", operation, AclPermissionType.ALLOW
        )
        admin = admin_of(self.settings(BROKER, by))
        admin.create_acls([entry])[entry].result(60)


@pytest.fixture
def secured(tmp_path: Path, zookeeper: str, version: str) -> Iterator[Secured]:
    made = Secured(tmp_path, f"{zookeeper}/{uuid4().hex}", version)
    try:
        for broker in made.brokers.values():
            broker.launch()
        for broker in made.brokers.values():
            broker.wait_until(broker.is_ready, 90.0, "be ready")
        made.wait(lambda: made.tree.registered() == set(made.brokers), "all are registered")
        yield made
    finally:
        for broker in made.brokers.values():
            broker.kill()
        made.tree.close()


def _written(settings: dict[str, str], topic: str, value: bytes) -> list[str]:
    """The error of a record for each partition, empty for those that all in-sync replicas have."""
    producer = Producer(settings | {"acks": "all", "message.timeout.ms": 60_000})
    outcomes: list[str] = []
    for partition in range(PARTITIONS):
        producer.produce(
            topic,
            value,
            partition=partition,
            on_delivery=lambda error, _: outcomes.append(error.str() if error else ""),
        )
    producer.flush(90)
    return outcomes


def _read(settings: dict[str, str], topic: str, wanted: set[bytes]) -> set[bytes]:
    """All values up to the last of those that are wanted."""
    consumer = Consumer({**settings, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: set[bytes] = set()
    while not wanted <= found:
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None, message.error()
        found.add(message.value())
    consumer.close()
    return found


def _made_topic(secured: Secured, topic: str) -> None:
    order = [OURS, THEIRS, ALSO_OURS]
    replicas = [order[shift:] + order[:shift] for shift in range(PARTITIONS)]
    wanted = NewTopic(topic, PARTITIONS, replica_assignment=replicas, config={"min.insync.replicas": "2"})
    admin = admin_of(secured.settings(BROKER))
    admin.create_topics([wanted], request_timeout=60)[topic].result(90)


def test_brokers_of_both_kinds_replicate_as_users_and_share_their_access_control_entries(
    secured: Secured, topic: str
) -> None:
    _made_topic(secured, topic)
    clients = secured.settings(CLIENT)
    secured.allow(AclOperation.WRITE, ResourceType.TOPIC, topic, by=THEIRS)
    secured.allow(AclOperation.READ, ResourceType.TOPIC, topic, by=OURS)
    secured.allow(AclOperation.READ, ResourceType.GROUP, topic, by=THEIRS)
    secured.wait(lambda: secured.is_writable(topic), "all know the entries")
    assert _written(clients, topic, b"0") == [""] * PARTITIONS
    _unauthorized_requests_are_refused(secured, topic)

    # The controller is killed; one of the other kind may be elected.
    first = secured.tree.controller()
    secured.brokers[first].kill()
    secured.wait(lambda: secured.tree.controller() not in (first, -1), "another controller is elected")
    assert _written(clients, topic, b"1") == [""] * PARTITIONS
    secured.brokers[first].start()
    secured.wait(lambda: secured.is_full(topic), "all replicas are in sync")
    assert _written(clients, topic, b"2") == [""] * PARTITIONS
    written = {b"probe", b"0", b"1", b"2"}
    assert _read(clients, topic, written) == written


def _unauthorized_requests_are_refused(secured: Secured, topic: str) -> None:
    """No broker serves a request of a user without rights."""
    guest = secured.settings(GUEST)
    user = User(guest["sasl.username"], guest["sasl.password"])
    for number, broker in secured.brokers.items():
        orders = Orders("x", [broker.bootstrap], [f"{topic}-0"], "", transactional_id="t", security=guest)
        for way, connect in ways(user, CLIENT).items():
            # The answer to a failed login comes later each time: one is enough.
            wanted = ATTEMPTS if "password" not in way and "exist" not in way else {"produce": ATTEMPTS["produce"]}
            for what, asked in wanted.items():
                codes = attempt(connect, asked, orders, "unauthorized")
                assert 0 not in codes, f"broker {number} served a request {way}: {what}"
    with pytest.raises(KafkaException):
        admin_of(guest).create_topics([NewTopic("x", 1, 1)])["x"].result(30)
