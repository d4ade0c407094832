"""Message formats 0 and 1 in a log: written, found, truncated, recovered, and mixed with batches."""

from __future__ import annotations

import errno
import random
import struct
import zlib
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy, legacy_writing
from sordini.protocol.records.batch import Record, crc_is_right, read_header
from sordini.protocol.records.compression import GZIP, LZ4, NO_CODEC, SNAPPY
from sordini.protocol.records.legacy_validation import LegacyMessages
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.records.produced_records import check_produced
from sordini.storage import batch_scan
from sordini.storage.appending import LogAppendInfo
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import LogManager
from sordini.storage.old_format_append import append_old_messages
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import BASE_TIMESTAMP, RULES, a_batch, some_records, writable
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager
from tests.support.parts import examples

DIRECTORY = "/data/orders-3"
WIDE = SMALL._replace(segment_bytes=100_000)


def append(log: Log, data: bytes, magic: int, now_ms: int = 0) -> LogAppendInfo:
    """What a Produce request with these records does to a topic of this format."""
    version = 9 if data[16] == 2 else 2
    checked = check_produced(writable(data), RULES._replace(magic=magic), 0, produce_version=version)
    if isinstance(checked, CheckedBatches):
        return log.append(checked.buffer, checked.batches, 0, now_ms)
    return append_old_messages(log, checked, now_ms)


class Piece(NamedTuple):
    """One append: how many records, in which format and codec."""

    magic: int
    codec: int
    count: int


def fill(log: Log, pieces: list[Piece]) -> list[Record]:
    """Append records whose values and times tell where they are; what a reader must get."""
    expected: list[Record] = []
    for piece in pieces:
        start = len(expected)
        records = some_records(piece.count, timestamp=BASE_TIMESTAMP + start, key=b"k%d" % start)
        data = (
            a_batch(records, codec=piece.codec)
            if piece.magic == 2
            else legacy_writing.write_messages(records, piece.magic, codec=piece.codec)
        )
        assert append(log, data, piece.magic) == LogAppendInfo(start, start + piece.count, -1, 0, False)
        expected += [
            record._replace(offset=start + record.offset, timestamp=record.timestamp if piece.magic else -1)
            for record in records
        ]
    return expected


def read_from(log: Log, offset: int) -> list[Record]:
    """Every record from `offset` on, as a consumer of today's Fetch gets them; all CRCs are checked."""
    found: list[Record] = []
    while offset < log.log_end_offset:
        piece = log.read(offset, 200, log.log_end_offset, whole_first=True)
        assert piece is not None
        assert piece.base <= offset
        data = piece.read()
        piece.release()
        seen = len(found)
        for entry in legacy.entries(data):
            whole = data[entry.position : entry.position + entry.size]
            header = read_header(whole) if entry.magic == 2 else legacy.message_header(whole, 0, entry.size)
            assert header is not None
            assert crc_is_right(whole, 0, header)
            found += [record for record in legacy.read_any(whole, header) if record.offset >= offset]
        assert len(found) > seen
        offset = found[-1].offset + 1
    return found


def a_log(config: LogConfig = SMALL) -> tuple[ForgetfulDisk, LogManager, Log]:
    disk = a_disk()
    manager = a_manager(disk, config)
    manager.open(0)
    return disk, manager, manager.create(PARTITION, TOPIC_ID, config)


def reopened(disk: ForgetfulDisk, config: LogConfig = SMALL) -> tuple[Log, list[str]]:
    manager = a_manager(disk, config)
    findings = manager.open(0)
    log = manager.get(PARTITION)
    assert log is not None
    return log, findings


def path_of(base: int, suffix: str = ".log") -> str:
    return f"{DIRECTORY}/{base:020d}{suffix}"


MIXED = [
    Piece(magic, codec, count)
    for magic in (0, 1, 2, 1, 0, 2)
    for codec, count in ((NO_CODEC, 3), (GZIP, 5), (NO_CODEC, 1), (SNAPPY, 2), (LZ4, 4))
]
pieces = st.lists(
    st.builds(Piece, st.sampled_from([0, 1, 2]), st.sampled_from([NO_CODEC, GZIP, SNAPPY, LZ4]), st.integers(1, 5)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(60))
@given(pieces, st.data())
async def test_a_log_of_any_formats_is_read_from_every_offset_and_again_after_any_stop(
    written: list[Piece], data: st.DataObject
) -> None:
    disk, manager, log = a_log()
    expected = fill(log, written)
    start = data.draw(st.integers(0, len(expected) - 1))
    assert read_from(log, start) == expected[start:]
    if data.draw(st.booleans()):
        await manager.close()
    for _ in range(2):
        disk = disk.killed()
        again, findings = reopened(disk)
        assert findings == []
        assert (again.log_end_offset, again.log_start_offset) == (len(expected), 0)
        assert read_from(again, 0) == expected
        assert read_from(again, start) == expected[start:]


@settings(max_examples=examples(60))
@given(pieces, st.data())
def test_a_time_is_found_exactly_wherever_it_stands(written: list[Piece], data: st.DataObject) -> None:
    _, _, log = a_log()
    expected = fill(log, written)
    time = BASE_TIMESTAMP + data.draw(st.integers(-1, len(expected) + 1))
    first = next(((one.timestamp, one.offset) for one in expected if one.timestamp >= time), None)
    found = log.find_timestamp(time, log.log_end_offset)
    assert (None if found is None else found[:2]) == first
    latest = max(expected, key=lambda one: one.timestamp)
    found = log.max_timestamp()
    assert (None if found is None else found[:2]) == (
        (latest.timestamp, latest.offset) if latest.timestamp >= 0 else None
    )


@settings(max_examples=examples(60))
@given(pieces, st.data())
def test_truncation_leaves_whole_entries_and_ends_where_the_first_removed_one_began(
    written: list[Piece], data: st.DataObject
) -> None:
    _, _, log = a_log()
    expected = fill(log, written)
    offset = data.draw(st.integers(0, len(expected) - 1))
    log.truncate_to(offset)
    bounds = [0]
    for piece in written:
        steps = [piece.count] if piece.codec or piece.magic == 2 else [1] * piece.count
        for step in steps:
            bounds.append(bounds[-1] + step)
    assert log.log_end_offset == max(bound for bound in bounds if bound <= offset)
    assert read_from(log, 0) == expected[: log.log_end_offset]
    assert append(log, a_batch(2), 2).base_offset == log.log_end_offset - 2


def one_segment() -> tuple[ForgetfulDisk, bytes, list[Record], list[tuple[int, int]]]:
    """An unclean stop of a log in one segment; its bytes, its records, and where each entry ends and how far it goes."""
    disk, _, log = a_log(WIDE)
    expected = fill(log, MIXED)
    bounds = [
        (at + header.size, header.next_offset)
        for at, header in batch_scan.headers(log.segments.active.handle, 0, log.size)
    ]
    return disk.killed(), disk.contents(path_of(0)), expected, bounds


def test_a_torn_tail_is_truncated_behind_the_last_whole_entry_wherever_it_was_torn() -> None:
    disk, whole, expected, bounds = one_segment()
    for size in random.Random(1).sample(range(len(whole)), 150):
        disk.replace(path_of(0), whole[:size])
        log, findings = reopened(disk.killed(), WIDE)
        end, offset = max((bound for bound in bounds if bound[0] <= size), default=(0, 0))
        assert (log.size, log.log_end_offset) == (end, offset)
        assert read_from(log, 0) == expected[:offset]
        assert len(findings) == (end != size)


def test_a_flipped_bit_cuts_the_log_before_the_entry_it_is_in() -> None:
    disk, whole, expected, bounds = one_segment()
    starts = [0, *(end for end, _ in bounds)]
    draw = random.Random(2)
    for at in draw.sample(range(len(whole)), 200):
        start = max(one for one in starts if one <= at)
        if at - start < 8:
            continue  # An offset stands outside the CRC; that they rise is another test's matter.
        damaged = bytearray(whole)
        damaged[at] ^= 1 << draw.randrange(8)
        is_epoch = whole[start + 16] == 2 and at - start in range(12, 16)
        disk.replace(path_of(0), bytes(damaged))
        log, findings = reopened(disk.killed(), WIDE)
        offset = len(expected) if is_epoch else next((offset for end, offset in [(0, 0), *bounds] if end == start), 0)
        assert log.log_end_offset == offset
        assert read_from(log, 0) == expected[:offset]
        assert bool(findings) == (not is_epoch)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_offset_that_does_not_rise_ends_the_log(magic: int) -> None:
    disk, _, log = a_log(WIDE)
    expected = fill(
        log, [Piece(magic, NO_CODEC, 1), Piece(magic, NO_CODEC, 1), Piece(magic, GZIP, 3), Piece(magic, NO_CODEC, 1)]
    )
    handle = log.segments.active.handle
    positions = [at for at, _ in batch_scan.headers(handle, 0, log.size)]
    whole = disk.contents(path_of(0))
    for number, wrong in ((1, 0), (2, 1), (3, 4)):
        damaged = bytearray(whole)
        struct.pack_into(">q", damaged, positions[number], wrong)
        copy = disk.killed()
        copy.replace(path_of(0), bytes(damaged))
        again, findings = reopened(copy, WIDE)
        assert again.size == positions[number]
        assert read_from(again, 0) == expected[: again.log_end_offset]
        assert len(findings) == 1


@pytest.mark.parametrize(
    "tail", [bytes(12), bytes(26), bytes(40), bytes(5_000), b"\xff" * 50, bytes(16) + b"\1" + bytes(40)]
)
def test_zeros_and_garbage_behind_old_messages_are_truncated(tail: bytes) -> None:
    disk, _, log = a_log(WIDE)
    expected = fill(log, [Piece(0, NO_CODEC, 3), Piece(1, GZIP, 3)])
    copy = disk.killed()
    copy.replace(path_of(0), disk.contents(path_of(0)) + tail)
    again, findings = reopened(copy, WIDE)
    assert read_from(again, 0) == expected
    assert len(findings) == 1


async def test_a_log_whose_last_entry_is_the_smallest_there_is_ends_behind_it() -> None:
    disk, manager, log = a_log(WIDE)
    append(log, a_batch(2), 2)
    append(log, legacy_writing.write_messages([Record(0, -1, None, None)], 0), 0)
    assert log.size - 26 == len(a_batch(2))
    assert [record.offset for record in read_from(log, 2)] == [2]
    assert log.read(2, 10, 3, whole_first=True).size == 26  # type: ignore[union-attr]
    await manager.close()
    for copy in (disk.killed(), disk.killed()):
        again, findings = reopened(copy, WIDE)
        assert findings == []
        assert again.log_end_offset == 3
        assert [record.offset for record in read_from(again, 2)] == [2]


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
async def test_indexes_over_old_messages_are_rebuilt_as_they_were_written(suffix: str) -> None:
    disk, manager, log = a_log(WIDE)
    expected = fill(log, MIXED * 2)
    await manager.close()
    copy = disk.killed()
    before = copy.contents(path_of(0, suffix))
    assert len(before) > 24
    copy.remove(path_of(0, suffix))
    again, _ = reopened(copy, WIDE)
    assert read_from(again, 40) == expected[40:]
    assert copy.contents(path_of(0, suffix)) == before
    unclean = disk.killed()
    unclean.remove("/data/.kafka_cleanshutdown")
    reopened(unclean, WIDE)
    assert unclean.contents(path_of(0, suffix)) == before


def test_retention_goes_by_the_times_of_format_1_and_by_the_file_where_there_are_none() -> None:
    for magic in (0, 1):
        disk, _, log = a_log(SMALL._replace(segment_bytes=300, retention_ms=1_000))
        fill(log, [Piece(magic, NO_CODEC, 5)] * 3)
        assert len(log.segments) == 3
        modified = disk.modified_ms(path_of(0))
        by_time = BASE_TIMESTAMP if magic else modified
        assert log.apply_retention(by_time + 900, log.log_end_offset) == []
        assert log.apply_retention(by_time + 1_005, log.log_end_offset)[:1] == [0]


def test_a_segment_of_messages_without_times_rolls_by_the_clock() -> None:
    _, _, log = a_log(SMALL._replace(segment_ms=1_000))
    message = legacy_writing.write_messages([Record(0, -1, None, b"v")], 0)
    append(log, message, 0, now_ms=4_000)
    log.roll(5_000)
    append(log, message, 0, now_ms=5_000)
    append(log, message, 0, now_ms=5_900)
    assert [segment.base for segment in log.segments.all()] == [0, 1]
    append(log, message, 0, now_ms=6_100)
    assert [segment.base for segment in log.segments.all()] == [0, 1, 3]


def test_old_messages_carry_no_epochs_so_the_log_forgets_those_it_knew() -> None:
    _, _, log = a_log()
    log.assign_epoch(4)
    buffer = writable(a_batch(2))
    log.append(buffer, [(0, read_header(buffer))], 4, 0)
    assert log.epochs.entries == [(4, 0)]
    fill_end = append(log, legacy_writing.write_messages(some_records(2), 1), 1).end_offset
    assert (log.epochs.entries, log.epochs.changed) == ([], True)
    buffer = writable(a_batch(2))
    log.append(buffer, [(0, read_header(buffer))], 4, 0)
    assert log.epochs.entries == [(4, fill_end)]


def test_what_an_old_append_refuses_leaves_the_log_as_it_was() -> None:
    disk, _, log = a_log()
    expected = fill(log, [Piece(1, GZIP, 3)])

    def code_of(data: bytes) -> ErrorCode:
        with pytest.raises(BrokerError) as refusal:
            append(log, data, 1)
        return refusal.value.code

    too_much = legacy_writing.write_messages(some_records(20, value=bytes(60)), 1)
    assert code_of(too_much) == ErrorCode.RECORD_LIST_TOO_LARGE
    disk.fail_while(lambda kind, _: kind == "write", errno.ENOSPC)
    assert code_of(legacy_writing.write_messages(some_records(2), 1)) == ErrorCode.KAFKA_STORAGE_ERROR
    disk.heal_faults()
    assert append(log, legacy_writing.write_messages(some_records(2), 1), 1).base_offset == 3
    log.truncate_to(3)
    assert read_from(log, 0) == expected
    log.close_without_flush()
    assert code_of(legacy_writing.write_messages(some_records(2), 1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_wrapper_that_cannot_be_opened_is_still_served_and_passed_over() -> None:
    disk, _, log = a_log(WIDE)
    fill(log, [Piece(1, NO_CODEC, 1)])
    content = b"\x01\x01" + struct.pack(">qii", 5, -1, 4) + b"junk"
    wrapper = struct.pack(">qiI", 4, len(content) + 4, zlib.crc32(content)) + content
    copy = disk.killed()
    copy.replace(path_of(0), disk.contents(path_of(0)) + wrapper)
    again, findings = reopened(copy, WIDE)
    assert findings == []
    assert again.log_end_offset == 5
    piece = again.read(1, 1_000, 5, whole_first=True)
    assert piece is not None
    assert piece.read() == wrapper
    again.truncate_to(3)
    assert again.log_end_offset == 3


def test_many_old_appends_are_found_without_keeping_all_their_places() -> None:
    _, _, log = a_log(WIDE._replace(segment_index_bytes=1 << 20))
    message = legacy_writing.write_messages([Record(0, 5, None, b"v")], 1)
    for _ in range(1_200):
        append(log, message, 1)
    assert len(log.segments.recent) <= 600
    assert [record.offset for record in read_from(log, 1_150)] == list(range(1_150, 1_200))


def test_checked_messages_say_nothing_before_they_are_placed() -> None:
    checked = check_produced(
        writable(legacy_writing.write_messages(some_records(3), 0, codec=GZIP)),
        RULES._replace(magic=0),
        0,
        produce_version=2,
    )
    assert isinstance(checked, LegacyMessages)
    assert checked.batches == []
    assert checked.assign_offsets(7) == 10
    assert [(header.base_offset, header.last_offset) for _, header in checked.batches] == [(7, 9)]
