"""One group of our member and of one of Apache Kafka 1.1.1: both read the same nodes and compute the same shares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.groups.waiting import eventually
from tests.compat.originals.original_clients import ZOOKEEPER, Member
from tests.heritage.documented_site import DocumentedSite, Reader

PARTITIONS = range(4)


@pytest.fixture
def topic(site: DocumentedSite) -> str:
    return site.topic([1, 2, 1, 2])


@pytest.fixture
def original(site: DocumentedSite, topic: str, tmp_path: Path) -> Iterator[Member]:
    """A program with 1.1.1's consumer, which is not in the group yet."""
    member = Member(tmp_path, site.cluster, topic, site.group, 0)
    yield member
    member.end()


def send(site: DocumentedSite, topic: str, numbers: range) -> None:
    """Numbers, each to the partition that is its remainder."""
    from examples.heritage.partitions import ProducerData
    from tests.heritage.documented_site import KeyIsPartition

    producer = site.producer(KeyIsPartition())
    producer.send([ProducerData(topic, number % len(PARTITIONS), [b"%d" % number]) for number in numbers])
    producer.close()


def test_our_member_and_one_of_1_1_1_share_a_topic_and_take_over_from_each_other(
    site: DocumentedSite, topic: str, original: Member
) -> None:
    original.restart(ZOOKEEPER)
    ((original_id, original_node),) = site.nodes("ids").items()
    ours = site.connector(consumer_timeout_ms=-1, auto_commit_interval_ms=50)
    reader = Reader(ours.create_message_streams({topic: 1})[topic][0])

    def shares() -> dict[str, int]:
        owners = list(site.nodes(f"owners/{topic}").values())
        return {owner: owners.count(owner) for owner in owners}

    both = {f"{original_id}-0": 2, f"{ours.consumer_id}-0": 2}
    eventually(lambda: shares() == both, "each has two partitions", 60)
    our_node = site.nodes("ids")[ours.consumer_id]
    assert shape(our_node) == shape(original_node), "field by field, in the same order"

    send(site, topic, range(400))
    eventually(lambda: len(original.messages()) + len(reader.messages) >= 400, "all are consumed", 60)
    of_original = {one.value for one in original.messages()}
    of_ours = {int(one.message or b"") for one in reader.messages}
    assert len(original.messages()) + len(reader.messages) == 400
    assert of_original | of_ours == set(range(400))
    assert {number % 4 for number in of_original}.isdisjoint({number % 4 for number in of_ours})

    original.restart(None)
    eventually(lambda: shares() == {f"{ours.consumer_id}-0": 4}, "ours takes over", 60)
    send(site, topic, range(400, 500))
    reader.wait(len(of_ours) + 100)
    ours.shutdown()
    offsets = site.nodes(f"offsets/{topic}")
    assert offsets == {str(number): "125" for number in PARTITIONS}

    original.restart(ZOOKEEPER)
    send(site, topic, range(500, 600))
    eventually(lambda: len(original.messages()) >= len(of_original) + 100, "1.1.1 goes on", 60)
    values = [one.value for one in original.messages()] + [int(text) for text in reader.join()]
    assert sorted(values) == list(range(600)), "nothing is lost, nothing comes twice"


def shape(node: str) -> list[tuple[str, str]]:
    """The fields of an id's node in their order, and what is the same in both members."""
    value = json.loads(node)
    assert int(value["timestamp"]) > 0
    return [(name, type(one).__name__ if name == "timestamp" else json.dumps(one)) for name, one in value.items()]
