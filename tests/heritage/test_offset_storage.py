"""Where a connector's offsets are: ZooKeeper, Kafka, or both while a group moves."""

from __future__ import annotations

import pytest

from examples.heritage.consumer_connector import ConsumerConnector
from sordini.protocol.types import TopicPartition
from tests.compat.groups.waiting import eventually
from tests.heritage.documented_site import DocumentedSite, take

ZOOKEEPER = {"offsets_storage": "zookeeper"}
BOTH = {"offsets_storage": "kafka", "dual_commit_enabled": "true"}
KAFKA = {"offsets_storage": "kafka", "dual_commit_enabled": "false"}


def in_kafka(site: DocumentedSite, topic: str) -> int | None:
    consumer = site.simple_consumer()
    try:
        return consumer.fetch_offsets(site.group).get(TopicPartition(topic, 0))
    finally:
        consumer.close()


def in_zookeeper(site: DocumentedSite, topic: str) -> str | None:
    return site.nodes(f"offsets/{topic}").get("0")


def test_a_group_moves_its_offsets_to_kafka_and_back_without_loss_or_repetition(site: DocumentedSite) -> None:
    topic = site.topic([1])
    sent = site.send(topic, [0] * 50)
    got: list[str] = []
    after = []
    for settings in (ZOOKEEPER, BOTH, KAFKA, BOTH, ZOOKEEPER):
        connector = site.connector(**settings)
        got += take(connector.create_message_streams({topic: 1})[topic][0], 10)
        connector.shutdown()
        after.append((in_zookeeper(site, topic), in_kafka(site, topic)))
    assert got == sent
    assert after == [("10", None), ("20", 20), ("20", 30), ("40", 40), ("50", 40)]


@pytest.mark.parametrize(("committed", "in_broker", "begins"), [(b"7", 3, 7), (b"3", 7, 7), (None, 4, 4)])
def test_with_both_the_larger_offset_counts(
    site: DocumentedSite, committed: bytes | None, in_broker: int | None, begins: int
) -> None:
    topic = site.topic([1])
    site.send(topic, [0] * 10)
    if committed is not None:
        site.tree.put(f"/consumers/{site.group}/offsets/{topic}/0", committed)
    if in_broker is not None:
        consumer = site.simple_consumer()
        consumer.commit_offsets(site.group, {TopicPartition(topic, 0): in_broker})
        consumer.close()
    (stream,) = site.connector(**BOTH).create_message_streams({topic: 1})[topic]
    assert take(stream, 1) == [f"0:{begins}"]


@pytest.mark.long
def test_two_members_move_by_restarts_one_after_the_other(site: DocumentedSite) -> None:
    topic = site.topic([1, 2])
    sent = site.send(topic, [0, 1] * 20)
    got: list[str] = []
    members: dict[str, ConsumerConnector] = {}
    for settings in (ZOOKEEPER, BOTH, KAFKA):
        for name in "ab":
            if name in members:
                members[name].shutdown()
                eventually(lambda: len(site.nodes("ids")) == 1, "the other is alone")
            members[name] = site.connector(consumer_id=name, **settings)
            streams = members[name].create_message_streams({topic: 1})[topic]
            if len(members) == 2:
                eventually(lambda: all(len(one.owned_partitions) == 1 for one in members.values()), "shares")
            got += take(streams[0], 3)
            members[name].commit_offsets()
    got_once = set(got)
    assert len(got) == len(got_once) == 18
    assert got_once <= set(sent)


@pytest.mark.long
def test_with_kafka_a_commit_is_tried_again_while_the_coordinator_moves(site: DocumentedSite) -> None:
    topic = site.topic([2])
    site.send(topic, [0] * 4)
    connector = site.connector(**KAFKA, offsets_channel_backoff_ms=50, offsets_commit_max_retries=200)
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    take(stream, 2)
    connector.commit_offsets()
    assert in_kafka(site, topic) == 2
    (coordinator,) = site.cluster.tree.assignment("__consumer_offsets")[0]
    take(stream, 1)
    site.cluster.stop_in_order(coordinator)
    connector.commit_offsets()
    assert in_kafka(site, topic) == 3
