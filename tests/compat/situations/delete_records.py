"""DeleteRecords: a log that begins later than it did."""

from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker


def _delete(broker: Broker, topic: str, offset: int, partition: int = 0, version: int = 2) -> Any:
    partitions = [{"partition_index": partition, "offset": offset}]
    topics = [{"name": topic, "partitions": partitions}]
    answer = broker.ask("DeleteRecords", version, topics=topics, timeout_ms=5_000)
    return answer if isinstance(answer, str) else answer["topics"][0]["partitions"][0]


def _earliest(broker: Broker, topic: str) -> Any:
    partitions = [{"partition_index": 0, "timestamp": -2}]
    answer = broker.ask("ListOffsets", 5, replica_id=-1, topics=[{"name": topic, "partitions": partitions}])
    return answer["topics"][0]["partitions"][0]["offset"]


def _fetch(broker: Broker, topic: str, offset: int) -> Any:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 10_000}
    topics = [{"topic": topic, "partitions": [partition]}]
    answer = broker.ask("Fetch", 11, replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=10_000, topics=topics)
    return answer["responses"][0]["partitions"][0]


def _filled(broker: Broker, name: str, **configs: str) -> str:
    """Offsets 0 to 8 in three batches."""
    topic = broker.create(name, **configs)
    for _ in range(3):
        broker.produce(topic, batch(3))
    return topic


@situation("DeleteRecords v0 to v2 before an offset")
def every_version(broker: Broker) -> Any:
    seen = {}
    for version in range(3):
        topic = _filled(broker, f"cut-v{version}")
        fields = {"topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}], "timeout_ms": 5_000}
        seen[version] = [broker.ask("DeleteRecords", version, **fields), _earliest(broker, topic)]
    return seen


@situation("DeleteRecords in the middle of a batch and what is fetched afterwards")
def inside_a_batch(broker: Broker) -> Any:
    topic = _filled(broker, "cut-inside")
    cut = _delete(broker, topic, 4)
    return [cut, _earliest(broker, topic), {offset: _fetch(broker, topic, offset) for offset in (0, 3, 4, 6)}]


@situation("DeleteRecords up to the high watermark, -1")
def all_of_it(broker: Broker) -> Any:
    topic = _filled(broker, "cut-all")
    return [
        _delete(broker, topic, -1),
        _earliest(broker, topic),
        _fetch(broker, topic, 9),
        broker.produce(topic, batch(1)),
    ]


@situation("DeleteRecords beyond the end, at it, and at negative offsets")
def wrong_offsets(broker: Broker) -> Any:
    topic = _filled(broker, "cut-wrong")
    return {offset: [_delete(broker, topic, offset), _earliest(broker, topic)] for offset in (10, -2, 2**62, 9)}


@situation("DeleteRecords again, and before what is already gone")
def again(broker: Broker) -> Any:
    topic = _filled(broker, "cut-again")
    return [[_delete(broker, topic, offset), _earliest(broker, topic)] for offset in (6, 6, 2, 0, 7)]


@situation("DeleteRecords of unknown topics and partitions beside a known one")
def unknown(broker: Broker) -> Any:
    topic = _filled(broker, "cut-known")
    rows = {topic: [0, 3, -1], broker.name("cut-nowhere"): [0], "in valid": [0]}
    topics = [
        {"name": name, "partitions": [{"partition_index": index, "offset": 1} for index in indexes]}
        for name, indexes in rows.items()
    ]
    answer = broker.ask("DeleteRecords", 2, topics=topics, timeout_ms=5_000)
    for row in answer["topics"]:
        row["partitions"].sort(key=lambda partition: partition["partition_index"])
    answer["topics"].sort(key=lambda row: row["name"])
    return answer


@situation("DeleteRecords of a compacted topic")
def compacted(broker: Broker) -> Any:
    only = _filled(broker, "cut-compacted", cleanup_policy="compact")
    both = _filled(broker, "cut-compacted-deleted", cleanup_policy="compact,delete")
    return {"compact": _delete(broker, only, 3), "compact,delete": _delete(broker, both, 3)}


@situation("DeleteRecords of an empty partition, of no partitions and of no topics")
def nothing(broker: Broker) -> Any:
    topic = broker.create("cut-empty")
    return {
        "0": _delete(broker, topic, 0),
        "-1": _delete(broker, topic, -1),
        "1": _delete(broker, topic, 1),
        "no partitions": broker.ask("DeleteRecords", 2, topics=[{"name": topic, "partitions": []}], timeout_ms=5_000),
        "no topics": broker.ask("DeleteRecords", 2, topics=[], timeout_ms=5_000),
    }


@situation("DeleteRecords with no time to wait")
def no_time(broker: Broker) -> Any:
    seen = {}
    for timeout_ms in (0, -1):
        topic = _filled(broker, f"cut-timeout{timeout_ms}")
        rows = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 3}]}]
        seen[timeout_ms] = broker.ask("DeleteRecords", 2, topics=rows, timeout_ms=timeout_ms)
    return seen
