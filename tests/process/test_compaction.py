"""Compaction in a running broker: by a child process, beside requests, and with either of the two killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sordini.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from sordini.protocol.records.batch import Record, read_header, read_records
from tests.outside.processes import SordiniProcess
from tests.support.builders import a_batch
from tests.support.wire_client import Client

Start = Callable[..., SordiniProcess]
Connect = Callable[..., Client]

SEGMENT_BYTES = 50_000
KEYS = 50
TINY = {
    "log.cleanup.policy": "compact",
    "log.segment.bytes": SEGMENT_BYTES,
    "log.index.interval.bytes": 500,
    "log.segment.delete.delay.ms": 100,
    "log.cleaner.backoff.ms": 20,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "offsets.topic.num.partitions": 1,
    "offsets.topic.segment.bytes": 4_000,
}
PATIENCE_S = 30.0


def until(condition: Callable[[], bool], broker: SordiniProcess, what: str) -> None:
    broker.wait_until(condition, PATIENCE_S, what)


def round_of(number: int, *, keys: int = KEYS, bytes_each: int = 100) -> bytes:
    """A batch in which each key has the round's number as its value."""
    value = b"%d".ljust(bytes_each) % number
    return a_batch([Record(key, 1_700_000_000_000 + number, b"key-%d" % key, value) for key in range(keys)])


def produce(client: Client, topic: str, rounds: range) -> None:
    for number in rounds:
        (row,) = client.produce(topic, [round_of(number)])
        assert row.error_code == 0


def consumed(client: Client, topic: str, offset: int = 0) -> list[tuple[int, bytes, bytes]]:
    """Offset, key and value of every record from an offset on, fetch by fetch."""
    found: list[tuple[int, bytes, bytes]] = []
    while True:
        data = memoryview(client.fetch(topic, offset=offset))
        position = 0
        while len(data) - position >= 61:
            header = read_header(data, position)
            if position + header.size > len(data):
                break
            for record in read_records(data[position:], header):
                assert record.key is not None
                assert record.value is not None
                if record.offset >= offset:
                    found.append((record.offset, bytes(record.key), bytes(record.value).strip()))
            position += header.size
            offset = header.next_offset
        if position == 0:
            return found


def size_of(directory: Path) -> int:
    """Bytes of the segments; one that is swapped away meanwhile has none."""
    size = 0
    for path in directory.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def lines(broker: SordiniProcess, event: str) -> list[str]:
    return [line for line in broker.output().splitlines() if event in line]


def children(broker: SordiniProcess) -> list[int]:
    text = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text()
    return [int(word) for word in text.split()]


def test_a_compacted_topic_shrinks_and_keeps_the_last_value_of_each_key(start_sordini: Start, connect: Connect) -> None:
    broker = start_sordini(TINY)
    client = connect(broker)
    client.create("prices")
    produce(client, "prices", range(60))
    directory = broker.data_directory / "prices-0"
    until(lambda: size_of(directory) < 3 * SEGMENT_BYTES, broker, "shrink the topic")
    found = consumed(client, "prices")
    assert {key: value for _, key, value in found} == {b"key-%d" % key: b"59" for key in range(KEYS)}
    assert [offset for offset, _, _ in found] == sorted(offset for offset, _, _ in found)
    (line, *_) = lines(broker, "log cleaned")
    for field in ("partition=prices-0", "dirty_ratio=", "mb_before=", "mb_after=", "mb_per_s="):
        assert field in line
    until(lambda: not list(directory.glob("*.deleted")), broker, "remove the old files")
    assert broker.stop() == 0
    assert "Traceback" not in broker.output()
    broker.start()
    assert consumed(connect(broker), "prices") == found
    assert "prices 0 " in (broker.data_directory / "cleaner-offset-checkpoint").read_text()


def test_a_consumer_that_reads_while_segments_are_swapped_misses_no_last_value(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini({**TINY, "log.segment.bytes": 20_000})
    client, reader = connect(broker), connect(broker)
    client.create("prices")
    number = 0
    while len(lines(broker, "log cleaned")) < 3:
        assert number < 3_000, "it was to be cleaned a few times by now"
        produce(client, "prices", range(number, number + 1))
        number += 1
        if number % 3 == 0:
            offsets = [offset for offset, _, _ in consumed(reader, "prices")]
            assert offsets[-1] == KEYS * number - 1
            assert len(set(offsets)) == len(offsets)
    assert {key: value for _, key, value in consumed(reader, "prices")} == {
        b"key-%d" % key: b"%d" % (number - 1) for key in range(KEYS)
    }


@contextlib.contextmanager
def throttled(start_sordini: Start, connect: Connect) -> Iterator[tuple[SordiniProcess, Client, int]]:
    """A broker in the middle of a slow compaction, and its child."""
    broker = start_sordini({**TINY, "log.cleaner.io.max.bytes.per.second": 400_000})
    client = connect(broker)
    client.create("prices")
    produce(client, "prices", range(100))
    directory = broker.data_directory / "prices-0"
    until(lambda: any(directory.glob("*.cleaned")), broker, "begin to clean")
    (child,) = children(broker)
    yield broker, client, child


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()


def test_a_child_that_is_killed_is_started_again_and_the_topic_is_compacted_all_the_same(
    start_sordini: Start, connect: Connect
) -> None:
    with throttled(start_sordini, connect) as (broker, client, child):
        assert os.getpriority(os.PRIO_PROCESS, child) > os.getpriority(os.PRIO_PROCESS, broker.pid)
        os.kill(child, signal.SIGKILL)
        until(lambda: bool(lines(broker, "cleaning failed")), broker, "notice it")
        assert client.produce("prices", [round_of(100)])[0].error_code == 0
        directory = broker.data_directory / "prices-0"
        until(lambda: size_of(directory) < 3 * SEGMENT_BYTES, broker, "compact it")
        assert {key: value for _, key, value in consumed(client, "prices")} == {
            b"key-%d" % key: b"100" for key in range(KEYS)
        }


@pytest.mark.slow
def test_no_child_outlives_a_broker_that_is_killed_and_the_next_start_finds_everything(
    start_sordini: Start, connect: Connect
) -> None:
    with throttled(start_sordini, connect) as (broker, client, child):
        before = consumed(client, "prices")
        broker.kill()
        wait_until_gone(child)
        broker.overrides["log.cleaner.enable"] = "false"
        broker.start()
        assert consumed(connect(broker), "prices") == before
        assert not list((broker.data_directory / "prices-0").glob("*.cleaned"))


@pytest.mark.slow
def test_a_clean_stop_in_the_middle_of_a_compaction_is_quick_and_leaves_no_child(
    start_sordini: Start, connect: Connect
) -> None:
    with throttled(start_sordini, connect) as (broker, client, child):
        before = consumed(client, "prices")
        assert broker.stop() == 0
        assert not Path(f"/proc/{child}").exists()
        directory = broker.data_directory / "prices-0"
        assert not [path for path in directory.iterdir() if path.suffix in (".cleaned", ".swap")]
        assert "Traceback" not in broker.output()
        broker.overrides["log.cleaner.enable"] = "false"
        broker.start()
        assert consumed(connect(broker), "prices") == before


def commit(client: Client, group: str, offset: int) -> int:
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name="prices", partitions=[row])
    answer = client.ask(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(group_id=group, topics=[topic]))
    code: int = answer.topics[0].partitions[0].error_code
    return code


def committed(client: Client, group: str) -> int:
    topic = OffsetFetchRequestTopics(name="prices", partition_indexes=[0])
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])])
    answer = client.ask(ApiKey.OFFSET_FETCH, 8, request)
    (found,) = answer.groups
    offset: int = -1 if found.error_code else found.topics[0].partitions[0].committed_offset
    return offset


def coordinate(client: Client, broker: SordiniProcess, group: str) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])

    def is_found() -> bool:
        answer = client.ask(ApiKey.FIND_COORDINATOR, 4, request)
        return bool(answer.coordinators[0].error_code == 0)

    until(is_found, broker, "coordinate the group")


def wait_until_loaded(client: Client, broker: SordiniProcess) -> None:
    until(lambda: committed(client, "billing") >= 0, broker, "load the group")


@pytest.mark.slow
def test_committed_offsets_survive_the_compaction_of_their_topic_and_a_kill(
    start_sordini: Start, connect: Connect
) -> None:
    broker = start_sordini(TINY)
    client = connect(broker)
    client.create("prices")
    coordinate(client, broker, "billing")
    until(lambda: commit(client, "billing", 0) == 0, broker, "take a commit")
    for offset in range(300):
        assert commit(client, "billing", offset) == 0
    assert commit(client, "shipping", 7) == 0
    for offset in range(300, 600):
        assert commit(client, "billing", offset) == ErrorCode.NONE
    directory = broker.data_directory / "__consumer_offsets-0"
    until(lambda: size_of(directory) < 12_000, broker, "shrink __consumer_offsets")
    for _ in range(2):
        assert (committed(client, "billing"), committed(client, "shipping")) == (599, 7)
        broker.kill()
        broker.start()
        client = connect(broker)
        coordinate(client, broker, "billing")
        wait_until_loaded(client, broker)
