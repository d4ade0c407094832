"""Metadata: topics by name, by id, all, none, and ones that are not there."""

from typing import Any

from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker


def _without_brokers(answer: Any) -> Any:
    return answer if isinstance(answer, str) else {"topics": answer["topics"]}


@situation("Metadata v0 to v12 of one topic")
def every_version(broker: Broker) -> Any:
    topic = broker.create("metadata-versions", partitions=2)
    seen = {}
    for version in range(13):
        answer = broker.ask("Metadata", version, topics=[{"name": topic}])
        for entry in answer["topics"]:
            entry["partitions"].sort(key=lambda partition: partition["partition_index"])
        seen[version] = answer
    return seen


@situation("Metadata of all topics: a null list from v1, an empty one in v0")
def all_topics(broker: Broker) -> Any:
    topic = broker.create("metadata-all")
    answers = {0: broker.ask("Metadata", 0, topics=[])}
    answers |= {version: broker.ask("Metadata", version, topics=None) for version in (1, 8, 12)}
    return {version: topic in [entry["name"] for entry in answer["topics"]] for version, answer in answers.items()}


@situation("Metadata of no topics: an empty list from v1")
def no_topics(broker: Broker) -> Any:
    return {version: broker.ask("Metadata", version, topics=[]) for version in (1, 5, 9, 12)}


@situation("Metadata of an unknown topic without auto creation")
def unknown_topic(broker: Broker) -> Any:
    name = broker.name("not-there")
    return {
        version: _without_brokers(
            broker.ask("Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=False)
        )
        for version in (4, 8, 9, 12)
    }


@situation("Metadata of an unknown topic with auto creation makes it")
def auto_creation(broker: Broker) -> Any:
    name = broker.name("made-by-asking")
    first = _without_brokers(broker.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True))
    again = until(
        lambda: _without_brokers(broker.ask("Metadata", 9, topics=[{"name": name}])),
        lambda answer: isinstance(answer, dict) and answer["topics"][0]["error_code"] == 0,
    )
    return {"first answer": first, "in the end": again}


@situation("Metadata of invalid topic names")
def invalid_names(broker: Broker) -> Any:
    names = ["../../x", "", ".", "..", "a" * 250, "new\nline", "späte", "with space", "a:b"]
    return {
        name[:20]: [
            _without_brokers(broker.ask("Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=auto))
            for version, auto in ((1, True), (9, False), (9, True))
        ]
        for name in names
    }


@situation("Metadata of one topic named twice")
def named_twice(broker: Broker) -> Any:
    topic = broker.create("metadata-twice")
    return _without_brokers(broker.ask("Metadata", 9, topics=[{"name": topic}, {"name": topic}]))


@situation("Metadata by topic id, known and unknown")
def by_id(broker: Broker) -> Any:
    topic = broker.create("metadata-id")
    known = broker.topic_id(topic)
    return {
        "known": _without_brokers(broker.ask("Metadata", 12, topics=[{"topic_id": known, "name": None}])),
        "unknown": _without_brokers(broker.ask("Metadata", 12, topics=[{"topic_id": b"\x07" * 16, "name": None}])),
        "unknown and known": _without_brokers(
            broker.ask(
                "Metadata",
                12,
                topics=[{"topic_id": b"\x07" * 16, "name": None}, {"topic_id": known, "name": None}],
            )
        ),
    }


@situation("Metadata by topic id in v10 and v11, where ids are not allowed yet")
def by_id_too_early(broker: Broker) -> Any:
    known = broker.topic_id(broker.create("metadata-early-id"))
    return {
        version: broker.ask("Metadata", version, topics=[{"topic_id": known, "name": None}]) for version in (10, 11)
    }


@situation("Metadata v12 by name and id at once, and by neither")
def name_and_id(broker: Broker) -> Any:
    topic = broker.create("metadata-both")
    known = broker.topic_id(topic)
    return {
        "both": _without_brokers(broker.ask("Metadata", 12, topics=[{"topic_id": known, "name": topic}])),
        "neither": _without_brokers(broker.ask("Metadata", 12, topics=[{"name": None}])),
        "name and an unknown id": _without_brokers(
            broker.ask("Metadata", 12, topics=[{"topic_id": b"\x09" * 16, "name": topic}])
        ),
    }


@situation("Metadata with authorized operations asked for")
def authorized_operations(broker: Broker) -> Any:
    topic = broker.create("metadata-operations")
    return {
        "v8": broker.ask(
            "Metadata",
            8,
            topics=[{"name": topic}],
            include_cluster_authorized_operations=True,
            include_topic_authorized_operations=True,
        ),
        "v12": broker.ask("Metadata", 12, topics=[{"name": topic}], include_topic_authorized_operations=True),
    }


@situation("FindCoordinator of a group and of a transaction, and an unknown type")
def find_coordinator(broker: Broker) -> Any:
    return {
        "found, or not available yet": broker.ask("FindCoordinator", 0, key="g")["error_code"] in (0, 15),
        "unknown type v3": broker.ask("FindCoordinator", 3, key="g", key_type=9),
        "unknown type v4": broker.ask("FindCoordinator", 4, key_type=9, coordinator_keys=["g"]),
    }
