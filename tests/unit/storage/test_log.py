"""One log: appending, reading, rolling, cutting, and what a bad disk does to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.storage.appending import LogAppendInfo
from sordini.storage.log import Log
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch, an_idempotent_batch, writable
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager, contents

HOUR_MS = 3_600_000


def a_log(disk: ForgetfulDisk | None = None, **settings: Any) -> Log:
    config = SMALL._replace(**settings)
    manager = a_manager(disk or a_disk(), config)
    manager.open(0)
    return manager.create(PARTITION, TOPIC_ID, config)


def put(log: Log, batch: bytes | None = None, *, epoch: int = 0, now_ms: int = 0) -> LogAppendInfo:
    buffer = writable(batch if batch is not None else a_batch(2))
    return log.append(buffer, [(0, read_header(buffer))], epoch, now_ms)


def log_file(log: Log, base: int = 0) -> str:
    return f"{log.directory}/{base:020d}.log"


def code_of(action: Any) -> ErrorCode:
    with pytest.raises(BrokerError) as raised:
        action()
    return raised.value.code


def test_offsets_and_the_leader_epoch_are_stamped_into_the_batches() -> None:
    disk = a_disk()
    log = a_log(disk)
    assert put(log, a_batch(3, base_offset=77), epoch=4) == LogAppendInfo(0, 3, -1, 0, False)
    assert put(log, a_batch(2), epoch=4).base_offset == 3
    stored = disk.contents(log_file(log))
    first = read_header(stored)
    second = read_header(stored, first.size)
    assert (first.base_offset, second.base_offset, second.partition_leader_epoch) == (0, 3, 4)
    assert log.epochs.entries == [(4, 0)]


def test_several_batches_leave_in_one_write() -> None:
    disk = a_disk()
    log = a_log(disk)
    first, second = a_batch(2), a_batch(3)
    buffer = writable(first + second)
    before = len(disk.log)
    batches = [(0, read_header(buffer)), (len(first), read_header(buffer, len(first)))]
    assert log.append(buffer, batches, 0, 0) == LogAppendInfo(0, 5, -1, 0, False)
    assert disk.log[before:] == [("write", log_file(log))]
    assert [offset for offset, _ in contents(log)] == list(range(5))


def test_a_duplicate_is_answered_with_its_first_offset_and_not_written() -> None:
    disk = a_disk()
    log = a_log(disk)
    put(log, a_batch(4))
    put(log, an_idempotent_batch(2, sequence=0))
    put(log, an_idempotent_batch(3, sequence=2))
    before = disk.contents(log_file(log))
    assert put(log, an_idempotent_batch(2, sequence=0)) == LogAppendInfo(4, 6, -1, 0, True)
    assert put(log, an_idempotent_batch(3, sequence=2)).base_offset == 6
    assert disk.contents(log_file(log)) == before
    assert code_of(lambda: put(log, an_idempotent_batch(2, sequence=9))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 9


def test_a_read_starts_with_the_batch_that_holds_the_offset() -> None:
    log = a_log()
    for _ in range(9):
        put(log, a_batch(5))
    piece = log.read(12, 10_000, 45, whole_first=True)
    assert piece is not None
    assert (piece.base, read_header(piece.read()).base_offset) == (10, 10)


def test_a_read_never_passes_its_upper_bound_nor_a_segment() -> None:
    log = a_log()
    for _ in range(9):
        put(log)
    ends = [log.segments.end_of(number, 18) for number in range(len(log.segments))]
    assert len(ends) > 1
    for start in range(0, 18, 2):
        for below in range(start, 20, 2):
            piece = log.read(start, 10_000, below, whole_first=True)
            if piece is None:
                assert start >= min(below, 18)
                continue
            data, position, last = piece.read(), 0, -1
            while position < len(data):
                header = read_header(data, position)
                last = header.last_offset
                position += header.size
            assert last + 1 == min(below, 18, next(end for end in ends if end > start))


def test_a_small_limit_cuts_the_batch_unless_the_first_must_be_whole() -> None:
    log = a_log()
    size = len(a_batch(2))
    put(log)
    put(log)
    cut, whole, more = (
        log.read(0, limit, 4, whole_first=first) for limit, first in ((10, False), (10, True), (size + 7, True))
    )
    assert cut is not None
    assert whole is not None
    assert more is not None
    assert (cut.size, whole.size, more.size) == (10, size, size + 7)
    assert log.read(0, 0, 4, whole_first=False) is None


def test_reading_outside_the_log_is_out_of_range_and_at_its_end_is_empty() -> None:
    log = a_log()
    put(log)
    assert log.read(2, 100, 2, whole_first=True) is None
    assert log.read(1, 100, 1, whole_first=True) is None
    assert code_of(lambda: log.read(3, 100, 2, whole_first=True)) is ErrorCode.OFFSET_OUT_OF_RANGE
    log.advance_log_start(2)
    assert code_of(lambda: log.read(1, 100, 2, whole_first=True)) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_outlives_the_deletion_of_its_segment() -> None:
    disk = a_disk()
    log = a_log(disk, retention_bytes=0)
    for _ in range(12):
        put(log)
    piece = log.read(0, 10_000, 24, whole_first=True)
    assert piece is not None
    before = piece.read()
    assert log.apply_retention(0, 24)[0] == 0
    for path in log.take_due(1_000):
        disk.remove(path)
    assert not disk.exists(log_file(log))
    assert piece.read() == before
    piece.release()
    piece.release()
    assert not any("00000000000000000000" in name for name in disk.list_directory(log.directory))


def test_deleted_files_wait_under_another_name_and_the_start_moves() -> None:
    disk = a_disk()
    log = a_log(disk, retention_bytes=1_000)
    for _ in range(20):
        put(log)
    removed = log.apply_retention(5_000, 40)
    assert removed
    assert log.log_start_offset == log.segments.all()[0].base > 0
    assert disk.exists(log_file(log) + ".deleted")
    assert log.take_due(5_999) == []
    assert log_file(log) + ".deleted" in log.take_due(6_000)


def test_a_segment_rolls_when_it_is_full_and_is_named_by_its_first_offset() -> None:
    log = a_log(segment_bytes=2 * len(a_batch(2)))
    for _ in range(5):
        put(log)
    assert [segment.base for segment in log.segments.all()] == [0, 4, 8]


def test_a_segment_rolls_when_its_first_record_is_old() -> None:
    log = a_log(segment_ms=HOUR_MS)
    for timestamp in (0, HOUR_MS, HOUR_MS + 1):
        put(log, a_batch(1, timestamp=timestamp))
    assert [segment.base for segment in log.segments.all()] == [0, 2]


def test_a_segment_whose_records_have_no_time_rolls_by_its_own_age() -> None:
    log = a_log(segment_ms=HOUR_MS)
    log.roll(5)
    for now_ms in (5, HOUR_MS, HOUR_MS + 6):
        put(log, a_batch([Record(0, -1, None, b"")]), now_ms=now_ms)
    assert [segment.base for segment in log.segments.all()] == [0, 2]


def test_the_drawn_jitter_makes_a_segment_roll_earlier() -> None:
    log = a_log(segment_ms=HOUR_MS, segment_jitter_ms=HOUR_MS)
    put(log, a_batch(1, timestamp=0))
    put(log, a_batch(1, timestamp=HOUR_MS - 1))
    assert len(log.segments) == 2


def test_a_segment_rolls_when_its_index_is_full() -> None:
    log = a_log(segment_bytes=1 << 20, segment_index_bytes=48, index_interval_bytes=1)
    for number in range(9):
        put(log, a_batch(1, timestamp=number))
    assert [segment.index.count for segment in log.segments.all()] == [3, 3, 0]


def test_a_roll_trims_the_old_indexes_pads_the_new_and_takes_a_snapshot() -> None:
    disk = a_disk()
    log = a_log(disk, segment_bytes=1 << 20, segment_index_bytes=100)
    for _ in range(8):
        put(log)
    assert disk.file_size(f"{log.directory}/{0:020d}.index") == 96
    log.roll(0)
    index, times = (disk.contents(f"{log.directory}/{0:020d}.{kind}") for kind in ("index", "timeindex"))
    assert len(index) == 8 * log.segments.all()[0].index.count
    assert len(times) == 12
    assert disk.exists(f"{log.directory}/{16:020d}.snapshot")
    assert log.roll(0) is False


def test_more_than_a_segment_holds_is_refused() -> None:
    log = a_log(segment_bytes=100)
    assert code_of(lambda: put(log, a_batch(20))) is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=25),
    st.integers(0, 61),
    st.sampled_from([0, 1, 2, 3, 4]),
)
def test_a_time_is_found_exactly_whatever_the_order_of_times(batches: list[list[int]], asked: int, codec: int) -> None:
    log = a_log()
    times: list[int] = []
    for stamps in batches:
        put(log, build_batch([Record(at, stamp, None, b"x") for at, stamp in enumerate(stamps)], codec=codec))
        times += stamps
    found = log.find_timestamp(asked, log.log_end_offset)
    offset = next((offset for offset, timestamp in enumerate(times) if timestamp >= asked), None)
    assert (None if found is None else found.offset) == offset
    latest = log.max_timestamp()
    assert latest is not None
    assert (latest.timestamp, latest.offset) == (max(times), times.index(max(times)))


def test_a_time_beyond_the_high_watermark_is_not_found() -> None:
    log = a_log()
    put(log, a_batch(4, timestamp=100))
    assert log.find_timestamp(102, 2) is None
    found = log.find_timestamp(101, 2)
    assert found is not None
    assert (found.offset, found.timestamp, found.leader_epoch) == (1, 101, 0)


def test_a_roll_and_a_truncation_are_each_one_log_event_with_its_fields() -> None:
    log = a_log()
    events: list[tuple[str, dict[str, object]]] = []
    log.log_dir.on_event = lambda event, **fields: events.append((event, fields))
    partition = str(log.topic_partition)
    put(log)
    assert log.roll(0)
    assert not log.roll(0)
    put(log)
    assert log.truncate_to(3)
    assert not log.truncate_to(2)
    log.truncate_fully_and_start_at(9, 0)
    assert events == [
        ("segment rolled", {"partition": partition, "base_offset": 2}),
        ("log truncated", {"partition": partition, "end_offset": 2}),
        ("log truncated", {"partition": partition, "end_offset": 9}),
    ]


def test_a_truncation_is_announced_before_it_happens_and_drops_whole_batches() -> None:
    log = a_log()
    for _ in range(12):
        put(log)
    seen: list[int] = []
    log.log_dir.before_truncate = lambda _file, _position: seen.append(log.log_end_offset)
    held = contents(log)
    assert log.truncate_to(7)
    assert seen == [24]
    assert log.log_end_offset == 6
    assert contents(log) == held[:6]
    assert not log.truncate_to(6)
    put(log)
    assert contents(log)[:6] == held[:6]
    assert log.log_end_offset == 8


def test_who_may_be_sending_what_is_cut_is_reported_the_file_and_the_place() -> None:
    log = a_log()
    for _ in range(4):
        put(log)
    reported: list[tuple[str, int, int]] = []
    log.log_dir.before_truncate = lambda file, position: reported.append((file.path, position, file.size()))
    size = log.segments.active.size // 4
    log.truncate_to(5)
    assert reported == [(log_file(log), 2 * size, 4 * size)], "before it is shorter"


def test_truncation_rolls_back_the_producer_state() -> None:
    log = a_log()
    for sequence in range(0, 20, 2):
        put(log, an_idempotent_batch(2, sequence=sequence))
    log.truncate_to(8)
    assert code_of(lambda: put(log, an_idempotent_batch(2, sequence=20))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert put(log, an_idempotent_batch(2, sequence=8)).base_offset == 8


def test_after_truncation_each_of_a_producers_last_five_batches_is_a_duplicate_though_a_snapshot_has_one() -> None:
    log = a_log()
    for sequence in range(0, 20, 2):
        put(log, an_idempotent_batch(2, sequence=sequence))
    assert log.roll(0)
    put(log, an_idempotent_batch(2, sequence=20))
    log.truncate_to(20)
    assert all(put(log, an_idempotent_batch(2, sequence=sequence)).duplicate for sequence in range(10, 20, 2))
    assert log.log_end_offset == 20


def test_aborted_transactions_are_found_by_range_and_bound_stable_reads() -> None:
    disk = a_disk()
    log = a_log(disk)
    put(log)
    put(log, an_idempotent_batch(2, producer_id=5, transactional=True))
    assert log.last_stable_offset(4) == 2
    marker = [Record(0, 1, b"\0\0\0\0", b"\0\0\0\0\0\3")]
    put(log, build_batch(marker, producer_id=5, producer_epoch=0, transactional=True, control=True))
    assert log.last_stable_offset(4) == 2
    assert log.last_stable_offset(5) == 5
    assert [tuple(aborted) for aborted in log.aborted_transactions(3, 5)] == [(5, 2, 4, 5)]
    assert log.aborted_transactions(5, 9) == []
    assert log.aborted_transactions(0, 2) == []
    stored = disk.contents(f"{log.directory}/{0:020d}.txnindex")
    assert stored.hex() == "0000" + "0000000000000005" + "0000000000000002" + "0000000000000004" + "0000000000000005"


def test_a_transaction_whose_first_records_were_deleted_holds_readers_at_the_first_that_is_left() -> None:
    log = a_log()
    put(log, an_idempotent_batch(2, producer_id=5, transactional=True))
    put(log, an_idempotent_batch(2, producer_id=5, sequence=2, transactional=True))
    log.advance_log_start(3)
    assert log.last_stable_offset(4) == 3


async def test_flush_is_due_after_so_many_records_and_moves_the_recovery_point() -> None:
    disk = a_disk()
    log = a_log(disk, flush_messages=4)
    put(log)
    assert not log.needs_flush
    put(log)
    assert log.needs_flush
    await log.flush()
    assert (log.recovery_point, log.unflushed_messages, log.needs_flush) == (4, 0, False)


async def test_a_truncation_during_a_flush_keeps_the_recovery_point_below_it() -> None:
    disk = a_disk()
    log = a_log(disk)
    for _ in range(4):
        put(log)

    async def cut() -> None:
        disk.before_offload = None
        log.truncate_to(4)

    disk.before_offload = cut
    await log.flush()
    assert log.recovery_point == 0


def test_a_bound_inside_a_batch_lets_the_whole_batch_through() -> None:
    log = a_log(segment_bytes=1 << 20)
    for _ in range(3):
        put(log, a_batch(5))
    piece = log.read(0, 10_000, 7, whole_first=True)
    assert piece is not None
    assert piece.size == 2 * len(a_batch(5))


def test_the_first_of_many_records_of_one_time_is_found() -> None:
    log = a_log(segment_bytes=1 << 20, index_interval_bytes=1)
    for _ in range(6):
        put(log, a_batch(1, timestamp=500))
    found, latest = log.find_timestamp(500, 6), log.max_timestamp()
    assert found is not None
    assert latest is not None
    assert (found.offset, latest.offset) == (0, 0)
    log = a_log(segment_bytes=1 << 20, index_interval_bytes=100)
    for _ in range(6):
        put(log, a_batch(1, timestamp=500))
    found = log.find_timestamp(500, 6)
    assert found is not None
    assert found.offset == 0
