"""Records written before and after what is done to a cluster, and the proof that they are all still there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from sordini.protocol.api import ApiKey
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.cluster.cluster import Cluster, Partition
from tests.cluster.history import History, violations
from tests.cluster.loads import Writer, read_all
from tests.process.wire import Client


def written(cluster: Cluster, partitions: list[Partition], records: int = 100) -> History:
    """So many records of each partition, acknowledged by all."""
    for broker in cluster.brokers:
        cluster.wait(
            lambda one=broker: not cluster.brokers[one].is_running or _knows(cluster, one, partitions),
            f"{broker} knows of {partitions}",
        )
    history = History()
    with Writer(cluster.bootstrap, partitions, history, uuid4().hex[:8]) as writer:
        cluster.wait(
            lambda: writer.has_failed or min(writer.acknowledged.values()) >= records,
            f"{records} records of {partitions} are acknowledged",
        )
    return history


def _knows(cluster: Cluster, broker: int, partitions: list[Partition]) -> bool:
    """Whether a broker tells clients of all of them: they send nothing to a partition that they were not told of."""
    topics = [MetadataRequestTopic(name=topic) for topic in {topic for topic, _ in partitions}]
    wanted = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    with Client("127.0.0.1", cluster.brokers[broker].port) as client:
        answer = client.ask(ApiKey.METADATA, 9, wanted)
    told = {(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions}
    return told >= set(partitions)


def assert_kept(cluster: Cluster, partitions: list[Partition], *histories: History) -> None:
    everything = History([sent for history in histories for sent in history.sent])
    for number, sent in enumerate(everything.sent):
        sent.number = number
    assert violations(everything, read_all(cluster.bootstrap, partitions)) == []


def folders(cluster: Cluster, broker: int, topic: str) -> set[str]:
    """Names of the broker's folders for the topic's partitions; those marked as deleted do not count."""
    found: Iterable[Path] = cluster.brokers[broker].directory.glob(f"data*/{topic}-*")
    return {path.name for path in found if not path.name.endswith("-delete")}
