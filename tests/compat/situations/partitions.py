"""CreatePartitions: topics that grow; and what may not be done to the topic of offsets."""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.members import wait_for_coordinator
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker


def _grow(broker: Broker, *topics: Values, version: int = 3, timeout_ms: int = 10_000, validate: bool = False) -> Any:
    rows = [{"assignments": None, **topic} for topic in topics]
    answer = broker.ask("CreatePartitions", version, topics=rows, timeout_ms=timeout_ms, validate_only=validate)
    if isinstance(answer, dict):
        answer["results"].sort(key=lambda row: row["name"])
    return answer


def _count(broker: Broker, name: str) -> int:
    answer = broker.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)
    return len(answer["topics"][0]["partitions"])


def _assigned(*brokers: list[int]) -> list[Values]:
    return [{"broker_ids": ids} for ids in brokers]


@situation("CreatePartitions v0 to v3 makes a topic grow")
def every_version(broker: Broker) -> Any:
    seen = {}
    for version in range(4):
        topic = broker.create(f"grow-v{version}")
        answer = _grow(broker, {"name": topic, "count": 3}, version=version)
        seen[version] = [answer, _count(broker, topic)]
    return seen


@situation("CreatePartitions to fewer, as many, no and negative partitions")
def wrong_counts(broker: Broker) -> Any:
    topic = broker.create("grow-counts", partitions=3)
    return {count: _grow(broker, {"name": topic, "count": count}) for count in (2, 3, 0, -1)} | {
        "in the end": _count(broker, topic)
    }


@situation("CreatePartitions of unknown and invalid topics beside a good one")
def unknown(broker: Broker) -> Any:
    good, nowhere = broker.create("grow-good"), broker.name("grow-nowhere")
    return {
        "beside": _grow(broker, {"name": good, "count": 2}, {"name": nowhere, "count": 2}),
        "invalid": _grow(broker, {"name": "in valid", "count": 2}),
        "empty": _grow(broker, {"name": "", "count": 2}),
        "in the end": _count(broker, good),
    }


@situation("CreatePartitions with assignments, right and wrong")
def assignments(broker: Broker) -> Any:
    seen = {}
    for index, (name, rows) in enumerate(
        (
            ("right", _assigned([0], [0])),
            ("too few", _assigned([0])),
            ("too many", _assigned([0], [0], [0])),
            ("none", []),
            ("an unknown broker", _assigned([0], [7])),
            ("one broker twice", _assigned([0], [0, 0])),
            ("more replicas than before", _assigned([0, 1], [0, 1])),
            ("an empty one", _assigned([0], [])),
            ("a negative broker", _assigned([0], [-1])),
        )
    ):
        topic = broker.create(f"grow-assigned{index}")
        seen[name] = [_grow(broker, {"name": topic, "count": 3, "assignments": rows}), _count(broker, topic)]
    return seen


@situation("CreatePartitions that only validates changes nothing")
def validate_only(broker: Broker) -> Any:
    topic = broker.create("grow-validate")
    return {
        "right": _grow(broker, {"name": topic, "count": 4}, validate=True),
        "too few": _grow(broker, {"name": topic, "count": 1}, validate=True),
        "unknown": _grow(broker, {"name": broker.name("grow-validate-nowhere"), "count": 1}, validate=True),
        "in the end": _count(broker, topic),
    }


@situation("CreatePartitions of one topic twice, and of none")
def twice(broker: Broker) -> Any:
    topic, other = broker.create("grow-twice"), broker.create("grow-beside")
    rows = [{"name": topic, "count": 2}, {"name": other, "count": 2}, {"name": topic, "count": 3}]
    return {
        "twice": _grow(broker, *rows),
        "none": _grow(broker),
        "in the end": [_count(broker, topic), _count(broker, other)],
    }


@situation("new partitions take records at once, and those of before are kept")
def used(broker: Broker) -> Any:
    topic = broker.create("grow-used")
    broker.produce(topic, batch(2))
    _grow(broker, {"name": topic, "count": 2})
    answer = until(lambda: broker.produce(topic, batch(1), partition=1), lambda seen: seen["error_code"] == 0)
    return {
        "old": broker.produce(topic, batch(1)),
        "new": answer,
        "beyond": broker.produce(topic, batch(1), partition=2),
    }


@situation("DeleteRecords and CreateTopics of the topic of offsets")
def internal(broker: Broker) -> Any:
    wait_for_coordinator(broker, broker.name("internal"))
    name = "__consumer_offsets"
    row = {"name": name, "num_partitions": 1, "replication_factor": 1}
    metadata = broker.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)["topics"][0]
    created = broker.ask("CreateTopics", 5, topics=[row], timeout_ms=5_000)
    partitions = [{"partition_index": 0, "offset": 0}]
    return {
        "created": [created["topics"][0]["error_code"]],
        "internal": metadata["is_internal"],
        "records deleted": broker.ask(
            "DeleteRecords", 2, timeout_ms=5_000, topics=[{"name": name, "partitions": partitions}]
        ),
        "produced": broker.produce(name, batch(1)),
    }
