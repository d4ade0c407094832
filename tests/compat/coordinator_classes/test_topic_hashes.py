"""The hash of a group's topics beside Apache Kafka's own classes: the same cluster to both, the same number from both."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from sordini.broker.groups.consumer.cluster_topics import ClusterTopics
from sordini.broker.groups.consumer.machine.target import metadata_hash
from sordini.broker.topics.metadata_cache import BrokerMetadata, MetadataCache, PartitionMetadata
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, topic_id_text
from sordini.system.named_tuple import NamedTuple
from tests.compat.coordinator_classes.java_judge import answers

CLUSTERS: Final = 2_000
RACKS: Final = ("a", "b", "eu-west-1a", "é", "\uff5e", "\U0001f40c", "Z")
"""By units of UTF-16, as Java sorts, the last but one is before the one that it follows; "" is in none of them."""
NAME_LETTERS: Final = "abcXYZ019._-"


class Cluster(NamedTuple):
    """Brokers with their racks, topics with the replicas of each partition, and what a group subscribes to."""

    racks: dict[int, str | None]
    topics: dict[str, tuple[TopicId, list[list[int]]]]
    names: list[str]


def test_a_groups_hash_is_that_of_apache_kafka(tmp_path: Path) -> None:
    clusters = [a_cluster(random.Random(seed)) for seed in range(CLUSTERS)]
    judged = answers("HashJudge", map(as_question, clusters), tmp_path)
    ours = [metadata_hash(cluster.names, ClusterTopics(a_cache(cluster))) for cluster in clusters]
    different = [seed for seed, pair in enumerate(zip(ours, judged, strict=True)) if pair[0] != pair[1]]
    assert not different, f"{len(different)} of {CLUSTERS}: seed {different[0]}, {clusters[different[0]]}"
    assert sum(each == 0 for each in judged) in range(20, CLUSTERS // 2), "groups without any topic are among them"
    assert len(set(judged)) > CLUSTERS // 2


def test_clusters_of_all_kinds_are_compared() -> None:
    clusters = [a_cluster(random.Random(seed)) for seed in range(CLUSTERS)]
    with_racks = [cluster for cluster in clusters if any(cluster.racks.values())]
    assert len(with_racks) in range(CLUSTERS // 4, CLUSTERS), "some clusters have no racks"
    assert any(None in cluster.racks.values() for cluster in with_racks)
    assert any(name not in cluster.topics for cluster in clusters for name in cluster.names)
    replicas = [each for cluster in clusters for _, rows in cluster.topics.values() for each in rows]
    assert {len(each) for each in replicas} >= {1, 2, 3}
    assert any(
        cluster.racks.keys().isdisjoint(row)
        for cluster in clusters
        for _, rows in cluster.topics.values()
        for row in rows
    )


def a_cluster(draw: random.Random) -> Cluster:
    brokers = range(1, draw.randint(1, 6) + 1)
    known = RACKS if draw.random() < 0.7 else ()
    racks = {broker: draw.choice((*known, None)) for broker in brokers}
    replicas = [*brokers, 99] if draw.random() < 0.2 else list(brokers)  # 99 is not registered.
    topics = {
        "".join(draw.choices(NAME_LETTERS, k=draw.choice((1, 3, 20, 249)))): (
            TopicId(draw.randbytes(16)),
            [draw.sample(replicas, draw.randint(1, min(3, len(replicas)))) for _ in range(draw.choice((1, 2, 7, 60)))],
        )
        for _ in range(draw.choice((0, *[1, 2, 5, 30] * 3)))
    }
    names = draw.sample(sorted(topics), draw.choice((draw.randint(0, len(topics)), len(topics)))) + [
        "unknown"
    ] * draw.randint(0, 1)
    return Cluster(racks, topics, names)


def a_cache(cluster: Cluster) -> MetadataCache:
    cache = MetadataCache("a-cluster")
    cache.set_brokers(BrokerId(1), [BrokerMetadata(BrokerId(each), {}, rack) for each, rack in cluster.racks.items()])
    for name, (topic_id, rows) in cluster.topics.items():
        for index, row in enumerate(rows):
            replicas = tuple(map(BrokerId, row))
            partition = PartitionMetadata(replicas[0], LeaderEpoch(0), replicas, replicas, ())
            cache.set_partition(name, topic_id, index, partition)
    cache.changed()
    return cache


def as_question(cluster: Cluster) -> dict[str, object]:
    return {
        "brokers": [{"id": broker, "rack": rack} for broker, rack in cluster.racks.items()],
        "topics": [
            {"name": name, "id": topic_id_text(topic_id), "partitions": rows}
            for name, (topic_id, rows) in cluster.topics.items()
        ],
        "names": cluster.names,
    }
