"""How data could be lost, and how replicas could diverge: the scenarios of document 000, run with our brokers.

Each follows the text's own steps with real processes: kill -9, frozen brokers, a high watermark on disk that is as old
as can be.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.cluster.cluster import OURS, Cluster, Partition
from tests.cluster.loads import read_all
from tests.cluster.replicas import batches

SECONDS_MAX = 60
CONTROLLER = 3
"""Holds none of the partitions here, so that their brokers can all be gone."""
ALONE = "on-one-broker-alone"
SETTINGS: dict[str, object] = {
    # Longer than it takes to freeze one broker, write, and kill the other: no replica leaves the in-sync set meanwhile.
    "zookeeper.session.timeout.ms": 4_000,
    "replica.lag.time.max.ms": 20_000,
    # A watermark is written at the start only: a killed broker restarts with an outdated one.
    "replica.high.watermark.checkpoint.interval.ms": 600_000,
}


@pytest.fixture(scope="module")
def ours(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three brokers of ours, the third being the controller."""
    made = Cluster(tmp_path_factory.mktemp("documents"), zookeeper, "3.9")
    try:
        made.start({1: OURS, 2: OURS, CONTROLLER: OURS}, SETTINGS)
        yield made
    finally:
        made.close()


@pytest.fixture
def pair(ours: Cluster, request: pytest.FixtureRequest) -> Partition:
    """A partition on brokers 1, who leads, and 2, that asks for no more than one of them in sync (the default)."""
    for broker_id, process in ours.brokers.items():
        if not process.is_running:
            ours.restart(broker_id)
    ours.move_controller(CONTROLLER)
    name = "".join(letter for letter in request.node.name if letter.isalnum())[-40:]
    (made,) = ours.create(name, [[1, 2]], {"min.insync.replicas": "1"})
    return made


def write(cluster: Cluster, partition: Partition, name: str, count: int, *, acks: str = "all") -> list[bytes]:
    """Records one after the other, each acknowledged before the next; their values."""
    reported: list[int] = []

    def delivered(error: object, message: Message) -> None:
        assert error is None, error
        reported.append(message.offset() or 0)

    settings = {"acks": acks, "linger.ms": 0, "log_level": 0, "topic.metadata.refresh.fast.interval.ms": 50}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    values = [f"{name}-{number}".encode() for number in range(count)]
    for value in values:
        producer.produce(partition[0], value, partition=partition[1], on_delivery=delivered)
        assert producer.flush(SECONDS_MAX) == 0
    assert reported == sorted(reported)
    return values


def read(cluster: Cluster, partition: Partition) -> list[bytes]:
    return [value for _, value in read_all(cluster.bootstrap, [partition])[partition]]


def allow_unclean(cluster: Cluster, topic: str) -> None:
    entry = ConfigEntry("unclean.leader.election.enable", "true", incremental_operation=AlterConfigOpType.SET)
    wanted = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in cluster.admin.incremental_alter_configs([wanted]).values():
        future.result(SECONDS_MAX)


def folder(cluster: Cluster, broker_id: int, partition: Partition) -> Path:
    (found,) = cluster.brokers[broker_id].directory.glob(f"data*/{partition[0]}-{partition[1]}")
    return found


def forget_watermarks(cluster: Cluster, broker_id: int) -> None:
    """A stopped broker's watermarks are as old as can be: nought."""
    for noted in cluster.brokers[broker_id].directory.glob("data*/replication-offset-checkpoint"):
        noted.unlink()


def assert_equal_logs(cluster: Cluster, partition: Partition) -> None:
    cluster.wait_for_full_isr([partition])
    first, second = (batches(folder(cluster, broker_id, partition)) for broker_id in (1, 2))
    assert first == second


def assert_only_what_was_alone_is_gone(there: list[bytes], values: list[bytes]) -> None:
    """The first of what a leader wrote alone may survive: it answered a fetch that waited for it already."""
    alone = [value for value in there if value.startswith(ALONE.encode())]
    assert [value for value in there if value not in alone] == values
    assert all(value.endswith(b"-0") for value in alone), alone


def test_a_follower_that_leads_with_a_watermark_one_fetch_behind_keeps_what_was_acknowledged(
    ours: Cluster, pair: Partition
) -> None:
    """The text's loss: the follower learns the watermark with its next fetch only, and the leader fails before that."""
    values = write(ours, pair, "acknowledged", 40)
    ours.kill(1)
    ours.wait_for_leader(pair, 2)
    assert read(ours, pair) == values
    values += write(ours, pair, "later", 10)
    ours.restart(1)
    assert_equal_logs(ours, pair)
    assert read(ours, pair) == values


def test_a_broker_that_restarts_with_an_outdated_watermark_and_leads_cuts_nothing(
    ours: Cluster, pair: Partition
) -> None:
    """The same with both crashed: who comes back first knows of no commit at all, and has all of them."""
    values = write(ours, pair, "acknowledged", 40)
    with ours.brokers[1].hung():
        ours.wait_for_leader(pair, 2)
        ours.wait_for_isr(pair, {2})
        ours.kill(2)
        forget_watermarks(ours, 2)
        ours.restart(2)
        ours.wait_for_leader(pair, 2)
        ours.wait(lambda: read(ours, pair) == values, "everything acknowledged is read from broker 2")
        values += write(ours, pair, "later", 10)
    assert_equal_logs(ours, pair)
    assert read(ours, pair) == values


def test_a_former_leader_with_other_records_at_the_same_offsets_is_cut_to_the_new_ones(
    ours: Cluster, pair: Partition
) -> None:
    """Divergence: both wrote at the same offsets, under different leaders, and only the epochs distinguish them."""
    values = write(ours, pair, "acknowledged", 20)
    ours.wait(lambda: _ends(ours, pair) == [20, 20], "the follower has them all")
    with ours.brokers[2].hung():
        write(ours, pair, ALONE, 5, acks="1")
        ours.kill(1)
    ours.wait_for_leader(pair, 2)
    values += write(ours, pair, "acknowledged-by-the-next-leader", 7)
    forget_watermarks(ours, 1)
    ours.restart(1)
    assert_equal_logs(ours, pair)
    assert_only_what_was_alone_is_gone(read(ours, pair), values)


def _ends(cluster: Cluster, partition: Partition) -> list[int]:
    logs = [batches(folder(cluster, broker_id, partition)) for broker_id in (1, 2)]
    return [log[-1].end_offset if log else 0 for log in logs]


def test_two_leaders_in_quick_succession_leave_equal_logs_behind(ours: Cluster, pair: Partition) -> None:
    """What each leader alone has written goes when the other leads, again and again; what both have stays."""
    values: list[bytes] = []
    for turn, (leader, other) in enumerate([(1, 2), (2, 1), (1, 2)]):
        ours.wait_for_leader(pair, leader)
        values += write(ours, pair, f"acknowledged-{turn}", 5)
        ours.wait(lambda: len(set(_ends(ours, pair))) == 1, "the follower has them all")
        with ours.brokers[other].hung():
            write(ours, pair, f"{ALONE}-{turn}", 3, acks="1")
            ours.kill(leader)
        ours.wait_for_leader(pair, other)
        ours.restart(leader)
        ours.wait_for_full_isr([pair])
    assert_equal_logs(ours, pair)
    assert_only_what_was_alone_is_gone(read(ours, pair), values)


def test_with_all_in_sync_replicas_offline_there_is_no_leader_until_one_of_them_returns(
    ours: Cluster, pair: Partition
) -> None:
    """The text's first strategy, which it settles on: wait, rather than lose."""
    values = write(ours, pair, "on-both", 10)
    ours.kill(2)
    ours.wait_for_isr(pair, {1})
    values += write(ours, pair, "on-the-last-one", 10)
    ours.kill(1)
    ours.wait_for_leader(pair, -1)
    ours.restart(2)
    assert (ours.leader(pair), ours.isr(pair)) == (-1, {1}), "who lacks something does not lead"
    ours.restart(1)
    ours.wait_for_leader(pair, 1)
    assert_equal_logs(ours, pair)
    assert read(ours, pair) == values


def test_where_an_unclean_election_is_allowed_the_first_one_back_leads_and_the_others_are_cut_to_it(
    ours: Cluster, pair: Partition
) -> None:
    """The text's second strategy, when asked for: lead at once, and lose what is not there."""
    values = write(ours, pair, "on-both", 10)
    ours.wait(lambda: _ends(ours, pair) == [10, 10], "the follower has them all")
    ours.kill(2)
    ours.wait_for_isr(pair, {1})
    write(ours, pair, "on-the-last-one", 10)
    ours.kill(1)
    ours.wait_for_leader(pair, -1)
    ours.restart(2)
    allow_unclean(ours, pair[0])
    ours.wait_for_leader(pair, 2)
    values += write(ours, pair, "after-the-loss", 5)
    ours.restart(1)
    assert_equal_logs(ours, pair)
    assert read(ours, pair) == values
