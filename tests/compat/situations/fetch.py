"""Fetch without sessions: positions, bounds, versions and fences."""

import time
from typing import Any

from tests.compat.situations.batches import batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.registry import situation
from tests.compat.situations.wire import Broker

ROOMY = 1_000_000


def fetch(broker: Broker, topic: str, offset: int, *, version: int = 11, **given: Any) -> Any:
    """The whole answer to a fetch of partition 0; given sets fields of the request or of the partition."""
    partition: Values = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": ROOMY}
    fields: Values = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": ROOMY}
    for name, value in given.items():
        owner = partition if name in (*partition, "current_leader_epoch", "last_fetched_epoch") else fields
        owner[name] = value
    entry: Values = {"partitions": [partition]}
    if version >= 13:
        entry["topic_id"] = given.get("topic_id") or broker.topic_id(topic)
        fields.pop("topic_id", None)
    else:
        entry["topic"] = topic
    if version >= 15:
        fields.pop("replica_id", None)
    return broker.ask("Fetch", version, topics=[entry], **fields)


def _filled(broker: Broker, name: str) -> str:
    """A topic with batches at offsets 0-2, 3-4 and 5-9."""
    topic = broker.create(name)
    for count in (3, 2, 5):
        broker.produce(topic, batch(count))
    return topic


@situation("Fetch v4 to v16 of a filled partition")
def every_version(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-versions")
    return {version: fetch(broker, topic, 0, version=version) for version in range(4, 17)}


@situation("Fetch v17 of a filled partition")
def version_17(broker: Broker) -> Any:
    return fetch(broker, _filled(broker, "fetch-v17"), 0, version=17)


@situation("Fetch at an offset inside a batch returns the whole batch")
def inside(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-inside")
    return {offset: fetch(broker, topic, offset) for offset in (1, 4, 7, 9)}


@situation("Fetch at the end waits for max_wait and answers empty")
def at_the_end(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-end")
    seen = {}
    for wait_ms in (0, 250):
        began = time.monotonic()
        answer = fetch(broker, topic, 10, max_wait_ms=wait_ms, min_bytes=1)
        seen[wait_ms] = {"answer": answer, "waited": time.monotonic() - began >= 0.9 * wait_ms / 1000}
    return seen


@situation("Fetch out of range, above and below")
def out_of_range(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-range")
    return {offset: fetch(broker, topic, offset) for offset in (11, 10_000, -1, -5)}


@situation("Fetch out of range does not wait")
def error_does_not_wait(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-range-wait")
    began = time.monotonic()
    answer = fetch(broker, topic, 99, max_wait_ms=5_000, min_bytes=1)
    return {"answer": answer, "at once": time.monotonic() - began < 2.5}


@situation("Fetch v0 to v2 cuts at max bytes inside a batch, from v3 the first batch is whole")
def small_partition_bytes(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-small")
    return {
        f"v{version} max {size}": fetch(broker, topic, 0, version=version, partition_max_bytes=size)
        for version in (0, 1, 2, 3, 4, 11)
        for size in (0, 1, 10, 50, 150)
    }


@situation("Fetch whose max bytes for the answer are small")
def small_total_bytes(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-total")
    return {
        f"v{version} max {size}": fetch(broker, topic, 0, version=version, max_bytes=size)
        for version in (3, 4, 11)
        for size in (0, 1, 100, 150)
    }


@situation("Fetch of two partitions where the first fills the answer")
def two_partitions(broker: Broker) -> Any:
    topic = broker.create("fetch-two", partitions=2)
    for partition in (0, 1):
        broker.produce(topic, batch(3), partition=partition)
        broker.produce(topic, batch(3), partition=partition)
    partitions = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": ROOMY} for n in (1, 0)]
    seen = {}
    for max_bytes in (1, 100, 200, 300):
        answer = broker.ask(
            "Fetch",
            11,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            topics=[{"topic": topic, "partitions": partitions}],
        )
        seen[max_bytes] = answer
    return seen


@situation("Fetch with negative limits")
def negative_limits(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-negative")
    return {
        "max_wait -1": fetch(broker, topic, 10, max_wait_ms=-1, min_bytes=1),
        "min_bytes -1": fetch(broker, topic, 10, min_bytes=-1, max_wait_ms=300),
        "max_bytes -1": fetch(broker, topic, 0, max_bytes=-1),
        "partition_max_bytes -1": fetch(broker, topic, 0, partition_max_bytes=-1),
    }


@situation("Fetch of an unknown topic and of an unknown partition")
def unknown(broker: Broker) -> Any:
    topic = broker.create("fetch-unknown")
    return {
        "topic v4": fetch(broker, broker.name("fetch-nowhere"), 0, version=4),
        "topic v11": fetch(broker, broker.name("fetch-nowhere"), 0),
        "topic v12": fetch(broker, broker.name("fetch-nowhere"), 0, version=12),
        "partition": fetch(broker, topic, 0, partition=5),
        "partition -1": fetch(broker, topic, 0, partition=-1),
        "topic id": fetch(broker, topic, 0, version=13, topic_id=b"\x05" * 16),
        "topic id and wait": fetch(broker, topic, 0, version=13, topic_id=b"\x05" * 16, max_wait_ms=200, min_bytes=1),
        "no topic id": broker.ask(
            "Fetch",
            13,
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            topics=[{"topic_id": bytes(16), "partitions": [{"partition": 0, "partition_max_bytes": 10}]}],
        ),
    }


@situation("Fetch of nothing")
def nothing(broker: Broker) -> Any:
    return {
        version: broker.ask("Fetch", version, replica_id=-1, max_wait_ms=0, min_bytes=0, topics=[])
        for version in (4, 7, 12, 13)
    }


@situation("Fetch as replica 1 from a client's connection")
def as_replica(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-replica")
    return {
        "v4": fetch(broker, topic, 0, version=4, replica_id=1),
        "v11": fetch(broker, topic, 0, version=11, replica_id=1),
        "v15": fetch(broker, topic, 0, version=15, replica_state={"replica_id": 1, "replica_epoch": 1}),
        "replica -2": fetch(broker, topic, 0, version=11, replica_id=-2),
        "replica 0, itself": fetch(broker, topic, 0, version=11, replica_id=0),
    }


@situation("Fetch with a stale, the current and a future leader epoch")
def leader_epochs(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-epochs")
    return {epoch: fetch(broker, topic, 0, current_leader_epoch=epoch) for epoch in (-1, 0, 1, 99, -2)}


@situation("Fetch v12 with a last fetched epoch")
def last_fetched_epochs(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-last-epoch")
    return {
        f"epoch {epoch} at {offset}": fetch(
            broker, topic, offset, version=12, last_fetched_epoch=epoch, current_leader_epoch=0
        )
        for epoch, offset in ((0, 3), (1, 3), (5, 10), (0, 10), (0, 12))
    }


@situation("Fetch with read_committed fills last stable offset and aborted transactions")
def read_committed(broker: Broker) -> Any:
    topic = _filled(broker, "fetch-committed")
    return {
        f"v{version} level {level}": fetch(broker, topic, 3, version=version, isolation_level=level)
        for version in (4, 11, 12)
        for level in (0, 1)
    }


@situation("Fetch with an unknown isolation level")
def unknown_isolation(broker: Broker) -> Any:
    return fetch(broker, _filled(broker, "fetch-isolation"), 0, isolation_level=7)


@situation("Fetch v10 and earlier of a zstd batch")
def zstd_too_early(broker: Broker) -> Any:
    import zstandard

    from tests.compat.situations.batches import record

    topic = broker.create("fetch-zstd")
    broker.produce(topic, batch(1, attributes=4, payload=zstandard.compress(record(b"value"))))
    return {version: fetch(broker, topic, 0, version=version) for version in (2, 4, 9, 10)}


@situation("Fetch with min bytes waits until they are there")
def min_bytes(broker: Broker) -> Any:
    topic = broker.create("fetch-min")
    waiting, writer = broker.connect(), broker.connect()
    try:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": ROOMY}
        asked = waiting.send(
            "Fetch",
            11,
            replica_id=-1,
            max_wait_ms=6_000,
            min_bytes=150,
            max_bytes=ROOMY,
            topics=[{"topic": topic, "partitions": [partition]}],
        )
        first = broker.produce(topic, batch(2))
        second = broker.produce(topic, batch(2))
        return [first, second, waiting.receive("Fetch", 11, asked)]
    finally:
        waiting.close()
        writer.close()
