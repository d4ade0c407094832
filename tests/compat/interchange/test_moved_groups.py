"""Groups in use whose coordinator's log is moved to a broker of the other kind, and back: their members do not notice.

What the next coordinator knows of a group is what the last one wrote into `__consumer_offsets`. As both compute the same hash of
the subscribed topics (KIP-1101), neither raises the epoch of a group of the other's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.compat.groups.members import Partition
from tests.compat.groups.polled import QUICK_MEMBERS
from tests.compat.groups.waiting import eventually
from tests.compat.interchange.kraft_exchange import KRaftExchange, Side
from tests.support.wire_client import Client

TOPIC, OFFSETS = "orders", "__consumer_offsets"
PARTITIONS: Final[list[Partition]] = [(TOPIC, number) for number in range(6)]
NAMED, PATTERN = "named", "matched"
NOT_YET: Final = frozenset({14, 15, 16})
"""The coordinator loads, is not available, or is another broker."""
SECONDS_MAX: Final = 60
SETTINGS: Final[dict[str, object]] = {
    **QUICK_MEMBERS,
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "auto.create.topics.enable": "false",
}


class Member(NamedTuple):
    """A member as its coordinator describes it."""

    member_id: str
    instance_id: str | None
    member_epoch: int
    names: tuple[str, ...]
    pattern: str | None
    assigned: tuple[Partition, ...]
    target: tuple[Partition, ...]


class Described(NamedTuple):
    """A group as its coordinator describes it."""

    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[Member, ...]


def row_of(port: int, group: str) -> Any:
    """What the coordinator answers of a group, or why not."""
    with Client("127.0.0.1", port) as client:
        answer: Any = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=[group]))
    (found,) = answer.groups
    return found


def described(port: int, group: str) -> Described | None:
    """None while the coordinator loads."""
    found = row_of(port, group)
    if found.error_code:
        return None
    members = [
        Member(
            row.member_id,
            row.instance_id,
            row.member_epoch,
            tuple(row.subscribed_topic_names),
            row.subscribed_topic_regex,
            partitions_of(row.assignment),
            partitions_of(row.target_assignment),
        )
        for row in found.members
    ]
    return Described(
        found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name, tuple(sorted(members))
    )


def partitions_of(assignment: Assignment) -> tuple[Partition, ...]:
    return tuple(sorted((row.topic_name, number) for row in assignment.topic_partitions for number in row.partitions))


class BareMember:
    """A member without a client library, as librdkafka's may be left without a broker (docs/evidence/client-suites.md): it sends a heartbeat when the test says so, and keeps what it was assigned."""

    def __init__(self, port: int, group: str, number: int, instance_id: str | None, pattern: str | None) -> None:
        self._port = port
        self._group = group
        self._pattern = pattern
        self.instance_id = instance_id
        self.member_id = f"{group}-{number}"
        self.epoch = 0
        self.assigned: list[TopicPartitions] = []

    def heartbeat(self) -> bool:
        """Whether the answer has nothing new: the same epoch, no assignment. Until the coordinator serves it asks again."""
        is_joining = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000 if is_joining else -1,
            subscribed_topic_names=[TOPIC] if is_joining and self._pattern is None else None,
            subscribed_topic_regex=self._pattern if is_joining else None,
            topic_partitions=self.assigned,
        )
        answer = eventually_served(self._port, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        is_same = answer.member_epoch == self.epoch and answer.assignment is None
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            rows = answer.assignment.topic_partitions
            self.assigned = [TopicPartitions(topic_id=row.topic_id, partitions=list(row.partitions)) for row in rows]
        return is_same

    def commit(self, offset: int) -> None:
        """Commit an offset of each partition that it has, in its epoch."""
        numbers = [number for row in self.assigned for number in row.partitions]
        partitions = [OffsetCommitRequestPartition(partition_index=at, committed_offset=offset) for at in numbers]
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)],
        )
        with Client("127.0.0.1", self._port) as client:
            answer: Any = client.ask(ApiKey.OFFSET_COMMIT, 9, request)
        assert {row.error_code for topic in answer.topics for row in topic.partitions} == {0}


def eventually_served(port: int, key: ApiKey, version: int, request: Any) -> Any:
    """The answer, when it is not that the coordinator is not there or loads."""
    found: list[Any] = []

    def is_served() -> bool:
        with Client("127.0.0.1", port) as client:
            found.append(client.ask(key, version, request))
        return found[-1].error_code not in NOT_YET

    eventually(is_served, "the coordinator serves", SECONDS_MAX)
    return found[-1]


class Service:
    """Two groups that read the same topic: one by its name, with a static member, one by a pattern."""

    def __init__(self, exchange: KRaftExchange) -> None:
        self._exchange = exchange
        port, pattern = exchange.port, f"{TOPIC[:-1]}.*"
        self._members = {
            NAMED: [BareMember(port, NAMED, 0, None, None), BareMember(port, NAMED, 1, "static", None)],
            PATTERN: [BareMember(port, PATTERN, number, None, pattern) for number in range(2)],
        }
        self.offset = 0

    def settle(self) -> None:
        """Until each member has three partitions, and nothing is under way."""

        def is_settled() -> bool:
            quiet = [member.heartbeat() for members in self._members.values() for member in members]
            return all(quiet) and {found.state for found in self.seen().values() if found is not None} == {"Stable"}

        eventually(is_settled, "the groups are stable", SECONDS_MAX)
        assert [len(member.assigned) for member in self.all()] == [3, 3, 3, 3]

    def all(self) -> list[Member]:
        return [member for found in self.seen().values() if found is not None for member in found.members]

    def is_quiet(self) -> bool:
        """Whether no member is told anything new, in three heartbeats of each."""
        return all(member.heartbeat() for _ in range(3) for members in self._members.values() for member in members)

    def commit(self) -> None:
        self.offset += 1
        for members in self._members.values():
            for member in members:
                member.commit(self.offset)

    def seen(self) -> dict[str, Described | None]:
        return {name: described(self._exchange.port, name) for name in self._members}

    def assert_committed(self) -> None:
        """Every group has the newest offset of each partition."""
        admin = AdminClient({"bootstrap.servers": self._exchange.bootstrap, "log_level": 0})
        for name in self._members:
            (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(name)]).values()
            found = {(row.topic, row.partition): row.offset for row in answer.result(SECONDS_MAX).topic_partitions}
            assert found == dict.fromkeys(PARTITIONS, self.offset), name


def errors(exchange: KRaftExchange) -> list[str]:
    """What Apache Kafka says of files that it does not like. It logs nothing milder here: its log4j finds no settings."""
    lines = exchange.brokers["theirs"].log_path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if "ERROR" in line and "No configuration found" not in line]


@pytest.fixture
def exchange(zookeeper: str, tmp_path: Path) -> Iterator[KRaftExchange]:
    """With the topics, and Apache Kafka running: only it can make them."""
    made = KRaftExchange(tmp_path, zookeeper, SETTINGS)
    try:
        made.start()
        made.create(TOPIC, len(PARTITIONS), {})
        made.create(OFFSETS, 1, {"cleanup.policy": "compact", "compression.type": "producer"})
        # Apache Kafka logs an error if it stops while it loads.
        eventually(lambda: row_of(made.port, NAMED).error_code not in NOT_YET, "the coordinator serves", SECONDS_MAX)
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("how", ["stopped", "killed"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_groups_live_on_under_a_coordinator_of_the_other_kind_and_back_with_their_epochs_members_and_offsets(
    exchange: KRaftExchange, first: Side, how: str
) -> None:
    if first == "ours":
        exchange.hand_over(is_killed=False)
    service = Service(exchange)
    service.settle()
    service.commit()
    before = service.seen()
    for _ in range(2):
        exchange.hand_over(is_killed=how == "killed")
        assert service.is_quiet(), exchange.side
        service.assert_committed()
        service.commit()
        service.assert_committed()
        assert service.seen() == before, exchange.side
    assert errors(exchange) == []
