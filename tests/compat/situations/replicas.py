"""Replicas, directories and leaders: DescribeLogDirs, DescribeProducers, ElectLeaders and reassignments."""

import time
from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


def _sort(rows: list[Values], name: str, partitions: str, index: str = "partition_index") -> None:
    for row in rows:
        row[partitions].sort(key=lambda partition: partition[index])
    rows.sort(key=lambda row: row[name])


def _log_dirs(broker: Broker, topics: Any, version: int = 4) -> Any:
    answer = broker.ask("DescribeLogDirs", version, topics=topics)
    if isinstance(answer, str):
        return answer
    for result in answer["results"]:
        result["log_dir"] = "an absolute path" if result["log_dir"].startswith("/") else result["log_dir"]
        for name in ("total_bytes", "usable_bytes"):
            if name in result:
                result[name] = "some" if result[name] > 0 else result[name]
        result["topics"] = [row for row in result["topics"] if row["name"].startswith(broker.prefix)]
        _sort(result["topics"], "name", "partitions")
    return answer


@situation("DescribeLogDirs v0 to v4 of a topic's partitions")
def log_dirs(broker: Broker) -> Any:
    topic = broker.create("dirs-topic", partitions=3)
    broker.produce(topic, batch(3), partition=1)
    asked = [{"topic": topic, "partitions": [0, 1]}]
    return {version: _log_dirs(broker, asked, version) for version in range(5)}


@situation("DescribeLogDirs of unknown topics and partitions, and of none")
def log_dirs_unknown(broker: Broker) -> Any:
    topic = broker.create("dirs-unknown")
    return {
        "unknown topic": _log_dirs(broker, [{"topic": broker.name("dirs-nowhere"), "partitions": [0]}]),
        "unknown partition": _log_dirs(broker, [{"topic": topic, "partitions": [0, 7]}]),
        "no partitions": _log_dirs(broker, [{"topic": topic, "partitions": []}]),
        "nothing": _log_dirs(broker, []),
    }


@situation("DescribeLogDirs of everything lists each partition")
def log_dirs_all(broker: Broker) -> Any:
    topic = broker.create("dirs-all", partitions=2)
    answer = _log_dirs(broker, None)
    return [row for result in answer["results"] for row in result["topics"] if row["name"] == topic]


def _producers(broker: Broker, rows: dict[str, list[int]]) -> Any:
    topics = [{"name": name, "partition_indexes": indexes} for name, indexes in rows.items()]
    answer = broker.ask("DescribeProducers", 0, topics=topics)
    if isinstance(answer, dict):
        _sort(answer["topics"], "name", "partitions")
        for row in answer["topics"]:
            for partition in row["partitions"]:
                partition["active_producers"].sort(key=lambda producer: producer["last_sequence"])
    return answer


@situation("DescribeProducers of a partition with idempotent producers")
def producers(broker: Broker) -> Any:
    topic = broker.create("producers", partitions=2)
    first, second = broker.new_producer_id(), broker.new_producer_id()
    # Old producers are forgotten sooner or later, so that this one's records are of today.
    now = int(time.time() * 1000)
    broker.produce(topic, batch(2, producer_id=first, producer_epoch=0, base_sequence=0, base_timestamp=now))
    broker.produce(topic, batch(3, producer_id=first, producer_epoch=0, base_sequence=2, base_timestamp=now))
    broker.produce(topic, batch(1, producer_id=second, producer_epoch=3, base_sequence=0, base_timestamp=now))
    broker.produce(topic, batch(1))
    answer = _producers(broker, {topic: [0, 1]})
    for producer in answer["topics"][0]["partitions"][0]["active_producers"]:
        producer["last_timestamp"] -= now
    return answer


@situation("DescribeProducers of unknown topics and partitions, and of none")
def producers_unknown(broker: Broker) -> Any:
    topic = broker.create("producers-unknown")
    return {
        "unknown": _producers(broker, {topic: [0, 5, -1], broker.name("producers-nowhere"): [0], "in valid": [0]}),
        "no partitions": _producers(broker, {topic: []}),
        "nothing": _producers(broker, {}),
    }


def _elect(broker: Broker, rows: dict[str, list[int]] | None, version: int = 2, election_type: int = 0) -> Any:
    topics = None if rows is None else [{"topic": name, "partitions": indexes} for name, indexes in rows.items()]
    fields = {"topic_partitions": topics, "timeout_ms": 10_000, "election_type": election_type}
    answer = broker.ask("ElectLeaders", version, **fields)
    if isinstance(answer, dict):
        _sort(answer["replica_election_results"], "topic", "partition_result", "partition_id")
    return answer


@situation("ElectLeaders v0 to v2 where the preferred replica leads already")
def elect(broker: Broker) -> Any:
    topic = broker.create("elect", partitions=2)
    return {version: _elect(broker, {topic: [0, 1]}, version) for version in range(3)}


@situation("ElectLeaders of unknown topics and partitions beside known ones")
def elect_unknown(broker: Broker) -> Any:
    topic = broker.create("elect-unknown")
    return _elect(broker, {topic: [0, 4], broker.name("elect-nowhere"): [0], "in valid": [0]})


@situation("ElectLeaders of an unclean leader where there is a clean one")
def elect_unclean(broker: Broker) -> Any:
    topic = broker.create("elect-unclean")
    return {version: _elect(broker, {topic: [0, 3]}, version, election_type=1) for version in (1, 2)}


@situation("ElectLeaders of an unknown kind")
def elect_unknown_kind(broker: Broker) -> Any:
    topic = broker.create("elect-kind")
    return {kind: _elect(broker, {topic: [0]}, election_type=kind) for kind in (2, -1, 99)}


@situation("ElectLeaders of all partitions, of none, and of a topic's none")
def elect_all(broker: Broker) -> Any:
    topic = broker.create("elect-all")
    return {"all": _elect(broker, None), "none": _elect(broker, {}), "no partitions": _elect(broker, {topic: []})}


def _reassign(broker: Broker, rows: dict[str, dict[int, list[int] | None]]) -> Any:
    topics = [
        {
            "name": name,
            "partitions": [{"partition_index": index, "replicas": replicas} for index, replicas in partitions.items()],
        }
        for name, partitions in rows.items()
    ]
    answer = broker.ask("AlterPartitionReassignments", 0, topics=topics, timeout_ms=10_000)
    if isinstance(answer, dict):
        _sort(answer["responses"], "name", "partitions")
    return answer


def _reassigned(broker: Broker, rows: dict[str, list[int]] | None) -> Any:
    topics = None if rows is None else [{"name": name, "partition_indexes": indexes} for name, indexes in rows.items()]
    return broker.ask("ListPartitionReassignments", 0, topics=topics, timeout_ms=10_000)


@situation("AlterPartitionReassignments to the replicas there are")
def reassign_same(broker: Broker) -> Any:
    topic = broker.create("reassign-same", partitions=2)
    answer = _reassign(broker, {topic: {0: [0], 1: [0]}})
    metadata = broker.ask("Metadata", 9, topics=[{"name": topic}], allow_auto_topic_creation=False)["topics"][0]
    return {
        "answer": answer,
        "listed": _reassigned(broker, {topic: [0, 1]}),
        "replicas": [partition["replica_nodes"] for partition in metadata["partitions"]],
    }


@situation("AlterPartitionReassignments to replicas that cannot be")
def reassign_wrong(broker: Broker) -> Any:
    topic = broker.create("reassign-wrong")
    wrong: dict[str, list[int] | None] = {
        "an unknown broker": [7],
        "a known and an unknown one": [0, 7],
        "none": [],
        "one twice": [0, 0],
        "a negative one": [-1],
        "nothing to cancel": None,
    }
    return {name: _reassign(broker, {topic: {0: replicas}}) for name, replicas in wrong.items()} | {
        "listed": _reassigned(broker, {topic: [0]})
    }


@situation("AlterPartitionReassignments of unknown topics and partitions, and of none")
def reassign_unknown(broker: Broker) -> Any:
    topic = broker.create("reassign-unknown")
    return {
        "unknown": _reassign(broker, {topic: {0: [0], 5: [0]}, broker.name("reassign-nowhere"): {0: [0]}}),
        "to cancel": _reassign(broker, {topic: {5: None}, broker.name("reassign-nowhere"): {0: None}}),
        "nothing": _reassign(broker, {}),
        "no partitions": _reassign(broker, {topic: {}}),
    }


@situation("ListPartitionReassignments where nothing is reassigned")
def list_reassignments(broker: Broker) -> Any:
    topic = broker.create("reassign-list")
    return {
        "all": _reassigned(broker, None),
        "known": _reassigned(broker, {topic: [0]}),
        "unknown": _reassigned(broker, {topic: [9], broker.name("reassign-list-nowhere"): [0]}),
        "none": _reassigned(broker, {}),
        "no partitions": _reassigned(broker, {topic: []}),
    }
