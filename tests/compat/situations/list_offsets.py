"""ListOffsets: every special timestamp in every version, and OffsetForLeaderEpoch beside it."""

from typing import Any

from tests.compat.situations.batches import THEN, batch, record
from tests.compat.situations.definitions import Values
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


def _list(broker: Broker, topic: str, timestamp: int, version: int, **given: Any) -> Any:
    partition: Values = {"partition_index": 0, "timestamp": timestamp}
    fields: Values = {"replica_id": -1}
    for name, value in given.items():
        (partition if name in ("partition_index", "current_leader_epoch", "max_num_offsets") else fields)[name] = value
    answer = broker.ask("ListOffsets", version, topics=[{"name": topic, "partitions": [partition]}], **fields)
    if isinstance(answer, str):
        return answer
    found = answer["topics"][0]["partitions"][0]
    found["throttle_time_ms"] = answer.get("throttle_time_ms")
    return found


def _filled(broker: Broker, name: str) -> str:
    """Offsets 0-2 at THEN+0..2, 3-5 at THEN+100..102, 6-8 at THEN+50..52."""
    topic = broker.create(name)
    for start in (0, 100, 50):
        broker.produce(topic, batch(3, base_timestamp=THEN + start))
    return topic


@situation("ListOffsets of latest and earliest in v0 to v9")
def ends(broker: Broker) -> Any:
    topic = _filled(broker, "list-ends")
    return {
        f"v{version} {timestamp}": _list(broker, topic, timestamp, version)
        for version in range(1, 10)
        for timestamp in (-1, -2)
    }


@situation("ListOffsets v0 answers a list of offsets")
def version_0(broker: Broker) -> Any:
    topic = _filled(broker, "list-v0")
    return {
        f"{timestamp} most {most}": _list(broker, topic, timestamp, 0, max_num_offsets=most)
        for timestamp in (-1, -2, THEN, THEN * 2)
        for most in (0, 1, 2, 10)
    }


@situation("ListOffsets of max timestamp, local earliest and remote latest")
def special(broker: Broker) -> Any:
    topic = _filled(broker, "list-special")
    return {
        f"v{version} {timestamp}": _list(broker, topic, timestamp, version)
        for version in (6, 7, 8, 9)
        for timestamp in (-3, -4, -5, -6, -99)
    }


@situation("ListOffsets by timestamp is exact")
def by_timestamp(broker: Broker) -> Any:
    topic = _filled(broker, "list-timestamp")
    asked = (
        0,
        1,
        THEN - 5,
        THEN,
        THEN + 1,
        THEN + 2,
        THEN + 3,
        THEN + 50,
        THEN + 100,
        THEN + 101,
        THEN + 102,
        THEN + 103,
    )
    return {f"THEN{timestamp - THEN:+}": _list(broker, topic, timestamp, 7) for timestamp in asked}


@situation("ListOffsets by timestamp inside a gzip batch is exact")
def inside_compressed(broker: Broker) -> Any:
    import gzip

    topic = broker.create("list-gzip")
    records = b"".join(record(b"v", offset_delta=i, timestamp_delta=10 * i) for i in range(4))
    broker.produce(topic, batch(4, attributes=1, payload=gzip.compress(records, mtime=0), max_timestamp=THEN + 30))
    return {f"THEN+{later}": _list(broker, topic, THEN + later, 7) for later in (0, 1, 10, 15, 30, 31)} | {
        "max": _list(broker, topic, -3, 7)
    }


@situation("ListOffsets of an empty partition")
def empty(broker: Broker) -> Any:
    topic = broker.create("list-empty")
    return {timestamp: _list(broker, topic, timestamp, 9) for timestamp in (-1, -2, -3, -4, -5, 0, THEN)}


@situation("ListOffsets of an unknown topic and partition")
def unknown(broker: Broker) -> Any:
    topic = broker.create("list-unknown")
    return {
        f"{name} v{version}": _list(broker, where, -1, version, partition_index=partition)
        for version in (0, 1, 5, 9)
        for name, where, partition in (
            ("topic", broker.name("list-nowhere"), 0),
            ("partition", topic, 4),
            ("partition -1", topic, -1),
        )
    }


@situation("ListOffsets with a leader epoch that is stale, current or ahead")
def epochs(broker: Broker) -> Any:
    topic = _filled(broker, "list-epochs")
    return {
        f"v{version} epoch {epoch}": _list(broker, topic, -1, version, current_leader_epoch=epoch)
        for version in (4, 9)
        for epoch in (-1, 0, 1, 50, -2)
    }


@situation("ListOffsets with read_committed, as a replica, and as the debugging consumer")
def readers(broker: Broker) -> Any:
    topic = _filled(broker, "list-readers")
    return {
        "read_committed latest": _list(broker, topic, -1, 7, isolation_level=1),
        "read_committed max": _list(broker, topic, -3, 7, isolation_level=1),
        "read_committed by timestamp": _list(broker, topic, THEN + 50, 7, isolation_level=1),
        "replica 1": _list(broker, topic, -1, 7, replica_id=1),
        "replica 0": _list(broker, topic, -1, 7, replica_id=0),
        "replica -2": _list(broker, topic, -1, 7, replica_id=-2),
    }


@situation("ListOffsets of one partition named twice")
def duplicates(broker: Broker) -> Any:
    topic = _filled(broker, "list-twice")
    twice = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
    return {
        version: broker.ask("ListOffsets", version, replica_id=-1, topics=[{"name": topic, "partitions": twice}])
        for version in (1, 5, 7)
    }


@situation("OffsetForLeaderEpoch of known, unknown, future and undefined epochs")
def leader_epochs(broker: Broker) -> Any:
    topic = _filled(broker, "epoch-ends")
    seen = {}
    for version in (0, 1, 2, 3, 4):
        for current, asked in ((-1, 0), (-1, 1), (-1, 5), (-1, -1), (0, 0), (7, 0), (-2, 0), (-1, -2)):
            partition = {"partition": 0, "leader_epoch": asked, "current_leader_epoch": current}
            fields: Values = {"topics": [{"topic": topic, "partitions": [partition]}]}
            if version >= 3:
                fields["replica_id"] = -1
            seen[f"v{version} current {current} asked {asked}"] = broker.ask("OffsetForLeaderEpoch", version, **fields)
    return seen


@situation("OffsetForLeaderEpoch of an empty partition, an unknown one, and an unknown topic")
def leader_epochs_unknown(broker: Broker) -> Any:
    topic = broker.create("epoch-unknown")

    def ask(where: str, partition: int, replica: int = -1) -> Any:
        partitions = [{"partition": partition, "leader_epoch": 0}]
        return broker.ask(
            "OffsetForLeaderEpoch", 3, replica_id=replica, topics=[{"topic": where, "partitions": partitions}]
        )

    return {
        "empty": ask(topic, 0),
        "unknown partition": ask(topic, 9),
        "unknown topic": ask(broker.name("epoch-nowhere"), 0),
        "as replica 1": ask(topic, 0, replica=1),
        "as replica -2": ask(topic, 0, replica=-2),
    }
