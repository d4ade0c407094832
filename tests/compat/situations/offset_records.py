"""What the group coordinator writes into the topic of offsets, record by record.

Whoever takes over the data directory reads it, Apache Kafka among them; its tools read it too.
"""

import struct
from collections.abc import Iterator
from typing import Any

from tests.compat.situations.members import Group
from tests.compat.situations.registry import situation
from tests.compat.situations.stored import stored_records
from tests.compat.situations.wire import Broker

OFFSETS_TOPIC = "__consumer_offsets"


def _written(broker: Broker, group: Group) -> list[Any]:
    """The keys and values about one group, in the order of their writing."""
    found = []
    for key, value in _records(broker):
        version = struct.unpack_from(">h", key)[0]
        kind = "GroupMetadata" if version == 2 else "OffsetCommit"
        about = broker.definitions.decode(f"{kind}Key", version, key[2:])
        if about["group"] == group.id:
            row = {"kind": kind, "version": version, "key": about, "value": _value(broker, kind, value)}
            found.append(row)
    return found


def _value(broker: Broker, kind: str, value: bytes | None) -> Any:
    if value is None:
        return "deleted"
    version = struct.unpack_from(">h", value)[0]
    content = broker.definitions.decode(f"{kind}Value", version, value[2:])
    content.get("members", []).sort(key=lambda member: member["subscription"])
    return {"version": version, **content}


def _records(broker: Broker) -> Iterator[tuple[bytes, bytes | None]]:
    metadata = broker.ask("Metadata", 9, topics=[{"name": OFFSETS_TOPIC}], allow_auto_topic_creation=False)
    for partition in metadata["topics"][0]["partitions"]:
        wanted = {
            "partition": partition["partition_index"],
            "fetch_offset": 0,
            "partition_max_bytes": 50_000_000,
        }
        topics = [{"topic": OFFSETS_TOPIC, "partitions": [wanted]}]
        answer = broker.ask("Fetch", 11, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=50_000_000, topics=topics)
        for record in stored_records(answer["responses"][0]["partitions"][0]["records"] or b""):
            yield record.key, record.value


def _commit(broker: Broker, group: Group, topic: str, version: int = 9, **fields: Any) -> None:
    row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": "note", "committed_leader_epoch": 3}
    topics = [{"name": topic, "partitions": [row]}]
    broker.ask("OffsetCommit", version, group_id=group.id, topics=topics, **fields)


@situation("what OffsetCommit of every version leaves in the topic of offsets")
def commits(broker: Broker) -> Any:
    topic = broker.create("written-commits")
    with Group(broker, "written-commits") as group:
        for version in range(1, 10):
            _commit(broker, group, topic, version)
        _commit(broker, group, topic, 4, retention_time_ms=600_000)
        return _written(broker, group)


@situation("what a generation of members leaves in the topic of offsets")
def generation(broker: Broker) -> Any:
    with Group(broker, "written-generation") as group:
        group.settle(group.member(b"a", rebalance_timeout_ms=7_000), group.member(b"b", instance="two"))
        return _written(broker, group)


@situation("what a group that becomes empty leaves in the topic of offsets")
def emptied(broker: Broker) -> Any:
    topic = broker.create("written-empty")
    with Group(broker, "written-empty") as group:
        member = group.member()
        group.settle(member)
        member.commit(topic, 7)
        member.leave()
        return _written(broker, group)


@situation("what a returning static member leaves in the offsets topic")
def static_member(broker: Broker) -> Any:
    with Group(broker, "written-static") as group:
        group.settle(group.member(instance="one"))
        group.member(instance="one").join()
        return _written(broker, group)


@situation("what a generation without a leader's assignment leaves in the topic of offsets")
def before_the_assignment(broker: Broker) -> Any:
    with Group(broker, "written-before") as group:
        group.gather(group.member(b"a"), group.member(b"b"))
        return _written(broker, group)


@situation("what deleted offsets and deleted groups leave in the topic of offsets")
def deleted(broker: Broker) -> Any:
    topic, other = broker.create("written-deleted"), broker.create("written-kept")
    with Group(broker, "written-deleted") as group:
        _commit(broker, group, topic)
        _commit(broker, group, other)
        partitions = [{"partition_index": 0}]
        broker.ask("OffsetDelete", 0, group_id=group.id, topics=[{"name": topic, "partitions": partitions}])
        broker.ask("DeleteGroups", 2, groups_names=[group.id])
        return _written(broker, group)


@situation("the topic of offsets has a configuration of its own")
def configuration(broker: Broker) -> Any:
    with Group(broker, "written-configuration"):
        resource = {"resource_type": 2, "resource_name": OFFSETS_TOPIC, "configuration_keys": None}
        rows = broker.ask("DescribeConfigs", 4, resources=[resource])["results"][0]["configs"]
        metadata = broker.ask("Metadata", 9, topics=[{"name": OFFSETS_TOPIC}], allow_auto_topic_creation=False)
        metadata["topics"][0]["partitions"].sort(key=lambda partition: partition["partition_index"])
        own = {row["name"]: row["value"] for row in rows if row["config_source"] == 1}
        return {"own": own, "metadata": metadata["topics"]}
