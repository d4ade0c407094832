"""Damaged records with a valid CRC: they are read correctly or refused."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.pipeline.source.decode import BrokenRecords
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE, BatchHeader, Record, build_batch, read_header, read_records
from sordini.protocol.records.varint import varint
from tests.support.decoded_logs import TIME, Row, decoded, records, with_right_crc
from tests.support.parts import examples


def by_the_letter(batch: bytes) -> list[Row] | int:
    """The rows as the protocol's own reader reads them one by one, or the offset of the first that is broken."""
    header = read_header(batch)
    expected = header.base_offset
    rows: list[Row] = []
    try:
        for record in read_records(batch, header):
            if not expected <= record.offset <= header.last_offset:
                return expected
            headers = [
                (name.encode(errors="surrogateescape").decode(errors="replace"), value)
                for name, value in record.headers
            ]
            kind = int(header.is_log_append_time)
            rows.append((record.key, record.value, record.offset, record.timestamp, kind, headers or None))
            expected = record.offset + 1
    except BrokerError:
        # Of bytes behind the last record, and of too many records, the batch's offset is reported.
        is_of_batch = len(rows) == header.record_count or header.record_count * 7 > header.size - HEADER_SIZE
        return header.base_offset if is_of_batch else expected
    return rows


def read_or_refused(log: bytes) -> list[Row] | int:
    try:
        return decoded(log)
    except BrokenRecords as broken:
        return broken.offset


@settings(max_examples=examples(150))
@given(records(0, (1, 2, 5)), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_records_are_read_as_they_stand_or_reported_by_the_offset_of_the_first(
    found: list[Record], damage: list[tuple[int, int]]
) -> None:
    good = build_batch(found)
    # Mostly the fields before keys and values, where damage matters.
    body = bytearray(good[HEADER_SIZE:])
    for at, byte in damage:
        body[at % len(body) if at % 3 else at % min(len(body), 16)] = byte
    bad = with_right_crc(read_header(good), bytes(body))
    assert read_or_refused(bad) == by_the_letter(bad)


def a_record(*numbers: int, key: bytes = b"", value: bytes = b"", tail: bytes = b"\0") -> bytes:
    """A record of timestamp delta, offset delta, key length and value length, whatever these say."""
    time, offset, key_length, value_length = numbers
    content = b"".join(
        (b"\0", varint(time), varint(offset), varint(key_length), key, varint(value_length), value, tail)
    )
    return varint(len(content)) + content


def one(record: bytes, *, base_timestamp: int = TIME) -> bytes:
    return with_right_crc(BatchHeader(7, 0, 0, 2, 0, 0, 0, base_timestamp, TIME, -1, -1, -1, 1), record)


def test_any_length_below_zero_is_null() -> None:
    assert read_or_refused(one(a_record(0, 0, -5, -(2**31)))) == [(None, None, 7, TIME, 0, None)]


def test_numbers_may_be_written_longer_than_they_need_to_be() -> None:
    long_zero = b"\x80\x80\x80\x80\x00"
    content = b"\0" + b"\x80" * 9 + b"\0" + long_zero * 4
    assert read_or_refused(one(varint(len(content)) + content)) == [(b"", b"", 7, TIME, 0, None)]
    assert read_or_refused(one(b"\x8e\x80\x00" + a_record(0, 0, -1, 1, value=b"x")[1:])) == [
        (None, b"x", 7, TIME, 0, None)
    ]


def test_numbers_that_do_not_end_are_refused() -> None:
    for content in (
        b"\0" + b"\x80" * 10 + bytes(10),
        b"\0\0" + b"\x80" * 5 + bytes(10),
        b"\0\0\0\x01\x01" + b"\x80" * 5 + b"\0",
    ):
        assert read_or_refused(one(varint(len(content)) + content)) == 7


def test_times_that_leave_64_bits_are_refused() -> None:
    assert read_or_refused(one(a_record(1, 0, -1, -1), base_timestamp=2**63 - 1)) == 7
    assert read_or_refused(one(a_record(-1, 0, -1, -1), base_timestamp=-(2**63))) == 7
    more_than_64_bits = b"\0" + b"\xff" * 9 + b"\x02" + b"\0\x01\x01\0"
    assert read_or_refused(one(varint(len(more_than_64_bits)) + more_than_64_bits)) == 7


def test_lengths_that_leave_the_record_or_the_batch_are_refused() -> None:
    for record in (
        a_record(0, 0, 1, -1),
        a_record(0, 0, 2**31 - 1, -1),
        a_record(0, 0, -1, 2**31 - 1),
        a_record(0, 0, -1, 1),
        a_record(0, 0, -1, -1, tail=varint(2**31 - 1)),
        a_record(0, 0, -1, -1, tail=varint(-1)),
        a_record(0, 0, -1, -1, tail=varint(1) + varint(-1) + varint(-1)),
        a_record(0, 0, -1, -1, tail=varint(1) + varint(5) + varint(-1)),
        a_record(0, 0, -1, -1, tail=b"\0\0"),
        a_record(0, 1, -1, -1),
        a_record(0, -1, -1, -1),
        b"\x01" + a_record(0, 0, -1, -1)[1:],
        a_record(0, 0, -1, -1) + b"\0",
    ):
        assert read_or_refused(one(record)) == 7, record


def test_many_headers_of_few_records_are_read_and_checked() -> None:
    headers = tuple((f"name {number}", b"v" * (number % 3) if number % 5 else None) for number in range(300))
    batch = build_batch([Record(0, TIME, None, b"a", headers), Record(1, TIME, None, b"b", headers[:7])])
    assert [row[5] for row in decoded(batch)] == [list(headers), list(headers[:7])]
    body = batch[HEADER_SIZE:].replace(varint(8) + b"name 250"[:8], varint(-1) + b"name 250"[:8])
    bad = with_right_crc(read_header(batch), body)
    assert read_or_refused(bad) == by_the_letter(bad) == 0
