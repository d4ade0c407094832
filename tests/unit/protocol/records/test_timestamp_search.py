"""The first record of a batch at or after a time and an offset, against reading the whole batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.protocol.records.legacy import message_header, read_any, write_messages
from sordini.protocol.records.timestamp_search import first_from
from sordini.protocol.records.work_budget import Effort, TooLong
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
    assert first_from(data, header, timestamp, offset) == (late[0] if late else None)


@pytest.mark.parametrize(("at", "byte"), [(61, 0x00), (61, 0x01), (61, 0xFE), (63, 0xFF)])
def test_bytes_that_are_no_records_count_as_found_where_they_begin(at: int, byte: int) -> None:
    batch = bytearray(build_batch([Record(0, 5, b"k", b"v"), Record(1, 6, b"k", b"v")]))
    batch[at:] = bytes([byte]) * (len(batch) - at)
    assert first_from(bytes(batch), read_header(batch), 2**62, 0) == (2**62, 0)


@pytest.mark.parametrize("codec", worst_batches.EVERY_COMPRESSION)
def test_a_batch_that_expands_to_more_than_may_be_kept_is_searched_to_its_end(codec: int) -> None:
    records = [Record(number, 1_000 + number, None, bytes(4_000_000)) for number in range(4)]
    data = build_batch(records, codec=codec)
    header = read_header(data)
    for number in range(4):
        assert first_from(data, header, 1_000 + number, 0) == (1_000 + number, number)
    assert first_from(data, header, 1_004, 0) is None


def test_of_a_batch_that_is_damaged_further_on_the_records_before_are_found() -> None:
    data = bytearray(build_batch([Record(number, 1_000 + number, None, b"v" * 100) for number in range(3)]))
    header = read_header(data)
    third = len(data) - (len(data) - 61) // 3
    data[third:] = bytes(len(data) - third)
    assert first_from(bytes(data), header, 1_001, 0) == (1_001, 1)
    assert first_from(bytes(data), header, 1_002, 0) == (header.max_timestamp, 2), "the first that cannot be read"


def test_a_search_that_takes_too_many_steps_is_given_up() -> None:
    data = worst_batches.tiny_records(100_000)
    with pytest.raises(TooLong):
        first_from(data, read_header(data), worst_batches.TIMESTAMP + 1, 0, Effort(10_000))
