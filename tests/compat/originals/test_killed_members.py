"""The move of a group's offsets on two brokers, while members and brokers are killed: at least once is what is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.cluster import Cluster, Partition
from tests.compat.originals.conftest import started
from tests.compat.originals.original_clients import BOTH, KAFKA, ZOOKEEPER, Group, Producer, at_work

MESSAGES_MIN: Final = 10_000
COMMON: Final = {"zookeeper.session.timeout.ms": 3_000}
REPLICAS: Final = [[1, 2], [2, 1], [1, 2], [2, 1]]
"""Each broker leads partitions of each half."""


@pytest.fixture(scope="module")
def pair(kind: str, zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers with every partition on both."""
    yield from started(kind, 2, zookeeper, tmp_path_factory)


@pytest.fixture
def partitions(pair: Cluster, topic: str) -> list[Partition]:
    return pair.create(topic, REPLICAS)


@pytest.fixture
def working(pair: Cluster, partitions: list[Partition], topic: str, tmp_path: Path) -> Iterator[tuple[Group, Producer]]:
    assert len(partitions) == len(REPLICAS)
    with at_work(tmp_path, pair, topic, COMMON) as working:
        yield working


def test_members_share_partitions_by_number_wherever_their_leaders_are(
    pair: Cluster, partitions: list[Partition], working: tuple[Group, Producer]
) -> None:
    group, _ = working
    group.start(ZOOKEEPER)
    owners = group.shared_owners()
    brokers = [
        {pair.leader(partitions[number]) for number in owners if owners[number] == owner} for owner in owners.values()
    ]
    assert owners[0] == owners[1]
    assert owners[2] == owners[3]
    assert brokers == [{1, 2}] * 4


@contextmanager
def killed(cluster: Cluster, broker: int, partitions: list[Partition]) -> Iterator[None]:
    """A broker is killed; in the end it is there again, and in sync with the other one."""
    cluster.kill(broker)
    yield
    cluster.restart(broker)
    cluster.wait_for_full_isr([*partitions, ("__consumer_offsets", 0)])


def test_kills_of_members_and_brokers_during_the_move_lose_nothing(
    pair: Cluster, partitions: list[Partition], working: tuple[Group, Producer]
) -> None:
    group, producer = working
    first, second = group.members
    group.start(ZOOKEEPER)
    group.wait_for_commits(zookeeper=True, kafka=False)
    group.restart(first, BOTH)
    second.kill()
    group.restart(second, BOTH)
    group.wait_for_commits(zookeeper=True, kafka=True)
    with killed(pair, 1, partitions):
        group.restart(first, KAFKA)
        group.wait_for_messages()
    group.restart(second, KAFKA)
    group.wait_for_commits(zookeeper=False, kafka=True)
    first.kill()
    group.restart(first, BOTH)
    with killed(pair, 2, partitions):
        group.restart(second, BOTH)
        group.wait_for_messages()
    group.wait_for_commits(zookeeper=True, kafka=True)
    group.roll(ZOOKEEPER)
    group.wait_for_commits(zookeeper=True, kafka=False)
    sent = producer.finish(MESSAGES_MIN)
    group.wait_for_values(sent)
    group.stop()
    assert sent >= MESSAGES_MIN
    assert {message.value for message in group.messages()} == set(range(sent))
    # What was read was read in every offset of the log, despite the kills.
    read = {message[:2] for message in group.messages()}
    assert read == {(number, at) for number, end in group.in_zookeeper().items() for at in range(end)}
