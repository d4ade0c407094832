"""The first record of a batch at or after a time and an offset, against reading the whole batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.records.batch import BatchHeader, Record, build_batch, read_header
from sordini.protocol.records.legacy import message_header, read_any
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.records.timestamp_search import first_at_or_after
from sordini.protocol.records.varint import VARLONG_BYTES_MAX, read_varint
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget
from tests.support import worst_batches

TIMES = st.lists(st.integers(0, 40) | st.integers(10**12, 10**12 + 10**6), min_size=1, max_size=12)
FORMATS = st.sampled_from([0, 1, 2])


@given(TIMES, FORMATS, st.sampled_from([0, 1, 4]), st.integers(-1, 10**12), st.integers(0, 30), st.booleans())
def test_it_is_the_one_that_reading_every_record_finds(
    times: list[int], magic: int, codec: int, timestamp: int, offset: int, log_append_time: bool
) -> None:
    records = [Record(7 + 2 * number, time, None, b"v" * number) for number, time in enumerate(times)]
    if magic == 2:
        data = build_batch(records, base_offset=7, codec=codec, log_append_time=log_append_time)
        header = read_header(data)
    else:
        data = write_messages(records[:1], magic)
        header = message_header(data, 0, len(data))
        assert header is not None
    read = read_any(data, header)
    late = [
        (found.timestamp, found.offset) for found in read if found.timestamp >= timestamp and found.offset >= offset
    ]
    assert first_at_or_after(data, header, timestamp, offset) == (late[0] if late else None)


def one_by_one(data: bytes, header: BatchHeader, timestamp: int, offset: int) -> tuple[int, int] | None:
    """The plain way: each number of each record is read, until one is found or cannot be read."""
    position, next_offset = 61, header.base_offset
    try:
        for _ in range(header.record_count):
            length, at = read_varint(data, position)
            delta, offset_at = read_varint(data, at + 1, VARLONG_BYTES_MAX)
            found = header.base_offset + read_varint(data, offset_at)[0]
            if length <= 0:
                raise ValueError
            time_ms = header.max_timestamp if header.is_log_append_time else header.base_timestamp + delta
            if time_ms >= timestamp and found >= offset:
                return time_ms, found
            next_offset, position = found + 1, at + length
    except (IndexError, ValueError):
        return max(header.max_timestamp, timestamp), max(next_offset, offset)
    return None


SIZES = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 100), st.sampled_from([0, 0, 0, 1, 63, 5_000])))


@given(
    SIZES, st.sampled_from([0, 0, 0, -3, 10**9]), st.lists(st.tuples(st.integers(0), st.binary(min_size=1))), st.data()
)
def test_a_run_of_records_of_one_size_is_searched_as_they_would_be_one_by_one(
    runs: list[tuple[int, int, int]], jump_ms: int, mutations: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    records, time = [Record(5, 1_000, None, b"")], 1_000
    for size, count, step_ms in runs[:8]:
        for _ in range(count):
            time += step_ms
            records.append(Record(records[-1].offset + 1, time, None, b"v" * size))
        time += jump_ms
    batch = bytearray(build_batch(records, base_offset=5))
    for seed, written in mutations:
        at = 61 + seed % (len(batch) - 61)
        batch[at : at + len(written)] = written[: len(batch) - at]
    header = read_header(batch)
    sought = data.draw(st.sampled_from(records)).timestamp + data.draw(st.integers(-1, 1))
    offset = data.draw(st.just(0) | st.integers(0, len(records) + 9))
    assert first_at_or_after(bytes(batch), header, sought, offset) == one_by_one(bytes(batch), header, sought, offset)


@pytest.mark.parametrize("log_append_time", [False, True])
@pytest.mark.parametrize("step_ms", [1, 7, 300, 20_000])
@pytest.mark.parametrize("alike", [1, 3, 20])
def test_the_first_of_records_of_one_time_is_found_wherever_it_is(
    step_ms: int, alike: int, log_append_time: bool
) -> None:
    records = [Record(number, 1_000 + number // alike * step_ms, None, b"value") for number in range(150)]
    data = build_batch(records, log_append_time=log_append_time)
    header = read_header(data)
    for timestamp in {record.timestamp + late for record in records for late in (-1, 0, 1)}:
        assert first_at_or_after(data, header, timestamp, 0) == one_by_one(data, header, timestamp, 0)


def test_the_records_of_a_long_batch_are_skipped_without_a_step_for_each() -> None:
    records = [Record(number, 1_000 + number, None, b"v" * 100) for number in range(5_000)]
    data = build_batch(records)
    budget = WorkBudget(2_000)
    assert first_at_or_after(data, read_header(data), 5_900, 0, budget) == (5_900, 4_900)


@pytest.mark.parametrize(("at", "byte"), [(61, 0x00), (61, 0x01), (61, 0xFE), (63, 0xFF)])
def test_bytes_that_are_no_records_count_as_found_where_they_begin(at: int, byte: int) -> None:
    batch = bytearray(build_batch([Record(0, 5, b"k", b"v"), Record(1, 6, b"k", b"v")]))
    batch[at:] = bytes([byte]) * (len(batch) - at)
    assert first_at_or_after(bytes(batch), read_header(batch), 2**62, 0) == (2**62, 0)


@pytest.mark.parametrize("codec", worst_batches.EVERY_COMPRESSION)
def test_a_batch_that_expands_to_more_than_may_be_kept_is_searched_to_its_end(codec: int) -> None:
    records = [Record(number, 1_000 + number, None, bytes(4_000_000)) for number in range(4)]
    data = build_batch(records, codec=codec)
    header = read_header(data)
    for number in range(4):
        assert first_at_or_after(data, header, 1_000 + number, 0) == (1_000 + number, number)
    assert first_at_or_after(data, header, 1_004, 0) is None


def test_of_a_batch_that_is_damaged_further_on_the_records_before_are_found() -> None:
    data = bytearray(build_batch([Record(number, 1_000 + number, None, b"v" * 100) for number in range(3)]))
    header = read_header(data)
    third = len(data) - (len(data) - 61) // 3
    data[third:] = bytes(len(data) - third)
    assert first_at_or_after(bytes(data), header, 1_001, 0) == (1_001, 1)
    assert first_at_or_after(bytes(data), header, 1_002, 0) == (header.max_timestamp, 2), (
        "the first that cannot be read"
    )


def test_a_search_that_takes_too_many_steps_is_given_up() -> None:
    data = worst_batches.tiny_records(100_000)
    with pytest.raises(BudgetExceeded):
        first_at_or_after(data, read_header(data), worst_batches.TIMESTAMP + 1, 0, WorkBudget(10_000))
