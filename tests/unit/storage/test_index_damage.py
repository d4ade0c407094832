"""Indexes that were damaged while the broker was stopped: the log is read as if they were not."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.storage.log import Log
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager
from tests.support.parts import examples
from tests.unit.storage.test_log import put

DIRECTORY = "/data/orders-3"
MAX_TIMESTAMP_AT = 35
ROOMY = SMALL._replace(segment_bytes=2_500, index_interval_bytes=100, segment_index_bytes=4_096)


class Scanned(NamedTuple):
    """What a plain walk over the whole log finds."""

    offset: int
    timestamp: int
    base: int


async def a_stopped_log(times: list[list[int]]) -> tuple[ForgetfulDisk, list[Scanned]]:
    disk = a_disk()
    manager = a_manager(disk, ROOMY)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, ROOMY)
    found = []
    for stamps in times:
        records = [Record(number, stamp, None, b"x" * 20) for number, stamp in enumerate(stamps)]
        base = put(log, build_batch(records)).base_offset
        found += [Scanned(base + number, stamp, base) for number, stamp in enumerate(stamps)]
    await manager.close()
    return disk, found


def reopened(disk: ForgetfulDisk) -> Log:
    manager = a_manager(disk, ROOMY)
    manager.open(0)
    log = manager.get(PARTITION)
    assert log is not None
    return log


def indexes(disk: ForgetfulDisk, suffix: str) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in disk.list_directory(DIRECTORY) if name.endswith(suffix)]


def agree(log: Log, scanned: list[Scanned], asked: list[int]) -> None:
    """A lookup of every offset and every timestamp finds what the scan found."""
    assert log.log_end_offset == len(scanned)
    for record in scanned:
        piece = log.read(record.offset, 10_000, log.log_end_offset, whole_first=True)
        assert piece is not None
        header = read_header(piece.read())
        piece.release()
        assert (piece.base, header.base_offset) == (record.base, record.base)
    for timestamp in asked:
        found = log.find_timestamp(timestamp, log.log_end_offset)
        expected = next((record.offset for record in scanned if record.timestamp >= timestamp), None)
        assert (None if found is None else found.offset) == expected, timestamp
    latest = log.max_timestamp()
    largest = max(record.timestamp for record in scanned)
    assert latest is not None
    assert (latest.timestamp, latest.offset) == (
        largest,
        next(record.offset for record in scanned if record.timestamp == largest),
    )


RISING = [[10 * number, 10 * number + 5] for number in range(60)]


def removed(disk: ForgetfulDisk, path: str, _: bytes) -> None:
    disk.remove(path)


def emptied(disk: ForgetfulDisk, path: str, _: bytes) -> None:
    disk.replace(path, b"")


def cut_short(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    entry = 8 if path.endswith(".index") else 12
    disk.replace(path, data[: len(data) // entry // 2 * entry])


def torn(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    disk.replace(path, data[:-3])


def padded(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    disk.replace(path, data + bytes(240))


def zeroed(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    disk.replace(path, bytes(len(data)))


def zeroed_in_the_middle(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    third = len(data) // 36 * 12
    disk.replace(path, data[:third] + bytes(third) + data[2 * third :])


def garbled_in_the_middle(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    third = len(data) // 36 * 12
    junk = (b"\x00\x00\x00\x07\x00\x00\x02\x99" * len(data))[:third]
    disk.replace(path, data[:third] + junk + data[2 * third :])


def reversed_entries(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    entry = 8 if path.endswith(".index") else 12
    parts = [data[at : at + entry] for at in range(0, len(data), entry)]
    disk.replace(path, b"".join(reversed(parts)))


def past_the_log(disk: ForgetfulDisk, path: str, data: bytes) -> None:
    disk.replace(path, data + struct.pack(">ii", 2**30, 2**30) if path.endswith(".index") else data + b"\x7f" * 12)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize(
    "damage",
    [
        removed,
        emptied,
        cut_short,
        torn,
        padded,
        zeroed,
        zeroed_in_the_middle,
        garbled_in_the_middle,
        reversed_entries,
        past_the_log,
    ],
)
async def test_an_index_damaged_while_stopped_is_rebuilt(suffix: str, damage: object) -> None:
    disk, scanned = await a_stopped_log(RISING)
    paths = indexes(disk, suffix)
    right = {path: disk.contents(path) for path in paths}
    assert len(paths) > 2
    for path in paths:
        damage(disk, path, right[path])  # type: ignore[operator]
    log = reopened(disk)
    agree(log, scanned, list(range(0, 620, 3)))
    assert log.log_dir.failure is None
    if damage in (zeroed_in_the_middle, garbled_in_the_middle):
        return  # Seen only where it leads astray, not where it merely makes the way longer.
    for path in paths:
        assert disk.contents(path) == right[path], f"{path} is as it was before"


@settings(max_examples=examples(60), deadline=None)
@given(
    st.data(),
    st.lists(st.lists(st.integers(0, 200), min_size=1, max_size=3), min_size=30, max_size=60),
)
async def test_no_byte_written_over_an_offset_index_makes_a_read_go_astray(
    data: st.DataObject, times: list[list[int]]
) -> None:
    disk, scanned = await a_stopped_log(times)
    for path in indexes(disk, ".index"):
        whole = bytearray(disk.contents(path))
        if not whole:
            continue
        start = data.draw(st.integers(0, len(whole) - 1))
        junk = data.draw(st.binary(max_size=40))
        whole[start : start + len(junk)] = junk
        disk.replace(path, bytes(whole))
    agree(reopened(disk), scanned, [*range(0, 201, 7), 200])


async def test_an_entry_that_leads_into_the_middle_of_a_batch_hides_no_record() -> None:
    """There its bytes look like a message of format 0: read as one, it begins before the offset and ends the search."""
    times = [[0]] * 4 + [[0, 0, 64]] * 5 + [[14]] + [[0]] * 20
    for byte in range(256):
        disk, scanned = await a_stopped_log(times)
        path = indexes(disk, ".index")[0]
        whole = bytearray(disk.contents(path))
        whole[55] = byte  # The last of the position of the batch at offset 19.
        disk.replace(path, bytes(whole))
        agree(reopened(disk), scanned, [64])


@pytest.mark.parametrize("batches_of_one_time", [1, 2, 5, 20])
@pytest.mark.parametrize("steps", [1, 2])
async def test_an_offset_index_that_leads_past_a_record_does_not_hide_it_from_a_lookup_by_time(
    steps: int, batches_of_one_time: int
) -> None:
    for timestamp in range(0, 600, 40):
        disk, scanned = await a_stopped_log([[10 * (number // batches_of_one_time)] * 2 for number in range(60)])
        for path in indexes(disk, ".index"):
            entries = list(struct.iter_unpack(">ii", disk.contents(path)))
            positions = [position for _, position in entries]
            moved = positions[steps:-1] + positions[-1 - steps :]
            pairs = [(offset, position) for (offset, _), position in zip(entries, moved, strict=True)]
            pairs[0] = (0, pairs[0][1])  # As if the first batches were not there.
            disk.replace(path, b"".join(struct.pack(">ii", *pair) for pair in pairs))
        log = reopened(disk)
        found = log.find_timestamp(timestamp, log.log_end_offset)
        expected = next((record.offset for record in scanned if record.timestamp >= timestamp), None)
        assert (None if found is None else found.offset) == expected, timestamp


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
async def test_no_byte_written_over_a_time_index_of_rising_times_hides_a_record(data: st.DataObject) -> None:
    disk, scanned = await a_stopped_log(RISING)
    for path in indexes(disk, ".timeindex"):
        whole = bytearray(disk.contents(path))
        start = data.draw(st.integers(0, len(whole) - 1))
        junk = data.draw(st.binary(max_size=40))
        whole[start : start + len(junk)] = junk
        disk.replace(path, bytes(whole))
    agree(reopened(disk), scanned, list(range(0, 620, 5)))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), min_size=1, max_size=60))
async def test_offsets_and_times_are_found_as_by_a_linear_scan(times: list[list[int]]) -> None:
    disk, scanned = await a_stopped_log(times)
    agree(reopened(disk), scanned, list(range(42)))


async def test_times_given_by_the_broker_are_found_exactly() -> None:
    config = ROOMY._replace(log_append_time=True)
    manager = a_manager(a_disk(), config)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, config)
    for number in range(40):
        batch = bytearray(build_batch([Record(at, 5, None, b"x") for at in range(3)], log_append_time=True))
        struct.pack_into(">q", batch, MAX_TIMESTAMP_AT, 100 + number // 4)
        put(log, bytes(batch))
    for asked in range(98, 112):
        found = log.find_timestamp(asked, 120)
        expected = max(0, asked - 100) * 12
        assert (None if found is None else found.offset) == (expected if expected < 120 else None)


async def test_an_index_entry_may_stand_for_several_batches_as_apache_kafkas_do() -> None:
    """One append of several batches has one entry: their last offset, and the position of the first batch."""
    disk, scanned = await a_stopped_log(RISING[:12])
    path = indexes(disk, ".index")[0]
    data = disk.contents(path)
    entries = list(struct.iter_unpack(">ii", data))
    merged = [(entries[at + 1][0], entries[at][1]) for at in range(0, len(entries) - 1, 2)]
    disk.replace(path, b"".join(struct.pack(">ii", *entry) for entry in merged))
    log = reopened(disk)
    before = disk.contents(path)
    agree(log, scanned, list(range(0, 130, 5)))
    assert disk.contents(path) == before, "nothing is rebuilt that is right"


def test_a_log_without_times_keeps_an_empty_time_index() -> None:
    disk = a_disk()
    manager = a_manager(disk, ROOMY)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, ROOMY)
    put(log, build_batch([Record(0, -1, None, b"x")]))
    log.roll(0)
    assert disk.contents(f"{DIRECTORY}/{0:020d}.timeindex") == b""
    assert log.find_timestamp(0, 1) is None
    assert log.max_timestamp() is None
    put(log, a_batch(1, timestamp=7))
    found = log.find_timestamp(0, 2)
    assert found is not None
    assert found.offset == 1
