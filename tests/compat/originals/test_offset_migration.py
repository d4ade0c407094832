"""A group moves its offsets from ZooKeeper to Kafka and back, while messages arrive: the documents' rolling restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final
from uuid import uuid4

import pytest

from tests.cluster.cluster import Cluster
from tests.compat.originals.conftest import EVERYTHING
from tests.compat.originals.original_clients import BOTH, KAFKA, ZOOKEEPER, Group, Producer, at_work

PARTITIONS: Final = 4
MESSAGES_MIN: Final = 10_000
COMMON: Final = {"zookeeper.session.timeout.ms": 10_000}
"""A stall of the machine must not end a session: another member would then read the same again, as it should."""


@pytest.fixture(scope="module")
def working(single: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Group, Producer]]:
    topic = f"moved-{uuid4().hex[:8]}"
    single.create(topic, [[1]] * PARTITIONS)
    with at_work(tmp_path_factory.mktemp("members"), single, topic, COMMON) as (group, producer):
        group.restarts_programs = EVERYTHING
        yield group, producer


def test_two_members_own_neighbouring_partitions_as_their_nodes_in_zookeeper_say(
    working: tuple[Group, Producer],
) -> None:
    group, _ = working
    group.start(ZOOKEEPER)
    owners = group.shared_owners()
    assert owners[0] == owners[1]
    assert owners[2] == owners[3]
    assert {owner.rpartition("-")[0] for owner in owners.values()} == set(group.registered())


def test_two_members_move_their_offsets_to_kafka_and_back_and_lose_and_repeat_nothing(
    working: tuple[Group, Producer],
) -> None:
    group, producer = working
    group.start(ZOOKEEPER)
    group.wait_for_commits(zookeeper=True, kafka=False)
    group.roll(BOTH)
    group.wait_for_commits(zookeeper=True, kafka=True)
    group.roll(KAFKA)
    group.wait_for_commits(zookeeper=False, kafka=True)
    group.roll(BOTH)
    group.wait_for_commits(zookeeper=True, kafka=True)
    group.roll(ZOOKEEPER)
    group.wait_for_commits(zookeeper=True, kafka=False)
    sent = producer.finish(MESSAGES_MIN)
    group.wait_for_values(sent)
    group.stop()
    messages = group.messages()
    ends = Counter(message.partition for message in messages)
    assert sent >= MESSAGES_MIN
    assert sorted(message.value for message in messages) == list(range(sent))
    assert {message[:2] for message in messages} == {(part, at) for part, end in ends.items() for at in range(end)}
    assert group.in_zookeeper() == ends
    assert sum(group.in_kafka().values()) < sent
