"""CreateTopics and DeleteTopics: every way a request for a topic can be wrong."""

from typing import Any

from tests.compat.situations.definitions import Values
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


def _create(broker: Broker, topics: list[Values], version: int = 5, *, timeout_ms: int = 3_000, **fields: Any) -> Any:
    return broker.ask("CreateTopics", version, topics=topics, timeout_ms=timeout_ms, **fields)


def _topic(name: str, **fields: Any) -> Values:
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}


def _assigned(name: str, assignment: dict[int, list[int]], **fields: Any) -> Values:
    rows = [{"partition_index": index, "broker_ids": ids} for index, ids in assignment.items()]
    return {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": rows, **fields}


def _brief(answer: Any) -> Any:
    """Without the list of configurations, which DescribeConfigs compares."""
    if isinstance(answer, str):
        return answer
    for topic in answer["topics"]:
        if topic.get("configs"):
            topic["configs"] = "given"
    return answer


@situation("CreateTopics v0 to v7")
def every_version(broker: Broker) -> Any:
    return {
        version: _brief(_create(broker, [_topic(broker.name(f"create-v{version}"))], version)) for version in range(8)
    }


@situation("CreateTopics with bad names")
def bad_names(broker: Broker) -> Any:
    names = ["", ".", "..", "../../x", "a" * 249, "a" * 250, "with space", "new\nline", "späte", "a:b"]
    return {f"{name[:12]} ({len(name)})": _brief(_create(broker, [_topic(name)], validate_only=True)) for name in names}


@situation("CreateTopics of a topic that exists, and of one whose name collides")
def existing(broker: Broker) -> Any:
    broker.create("create.exists_x")
    return {
        "exists": _brief(_create(broker, [_topic(broker.name("create.exists_x"))])),
        "exists, validate only": _brief(_create(broker, [_topic(broker.name("create.exists_x"))], validate_only=True)),
        "collides": _brief(_create(broker, [_topic(broker.name("create_exists.x"))])),
    }


@situation("CreateTopics with wrong partition counts")
def partition_counts(broker: Broker) -> Any:
    return {
        f"{count}": _brief(_create(broker, [_topic(broker.name(f"create-count{count}"), num_partitions=count)]))
        for count in (0, -2, -1)
    }


@situation("CreateTopics with wrong replication factors")
def replication_factors(broker: Broker) -> Any:
    return {
        f"{factor}": _brief(_create(broker, [_topic(broker.name(f"create-factor{factor}"), replication_factor=factor)]))
        for factor in (0, -2, -1, 3)
    }


@situation("CreateTopics with the broker's defaults, -1 and -1, in v3 and v4")
def defaults(broker: Broker) -> Any:
    both = {"num_partitions": -1, "replication_factor": -1}
    return {
        version: _brief(_create(broker, [_topic(broker.name(f"create-defaults{version}"), **both)], version))
        for version in (0, 3, 4, 5)
    }


@situation("CreateTopics with a manual assignment, right and wrong")
def assignments(broker: Broker) -> Any:
    cases: dict[str, dict[int, list[int]]] = {
        "right": {0: [0], 1: [0]},
        "unknown broker": {0: [77]},
        "the same broker twice": {0: [0, 0]},
        "empty replicas": {0: []},
        "does not begin at 0": {1: [0]},
        "a gap": {0: [0], 2: [0]},
        "negative partition": {-1: [0]},
        "different factors": {0: [0], 1: [0, 1]},
        "negative broker": {0: [-1]},
    }
    # For a topic without a possible leader, Apache Kafka answers after the timeout.
    return {
        name: _brief(
            _create(
                broker,
                [_assigned(broker.name(f"assigned-{number}"), rows)],
                timeout_ms=3_000 if name == "right" else 300,
            )
        )
        for number, (name, rows) in enumerate(cases.items())
    }


@situation("CreateTopics with an assignment of one partition twice")
def assigned_twice(broker: Broker) -> Any:
    rows = [{"partition_index": 0, "broker_ids": [0]}, {"partition_index": 0, "broker_ids": [0]}]
    topic = {**_assigned(broker.name("assigned-twice"), {}), "assignments": rows}
    return _brief(_create(broker, [topic]))


@situation("CreateTopics with both a count and an assignment")
def count_and_assignment(broker: Broker) -> Any:
    return {
        "both": _brief(
            _create(broker, [_assigned(broker.name("both-1"), {0: [0]}, num_partitions=1, replication_factor=1)])
        ),
        "count": _brief(_create(broker, [_assigned(broker.name("both-2"), {0: [0]}, num_partitions=1)])),
        "factor": _brief(_create(broker, [_assigned(broker.name("both-3"), {0: [0]}, replication_factor=1)])),
    }


@situation("CreateTopics with bad configuration keys and values")
def configs(broker: Broker) -> Any:
    cases: dict[str, tuple[str, str | None]] = {
        "unknown key": ("no.such.key", "1"),
        "not a number": ("retention.ms", "soon"),
        "negative": ("segment.bytes", "-5"),
        "below the minimum": ("segment.bytes", "13"),
        "unknown word": ("cleanup.policy", "burn"),
        "empty list": ("cleanup.policy", ""),
        "two policies": ("cleanup.policy", "compact,delete"),
        "unknown codec": ("compression.type", "brotli"),
        "ratio above 1": ("min.cleanable.dirty.ratio", "1.5"),
        "min.insync 0": ("min.insync.replicas", "0"),
        "not a boolean": ("unclean.leader.election.enable", "maybe"),
        "null value": ("retention.ms", None),
        "empty value": ("retention.ms", ""),
        "number with spaces": ("retention.ms", " 1000 "),
        "a broker's key": ("log.retention.ms", "1000"),
        "upper case": ("CLEANUP.POLICY", "compact"),
        "max.message.bytes -1": ("max.message.bytes", "-1"),
        "message.format.version": ("message.format.version", "2.0"),
        "bad message.format.version": ("message.format.version", "banana"),
        "max.compaction.lag below min": ("max.compaction.lag.ms", "0"),
        "remote.storage.enable": ("remote.storage.enable", "true"),
    }
    return {
        name: _brief(
            _create(
                broker,
                [_topic(broker.name(f"configured-{number}"), configs=[{"name": key, "value": value}])],
            )
        )
        for number, (name, (key, value)) in enumerate(cases.items())
    }


@situation("CreateTopics with one configuration key twice")
def config_twice(broker: Broker) -> Any:
    rows = [{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]
    return _brief(_create(broker, [_topic(broker.name("config-twice"), configs=rows)]))


@situation("CreateTopics that only validates makes nothing")
def validate_only(broker: Broker) -> Any:
    name = broker.name("validated")
    answer = _brief(_create(broker, [_topic(name, num_partitions=4)], validate_only=True))
    seen = broker.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)
    return {"answer": answer, "afterwards": seen["topics"][0]["error_code"]}


@situation("CreateTopics with one topic twice beside a good one")
def duplicate(broker: Broker) -> Any:
    twice, good = broker.name("created-twice"), broker.name("created-beside")
    answer = _brief(_create(broker, [_topic(twice), _topic(good), _topic(twice)]))
    answer["topics"].sort(key=lambda topic: topic["name"])
    return answer


@situation("CreateTopics of nothing, and with no time to wait")
def nothing(broker: Broker) -> Any:
    seen = {"nothing": _create(broker, [])}
    for timeout_ms in (0, -1):
        topic = _topic(broker.name(f"create-timeout{timeout_ms}"))
        seen[f"timeout {timeout_ms}"] = _brief(broker.ask("CreateTopics", 5, topics=[topic], timeout_ms=timeout_ms))
    return seen


@situation("CreateTopics v5 lists the new topic's configuration")
def listed_configs(broker: Broker) -> Any:
    rows = [{"name": "retention.ms", "value": "1234"}, {"name": "cleanup.policy", "value": "compact"}]
    answer = _create(broker, [_topic(broker.name("create-listed"), configs=rows)])
    return {row["name"]: row for row in answer["topics"][0]["configs"]}


@situation("DeleteTopics v0 to v6 by name")
def delete_versions(broker: Broker) -> Any:
    seen = {}
    for version in range(7):
        name = broker.create(f"delete-v{version}")
        fields: Values = {"topics": [{"name": name}]} if version >= 6 else {"topic_names": [name]}
        seen[version] = broker.ask("DeleteTopics", version, timeout_ms=10_000, **fields)
    return seen


@situation("DeleteTopics by id, and by an unknown id")
def delete_by_id(broker: Broker) -> Any:
    name = broker.create("delete-id")
    known = broker.topic_id(name)

    def delete(*topics: Values) -> Any:
        return broker.ask("DeleteTopics", 6, timeout_ms=10_000, topics=list(topics))

    return {
        "known": delete({"name": None, "topic_id": known}),
        "unknown": delete({"name": None, "topic_id": b"\x03" * 16}),
        "neither": delete({"name": None}),
        "name and id": delete({"name": broker.create("delete-both"), "topic_id": b"\x03" * 16}),
    }


@situation("DeleteTopics of unknown, invalid and repeated names")
def delete_wrong(broker: Broker) -> Any:
    name = broker.create("delete-twice")
    return {
        "unknown": broker.ask("DeleteTopics", 4, timeout_ms=5000, topic_names=[broker.name("delete-nowhere")]),
        "invalid": broker.ask("DeleteTopics", 4, timeout_ms=5000, topic_names=["in valid"]),
        "empty": broker.ask("DeleteTopics", 4, timeout_ms=5000, topic_names=[]),
        "repeated v6": broker.ask("DeleteTopics", 6, timeout_ms=5000, topics=[{"name": name}, {"name": name}]),
        "repeated v4": broker.ask("DeleteTopics", 4, timeout_ms=5000, topic_names=[name, name]),
    }


@situation("a deleted topic is gone from Metadata, Produce and Fetch")
def deleted(broker: Broker) -> Any:
    from tests.compat.situations.batches import batch

    name = broker.create("delete-gone")
    broker.produce(name, batch(2))
    broker.ask("DeleteTopics", 4, timeout_ms=10_000, topic_names=[name])
    answer = broker.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)
    partition = {"partition": 0, "partition_max_bytes": 1000}
    fetched = broker.ask(
        "Fetch", 11, replica_id=-1, max_wait_ms=0, min_bytes=0, topics=[{"topic": name, "partitions": [partition]}]
    )
    return {"metadata": answer["topics"], "produce": broker.produce(name, batch(1)), "fetch": fetched["responses"]}
