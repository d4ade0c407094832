"""Fetch and ListOffsets with read_committed: what is open, committed and aborted in a log."""

from typing import Any

from tests.compat.situations.batches import THEN, batch
from tests.compat.situations.definitions import Values
from tests.compat.situations.fetch import fetch
from tests.compat.situations.producers import Producer, initialised
from tests.compat.situations.registry import situation
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker

COMMITTED = 1


def _interleaved(broker: Broker, name: str) -> tuple[str, list[Producer]]:
    """Two producers' records in turn: a's 0-1, b's 2-3, plain 4, a's abort 5, a's 6, b's commit 7, a's abort 8, plain 9.

    Then a's 10-11, which are open.
    """
    topic = broker.create(name)
    a, b = (initialised(broker, f"{name}-{each}") for each in "ab")
    a.write(topic, 2)
    b.write(topic, 2)
    broker.produce(topic, batch(1))
    a.abort()
    a.write(topic)
    b.commit()
    a.abort()
    broker.produce(topic, batch(1))
    a.write(topic, 2)
    return topic, [a, b]


@situation("Fetch v4 to v17 with read_committed of committed, aborted and open transactions")
def every_version(broker: Broker) -> Any:
    topic, (a, _) = _interleaved(broker, "read-versions")
    seen = {version: fetch(broker, topic, 0, version=version, isolation_level=COMMITTED) for version in range(4, 18)}
    return [seen, a.abort()]


@situation("Fetch with read_uncommitted of committed, aborted and open transactions, markers and all")
def uncommitted(broker: Broker) -> Any:
    topic, (a, _) = _interleaved(broker, "read-uncommitted")
    return [{version: fetch(broker, topic, 0, version=version) for version in (4, 11, 17)}, a.abort()]


@situation("Fetch v2 and v3 of a log with transactions leaves out the markers")
def old_versions(broker: Broker) -> Any:
    topic, (a, _) = _interleaved(broker, "read-old")
    a.abort()
    return {
        f"v{version} from {offset}": fetch(broker, topic, offset, version=version)
        for version in (2, 3)
        for offset in (0, 5, 6)
    }


@situation("Fetch with read_committed from every offset of interleaved transactions")
def from_every_offset(broker: Broker) -> Any:
    topic, (a, _) = _interleaved(broker, "read-offsets")
    still_open = {offset: fetch(broker, topic, offset, isolation_level=COMMITTED) for offset in range(13)}
    ended = a.abort()
    return [
        still_open,
        ended,
        {offset: fetch(broker, topic, offset, isolation_level=COMMITTED) for offset in range(14)},
    ]


@situation("Fetch with read_committed in pieces has the aborted transactions of each piece")
def in_pieces(broker: Broker) -> Any:
    topic, (a, _) = _interleaved(broker, "read-pieces")
    a.abort()
    return {
        f"{size} bytes from {offset}": fetch(broker, topic, offset, isolation_level=COMMITTED, partition_max_bytes=size)
        for size in (1, 100, 250)
        for offset in (0, 2, 5, 6, 9)
    }


@situation("the last stable offset while transactions begin and end")
def last_stable_offset(broker: Broker) -> Any:
    topic = broker.create("read-stable")
    a, b = (initialised(broker, f"read-stable-{each}") for each in "ab")

    def stable() -> Any:
        answer = fetch(broker, topic, 0, isolation_level=COMMITTED)
        row = answer["responses"][0]["partitions"][0]
        return [row["last_stable_offset"], row["high_watermark"], row["aborted_transactions"]]

    seen = [stable()]
    steps = (
        lambda: a.add({topic: [0]}),
        lambda: a.send(topic, 2),
        lambda: b.write(topic),
        lambda: broker.produce(topic, batch(1)),
        a.commit,
        lambda: a.write(topic),
        b.abort,
        a.abort,
    )
    for step in steps:
        step()
        seen.append(stable())
    return seen


@situation("a transaction without records leaves a marker alone, which is no aborted transaction")
def without_records(broker: Broker) -> Any:
    topic = broker.create("read-without-records")
    producer = initialised(broker, "read-without-records")
    for end in (producer.abort, producer.commit):
        producer.add({topic: [0]})
        end()
    return [fetch(broker, topic, 0, isolation_level=level) for level in (0, 1)]


@situation("a transaction that a new epoch aborts, as a reader sees it")
def fenced(broker: Broker) -> Any:
    topic = broker.create("read-fenced")
    producer = initialised(broker, "read-fenced")
    producer.write(topic, 2)
    producer.init_after()
    producer.write(topic)
    producer.commit()
    return fetch(broker, topic, 0, isolation_level=COMMITTED)


@situation("Fetch with read_committed that waits is answered when the transaction ends")
def waiting(broker: Broker) -> Any:
    topic = broker.create("read-waiting")
    producer = initialised(broker, "read-waiting")
    producer.write(topic, 2)
    seen = {}
    for commits in (True, False):
        reader = broker.connect()
        try:
            start = 0 if commits else 3
            partition = {"partition": 0, "fetch_offset": start, "partition_max_bytes": 10_000}
            fields: Values = {"replica_id": -1, "max_wait_ms": 9_000, "min_bytes": 1, "max_bytes": 10_000}
            topics = [{"topic": topic, "partitions": [partition]}]
            asked = reader.send("Fetch", 11, **fields, isolation_level=COMMITTED, topics=topics)
            ended = producer.end(commits=commits)
            seen[commits] = [ended, reader.receive("Fetch", 11, asked)]
        finally:
            reader.close()
        producer.wait_for("CompleteCommit" if commits else "CompleteAbort")
        producer.write(topic, 2)
    producer.abort()
    return seen


@situation("Fetch with read_committed at the last stable offset, between it and the high watermark, and above")
def at_the_end(broker: Broker) -> Any:
    topic = broker.create("read-end")
    broker.produce(topic, batch(2))
    producer = initialised(broker, "read-end")
    producer.write(topic, 3)
    seen = {offset: fetch(broker, topic, offset, isolation_level=COMMITTED) for offset in (1, 2, 3, 5, 6)}
    return [seen, producer.commit()]


@situation("Fetch in a session with read_committed has the records once they are committed")
def session(broker: Broker) -> Any:
    topic = broker.create("read-session")
    producer = initialised(broker, "read-session")
    producer.write(topic, 2)
    reader = broker.connect()
    fields: Values = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 10_000,
        "isolation_level": COMMITTED,
    }
    try:
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}]
        begun = reader.ask("Fetch", 11, **fields, session_epoch=0, topics=[{"topic": topic, "partitions": partitions}])
        session_id = begun["session_id"]
        seen = [begun, reader.ask("Fetch", 11, **fields, session_id=session_id, session_epoch=1)]
        producer.commit()
        return [*seen, reader.ask("Fetch", 11, **fields, session_id=session_id, session_epoch=2)]
    finally:
        reader.close()


def _list(broker: Broker, topic: str, timestamp: int, version: int) -> Any:
    partition: Values = {"partition_index": 0, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [partition]}]
    answer = broker.ask("ListOffsets", version, replica_id=-1, isolation_level=COMMITTED, topics=topics)
    row = answer["topics"][0]["partitions"][0]
    if row["timestamp"] > THEN + 1_000_000:
        row["timestamp"] = "a marker's"
    return row


@situation("ListOffsets v2 to v9 with read_committed while a transaction is open, and when it has ended")
def listed(broker: Broker) -> Any:
    topic = broker.create("read-listed")
    broker.produce(topic, batch(2))
    producer = initialised(broker, "read-listed")
    producer.write(topic, 3)
    broker.produce(topic, batch(1, base_timestamp=THEN + 100))

    def ask() -> Any:
        return {
            f"v{version} {which}": _list(broker, topic, which, version)
            for version in range(2, 10)
            for which in (-1, -2)
        }

    return [ask(), producer.commit(), ask()]


@situation("ListOffsets with read_committed by timestamp, below and above the last stable offset")
def listed_by_timestamp(broker: Broker) -> Any:
    topic = broker.create("read-by-timestamp")
    broker.produce(topic, batch(2))
    producer = initialised(broker, "read-by-timestamp")
    producer.add({topic: [0]})
    producer.send(topic, 3, base_timestamp=THEN + 50)
    broker.produce(topic, batch(1, base_timestamp=THEN + 100))

    def ask() -> Any:
        return {
            f"THEN+{later} v{version}": _list(broker, topic, THEN + later, version)
            for later in (0, 1, 2, 50, 52, 53, 100, 101)
            for version in (5, 9)
        } | {f"max v{version}": _list(broker, topic, -3, version) for version in (7, 9)}

    return [ask(), producer.abort(), ask()]


@situation("DeleteRecords below and above an open transaction's first offset")
def deleted_records(broker: Broker) -> Any:
    topic = broker.create("read-deleted")
    producer = initialised(broker, "read-deleted")
    producer.write(topic, 2)
    producer.abort()
    broker.produce(topic, batch(2))
    producer.write(topic, 2)
    broker.produce(topic, batch(2))
    seen = []
    for offset in (1, 4, 6, -1):
        partitions = [{"partition_index": 0, "offset": offset}]
        topics = [{"name": topic, "partitions": partitions}]
        answer = broker.ask("DeleteRecords", 2, topics=topics, timeout_ms=5_000)
        start = answer["topics"][0]["partitions"][0]["low_watermark"]
        seen.append([answer, fetch(broker, topic, max(start, 0), isolation_level=COMMITTED)])
    return [seen, producer.commit(), until(lambda: _list(broker, topic, -1, 7), lambda _: True)]
