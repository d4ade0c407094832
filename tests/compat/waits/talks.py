"""What happens to a Fetch that waits already, and to one after that: topics deleted, made again, and other rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard

from tests.compat.situations.batches import batch, record
from tests.compat.situations.waiting import until
from tests.compat.situations.wire import Broker, Conversation
from tests.compat.waits.cases import (
    BY_ID,
    CONSUMER,
    LONG_MS,
    NEW_SESSION,
    NO_SESSION,
    SHORT_MS,
    Reader,
    Row,
    essence,
)
from tests.compat.waits.tree import GONE, OLD, QUIET, SEGMENTS

UNKNOWN_TOPIC_OR_PARTITION, TOPIC_ALREADY_EXISTS, STORAGE_ERROR = 3, 36, 56


@contextmanager
def reader(broker: Broker, version: int, ids: Mapping[str, bytes], replica: int = CONSUMER) -> Iterator[Reader]:
    conversation = Conversation(broker.host, broker.port, broker.definitions, patience_s=30)
    try:
        yield Reader(conversation, version, replica, ids)
    finally:
        conversation.close()


def read(one: Reader, ids: Mapping[str, bytes], rows: list[Row], wait_ms: int, **how: Any) -> Any:
    """What the reader is essence, and whether it had to wait."""
    found = one.fetch(rows, wait_ms, **how)
    return {**found, "answer": essence(found["answer"], {topic_id: name for name, topic_id in ids.items()})}


def made_again(broker: Broker, quiet: Mapping[str, bytes], version: int, *, beside: bool) -> Any:
    """A topic is deleted while a session waits for it, and made again under the same name."""
    name = broker.create_led(f"again-v{version}-{'beside' if beside else 'alone'}")
    ids = {**quiet, name: broker.topic_id(name)}
    rows = [Row(name), Row(QUIET)] if beside else [Row(name)]
    seen: dict[str, Any] = {}
    with reader(broker, version, ids) as waiting, reader(broker, version, ids) as other:
        session_id = waiting.fetch(rows, 0, epoch=NEW_SESSION)["answer"]["session_id"]
        how: dict[str, Any] = {"session_id": session_id}
        seen["while it waits"] = waiting.during([], 4 * LONG_MS, lambda: delete(broker, name), epoch=1, **how)
        seen["while it waits"]["answer"] = essence(seen["while it waits"]["answer"], by_id(ids))
        gone_ms = SHORT_MS if beside else LONG_MS
        until(lambda: exists(broker, name), lambda there: not there)
        seen["deleted"] = read(waiting, ids, [], gone_ms, epoch=2, **how)
        seen["deleted, without session"] = read(other, ids, rows, gone_ms)
        seen["deleted, new session"] = read(other, ids, rows, gone_ms, epoch=NEW_SESSION)
        create_again(broker, name)
        again_ms = LONG_MS if version >= BY_ID else SHORT_MS
        seen["made again"] = read(waiting, ids, [], again_ms, epoch=3, **how)
        seen["made again, once more"] = read(waiting, ids, [], again_ms, epoch=4, **how)
        old_ms = SHORT_MS if beside or version < BY_ID else LONG_MS
        seen["made again, without session"] = read(other, ids, rows, old_ms)
        seen["made again, new session"] = read(other, ids, rows, old_ms, epoch=NEW_SESSION)
    return seen


def by_id(ids: Mapping[str, bytes]) -> dict[bytes, str]:
    return {topic_id: name for name, topic_id in ids.items()}


def delete(broker: Broker, name: str) -> None:
    answer = broker.ask("DeleteTopics", 4, topic_names=[name], timeout_ms=20_000)
    assert answer["responses"][0]["error_code"] == 0, answer


def create_again(broker: Broker, name: str) -> None:
    """Apache Kafka refuses the name until the logs of the deleted topic are gone."""
    row = {"name": name, "num_partitions": 1, "replication_factor": 1}
    answer = until(
        lambda: broker.ask("CreateTopics", 5, timeout_ms=10_000, topics=[row])["topics"][0],
        lambda seen: seen["error_code"] != TOPIC_ALREADY_EXISTS,
    )
    assert answer["error_code"] == 0, answer
    rows = [{"partition_index": 0, "timestamp": -1}]
    until(
        lambda: broker.ask("ListOffsets", 5, replica_id=-1, topics=[{"name": name, "partitions": rows}]),
        lambda seen: seen["topics"][0]["partitions"][0]["error_code"] == 0,
    )


def exists(broker: Broker, name: str) -> bool:
    answer = broker.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=False)
    code: int = answer["topics"][0]["error_code"]
    return code != UNKNOWN_TOPIC_OR_PARTITION


def conversions(broker: Broker, ids: Mapping[str, bytes]) -> Any:
    """Rows that clients of old versions may not have, with more and with less than min.bytes."""
    broker.produce(OLD, batch(3))
    zstd = broker.create_led("zstd")
    broker.produce(zstd, batch(1, attributes=4, payload=zstandard.compress(record(b"value"))))
    asked = [
        (f"{name} v{version} of {min_bytes}", version, topic, min_bytes, wait_ms)
        for topic, name in ((OLD, OLD), (zstd, "zstd"))
        for version in (1, 3, 4)
        for min_bytes, wait_ms in ((1, LONG_MS), (100_000, SHORT_MS))
    ]

    def ask(_: str, version: int, topic: str, min_bytes: int, wait_ms: int) -> Any:
        with reader(broker, version, ids) as one:
            return read(one, ids, [Row(topic), Row(QUIET)], wait_ms, min_bytes=min_bytes)

    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip((one[0] for one in asked), pool.map(lambda one: ask(*one), asked), strict=True))


def fill(broker: Broker, topic: str) -> None:
    """Batches of five records for two segments and a half."""
    payload = b"".join(record(b"v" * 60, offset_delta=number) for number in range(5))
    for _ in range(5):
        broker.produce(topic, batch(5, payload=payload))


def segments(broker: Broker, ids: Mapping[str, bytes]) -> Any:
    """Less than min.bytes, where the reader is behind the newest segment, in it, and at the end of one."""
    fill(broker, SEGMENTS)
    asked = [(replica, offset) for replica in (CONSUMER, GONE) for offset in (0, 10, 15, 20, 25)]

    def ask(replica: int, offset: int) -> Any:
        with reader(broker, 12, ids, replica) as one:
            return read(one, ids, [Row(SEGMENTS, offset=offset), Row(QUIET)], SHORT_MS, min_bytes=100_000)

    with ThreadPoolExecutor(len(asked)) as pool:
        return dict(zip(map(str, asked), pool.map(lambda one: ask(*one), asked), strict=True))


def failed_directory(broker: Broker, ids: Mapping[str, bytes], directories: tuple[Path, Path]) -> Any:
    """A partition whose log directory has failed, beside one in the other directory."""
    quiet = {part: next(one for one in directories if (one / f"{QUIET}-{part}").exists()) for part in range(4)}
    other = next(part for part, directory in quiet.items() if directory != quiet[0])
    rows = [Row(QUIET, 0), Row(QUIET, other)]
    seen: dict[str, Any] = {}
    with reader(broker, BY_ID, ids) as in_session, reader(broker, BY_ID, ids) as without:
        session_id = in_session.fetch(rows, 0, epoch=NEW_SESSION)["answer"]["session_id"]
        # The next segment cannot be made there.
        quiet[0].rename(quiet[0].with_name(f"{quiet[0].name}-gone"))
        fill(broker, QUIET)
        until(lambda: codes(without.fetch(rows, 0), other)["answer"]["failed"], lambda code: code == STORAGE_ERROR)
        for name, epoch in (("in the session", 1), ("in the session, again", 2)):
            seen[name] = codes(in_session.fetch([], LONG_MS, session_id=session_id, epoch=epoch), other)
        for name, epoch in (("without session", NO_SESSION), ("new session", NEW_SESSION)):
            seen[name] = codes(without.fetch(rows, LONG_MS, epoch=epoch), other)
    return seen


def codes(found: Any, other: int) -> Any:
    """The error of the failed partition, and of the other one, where they are in the answer."""
    rows = [row for topic in found["answer"]["responses"] for row in topic["partitions"]]
    names = {0: "failed", other: "other"}
    return {**found, "answer": {names[row["partition_index"]]: row["error_code"] for row in rows}}
