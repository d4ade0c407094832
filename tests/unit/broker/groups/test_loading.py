"""Loading of a partition: which records are loaded, which are skipped, and in what slices."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence

import pytest

from sordini.broker.coordinators.loading import _LogReader
from sordini.broker.groups.machine import records
from sordini.broker.groups.machine.state import CommittedOffset
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records import message_down_conversion
from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.group_requests import ONE_PARTITION, a_coordinator, commit, committed, fetch
from tests.support.unit_broker import UnitBroker, a_broker

KeyValue = tuple[bytes | None, bytes | None]


def offset_line(partition: int, offset: int | None, group_id: str = "g") -> KeyValue:
    value = None if offset is None else records.offset_value(CommittedOffset(offset, -1, "", 1_000_000))
    return records.offset_key(group_id, "orders", partition), value


def append(broker: UnitBroker, batch: bytes | bytearray) -> None:
    """Put a batch at the end of the log as it is."""
    partition = broker.parts.replicas.partition(OFFSETS_TOPIC, 0)
    buffer = memoryview(bytearray(batch))
    partition.append(CheckedBatches(buffer, [(0, read_header(buffer))]), 0, all_replicas=False)


def batch_of(lines: Sequence[KeyValue], **kind: int) -> bytes:
    found = [Record(number, 1_000_000, key, value) for number, (key, value) in enumerate(lines)]
    return build_batch(found, **kind)  # type: ignore[arg-type]


async def reloaded(broker: UnitBroker) -> dict[tuple[str, int], int]:
    """What is committed after the partition is loaded again."""
    broker.parts.replicas.resign_all()
    leader_epoch = broker.logs.logs()[0].epochs.latest + 1
    await broker.lead(OFFSETS_TOPIC, epoch=leader_epoch)
    await broker.settled()
    return committed(broker)


async def test_the_last_value_of_a_key_is_loaded_unless_a_tombstone_follows() -> None:
    async with a_coordinator() as broker:
        append(broker, batch_of([offset_line(0, 1), offset_line(1, 2), offset_line(0, 3)]))
        append(broker, batch_of([offset_line(1, None), offset_line(2, 9)]))
        assert await reloaded(broker) == {("orders", 0): 3, ("orders", 2): 9}


async def test_invalid_records_are_skipped_with_one_log_line() -> None:
    async with a_coordinator() as broker:
        odd: list[KeyValue] = [
            (b"\x00\x07new", b"kind of group"),
            (b"\x00", b"no key"),
            (records.group_key("h"), b"\x00\x63 a value of the future"),
            (offset_line(2, 1)[0], b"\x00\x03"),
            (None, b"no key at all"),
        ]
        append(broker, batch_of([offset_line(0, 1), *odd, offset_line(1, 2)]))
        assert await reloaded(broker) == {("orders", 0): 1, ("orders", 1): 2}
        [(event, fields)] = broker.log.at("warning")
        assert (event, fields["count"]) == ("records skipped", 4)
        assert [event for event, _ in broker.log.at("error")] == ["damaged records skipped"]


async def test_a_damaged_batch_does_not_affect_its_neighbours() -> None:
    async with a_coordinator({"offsets.load.buffer.size": "1"}) as broker:
        append(broker, batch_of([offset_line(0, 1)]))
        damaged = bytearray(batch_of([offset_line(1, 2)]))
        damaged[-3] ^= 1
        append(broker, damaged)
        append(broker, batch_of([offset_line(2, 3)]))
        assert await reloaded(broker) == {("orders", 0): 1, ("orders", 2): 3}
        [(_, fields)] = broker.log.at("error")
        assert fields == {
            "partition": "__consumer_offsets-0",
            "count": 1,
            "first": "the CRC of the batch at 1 is wrong",
        }


async def test_records_of_committed_transactions_are_loaded() -> None:
    async with a_coordinator() as broker:
        kinds = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
        for partition, producer_id in enumerate((8, 7)):  # One inside the other.
            append(broker, batch_of([offset_line(partition, producer_id)], producer_id=producer_id, **kinds))
        for producer_id, ends in ((7, COMMIT), (8, ABORT)):
            end = build_marker(Marker(ends, 0), producer_id=producer_id, producer_epoch=0, timestamp_ms=1_000_000)
            append(broker, end)
        append(broker, batch_of([offset_line(2, 9)], producer_id=9, **kinds))
        assert await reloaded(broker) == {("orders", 1): 7}
        assert not broker.log.at("warning")


async def test_other_requests_are_served_during_the_loading() -> None:
    """A slice is a few hundred records; between slices the loop serves other requests."""
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        for number in range(30):
            append(broker, batch_of([offset_line(0, offset, f"group-{number}") for offset in range(100)]))
    async with a_broker(ONE_PARTITION, disk.killed()) as broker:
        await broker.lead("orders", 3)
        await broker.lead(OFFSETS_TOPIC)
        [task] = broker.tasks
        answered = 0
        while not task.done():
            answered += fetch(broker, 0).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await asyncio.sleep(0)
        assert answered > 3
        assert committed(broker, "group-29") == {("orders", 0): 99}


async def test_the_loading_stops_when_the_leadership_ends() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        for number in range(30):
            append(broker, batch_of([offset_line(0, offset, f"group-{number}") for offset in range(100)]))
    async with a_broker(ONE_PARTITION, disk.killed()) as broker:
        await broker.lead(OFFSETS_TOPIC)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert broker.parts.groups.is_loading
        broker.parts.replicas.resign_all()
        await broker.settled()
        assert "groups loaded" not in dict(broker.log.at("info"))


async def test_a_failing_disk_ends_the_loading_with_the_leadership() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        commit(broker, {0: 1})
    async with a_broker(ONE_PARTITION, disk.killed()) as broker:
        await broker.lead(OFFSETS_TOPIC)
        log = broker.logs.logs()[0]
        log.log_dir.take_offline(OSError(errno.EIO, "gone"))
        await broker.settled()
        assert fetch(broker, 0).error_code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("magic", [0, 1])
async def test_messages_of_old_formats_are_loaded(magic: int) -> None:
    async with a_coordinator() as broker:
        messages = message_down_conversion.down_convert(batch_of([offset_line(0, 5), offset_line(1, 6)]), magic)
        partition = broker.parts.replicas.partition(OFFSETS_TOPIC, 0)
        ports = broker.parts.groups._ports
        loading = _LogReader(partition, ports, 1, lambda: True, None)
        assert await loading._replay_slice(memoryview(messages)) == 2
        assert loading._latest == dict([offset_line(0, 5), offset_line(1, 6)])
