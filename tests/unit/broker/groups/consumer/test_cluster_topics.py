"""Hashes of topics follow what they are of, and are computed once until it changes."""

from __future__ import annotations

from sordini.broker.groups.consumer.cluster_topics import ClusterTopics
from sordini.broker.groups.consumer.machine.target import metadata_hash
from sordini.broker.topics.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId

ID = TopicId(bytes(range(16)))
OTHER_ID = TopicId(bytes(16))
FIRST, SECOND = BrokerId(1), BrokerId(2)


class OneTopic:
    """A cluster of two brokers in racks "a" and "b" with the topic "orders" of one partition, at first on both."""

    def __init__(self) -> None:
        self.cache = MetadataCache("a-cluster")
        self.topics = ClusterTopics(self.cache)
        self.brokers(a=FIRST, b=SECOND)
        self.partition(0, FIRST, SECOND)

    def brokers(self, **by_rack: BrokerId) -> None:
        live = [BrokerMetadata(broker_id, {}, rack if rack != "none" else None) for rack, broker_id in by_rack.items()]
        self.cache.set_brokers(FIRST, live)

    def partition(self, index: int, *replicas: BrokerId, topic_id: TopicId = ID, leader: BrokerId = FIRST) -> None:
        state = PartitionMetadata(leader, LeaderEpoch(leader), replicas, (leader,), ())
        self.cache.set_partition("orders", topic_id, index, state)

    def version(self) -> int:
        """Once all of a change is known."""
        self.cache.changed()
        return self.topics.version

    def hash(self) -> int:
        return metadata_hash(["orders"], self.topics)


def test_a_hash_is_another_one_after_each_change_of_the_topic_and_the_same_when_it_is_undone() -> None:
    changed = OneTopic()
    seen = [changed.hash()]
    changed.partition(1, FIRST)
    seen.append(changed.hash())
    changed.cache.drop_partition("orders", 1)
    assert changed.hash() == seen[0]
    changed.partition(0, SECOND)
    seen.append(changed.hash())
    changed.partition(0, FIRST, SECOND, topic_id=OTHER_ID)
    seen.append(changed.hash())
    changed.partition(0, FIRST, SECOND)
    assert changed.hash() == seen[0]
    changed.brokers(a=FIRST, c=SECOND)
    seen.append(changed.hash())
    changed.brokers(a=FIRST, none=SECOND)
    seen.append(changed.hash())
    changed.cache.drop_partition("orders", 0)
    seen.append(changed.hash())
    assert seen[-1] == 0
    assert len(set(seen)) == len(seen)


def test_a_hash_stays_when_leaders_and_live_brokers_change() -> None:
    """As in Apache Kafka, where a broker that is down stays registered with its rack."""
    changed = OneTopic()
    before = changed.hash()
    changed.partition(0, FIRST, SECOND, leader=SECOND)
    assert changed.hash() == before
    changed.brokers(b=SECOND)
    assert changed.hash() == before
    changed.partition(0, SECOND, FIRST, leader=SECOND)
    assert changed.hash() == before, "racks are in their own order"


def test_the_version_stays_when_leaders_and_live_brokers_change_and_follows_topics_when_all_of_a_change_is_known() -> (
    None
):
    changed = OneTopic()
    seen = [changed.version()]
    changed.partition(0, FIRST, SECOND, leader=SECOND)
    changed.brokers(b=SECOND)
    assert changed.version() == seen[0]
    changed.partition(1, FIRST)
    assert changed.topics.version == seen[0], "further partitions of the same change may follow"
    seen.append(changed.version())
    changed.cache.drop_partition("orders", 1)
    seen.append(changed.version())
    changed.partition(0, SECOND, FIRST)
    seen.append(changed.version())
    changed.partition(0, SECOND, FIRST, topic_id=OTHER_ID)
    seen.append(changed.version())
    changed.brokers(a=FIRST, c=SECOND)
    seen.append(changed.version())
    assert seen == sorted(set(seen)), "it has grown each time"
    assert changed.version() == seen[-1]


def test_a_hash_is_kept_for_all_groups_until_its_topic_changes() -> None:
    """What is kept is used: with another number in its place, the groups' hash is of that."""
    kept = OneTopic()
    before = kept.hash()
    kept.cache.placement_hashes["orders"] += 1
    assert kept.hash() != before
    kept.partition(0, FIRST, SECOND, leader=SECOND)
    assert kept.hash() != before, "a new leader drops nothing"
    kept.brokers(a=FIRST, b=SECOND)
    assert kept.hash() != before, "nor do brokers in their racks"
    kept.cache.drop_partition("orders", 7)
    assert kept.hash() == before


def test_a_hash_is_the_number_that_apache_kafka_writes() -> None:
    """One of the kind that tests/compat/coordinator_classes asks its classes for."""
    assert OneTopic().hash() == -8766933439499772124
