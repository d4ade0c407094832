"""Records written before and after what is done to a cluster, and the proof that they are all still there."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

from tests.cluster.cluster import Cluster, Partition
from tests.cluster.history import History, violations
from tests.cluster.loads import Writer, read_all


def written(cluster: Cluster, partitions: list[Partition], records: int = 100) -> History:
    """So many records of each partition, acknowledged by all."""
    cluster.wait_until_known(partitions)
    history = History()
    with Writer(cluster.bootstrap, partitions, history, uuid4().hex[:8]) as writer:
        cluster.wait(
            lambda: writer.has_failed or min(writer.acknowledged.values()) >= records,
            f"{records} records of {partitions} are acknowledged",
        )
    return history


def assert_kept(cluster: Cluster, partitions: list[Partition], *histories: History) -> None:
    everything = History([sent for history in histories for sent in history.sent])
    for number, sent in enumerate(everything.sent):
        sent.number = number
    assert violations(everything, read_all(cluster.bootstrap, partitions)) == []


def folders(cluster: Cluster, broker: int, topic: str) -> set[str]:
    """Names of the broker's folders for the topic's partitions; those marked as deleted do not count."""
    found: Iterable[Path] = cluster.brokers[broker].directory.glob(f"data*/{topic}-*")
    return {path.name for path in found if not path.name.endswith("-delete")}
