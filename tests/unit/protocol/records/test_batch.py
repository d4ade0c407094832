"""Version 2 batches: built, read, stamped, and compared with what the clients' own codecs make of them."""

from __future__ import annotations

import warnings

import pytest
from aiokafka.record._crecords.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Record,
    build_batch,
    crc_is_right,
    read_header,
    read_records,
    stamp,
    stamp_append_time,
)
from sordini.protocol.records.compression import CODEC_NAMES
from tests.support.builders import a_batch, an_idempotent_batch, some_records, writable
from tests.support.parts import examples

with warnings.catch_warnings():
    # kafka-python reads its own resources in a way that Python calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

CODECS = sorted(CODEC_NAMES)
# kafka-python wants another package for snappy.
KAFKA_PYTHON_CODECS = [0, 1, 3, 4]

values = st.none() | st.binary(max_size=300)
header_keys = st.text(max_size=8)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    gaps = draw(st.lists(st.integers(1, 3), min_size=1, max_size=12))
    base = draw(st.integers(0, 2**40))
    records = []
    offset = base
    for index, gap in enumerate(gaps):
        offset += gap if index else 0
        headers = draw(st.lists(st.tuples(header_keys, st.none() | st.binary(max_size=20)), max_size=3))
        timestamp = draw(st.integers(-1, 2**45))
        records.append(Record(offset, timestamp, draw(values), draw(values), tuple(headers)))
    return records


@settings(deadline=None, max_examples=30)
@given(record_lists(), st.sampled_from(CODECS))
def test_records_read_back_as_they_were_built(records: list[Record], codec: int) -> None:
    batch = build_batch(records, codec=codec, base_offset=records[0].offset)
    header = read_header(batch)
    assert list(read_records(batch, header)) == records
    assert crc_is_right(batch, 0, header)
    assert header.size == len(batch)
    assert header.codec == codec
    assert header.next_offset == records[-1].offset + 1
    assert header.max_timestamp == max(record.timestamp for record in records)


def test_a_header_says_what_the_batch_was_built_with() -> None:
    batch = a_batch(
        4,
        base_offset=100,
        leader_epoch=9,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        transactional=True,
    )
    header = read_header(b"before" + batch, 6)
    assert header._replace(crc=0, base_timestamp=0, max_timestamp=0) == BatchHeader(
        base_offset=100,
        size=len(batch),
        partition_leader_epoch=9,
        magic=2,
        crc=0,
        attributes=0x10,
        last_offset_delta=3,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=2**31 - 2,
        record_count=4,
    )
    assert (header.last_offset, header.next_offset) == (103, 104)
    assert header.is_transactional
    assert not header.is_control
    assert not header.is_log_append_time
    # Sequence numbers wrap to 0 after 2^31 - 1.
    assert header.last_sequence == 1


def test_a_batch_without_a_sequence_has_no_last_sequence() -> None:
    assert read_header(a_batch(3)).last_sequence == -1
    assert read_header(an_idempotent_batch(3, sequence=5)).last_sequence == 7


def test_a_header_that_is_cut_off_is_corrupt() -> None:
    with pytest.raises(BrokerError) as refusal:
        read_header(a_batch()[: HEADER_SIZE - 1])
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE


def test_stamping_changes_offset_and_epoch_and_leaves_the_crc_right() -> None:
    before = a_batch(3)
    buffer = writable(b"x" * 7 + before)
    stamp(buffer, 7, 2**50, 12)
    header = read_header(buffer, 7)
    assert header == read_header(before)._replace(base_offset=2**50, partition_leader_epoch=12)
    assert crc_is_right(buffer, 7, header)
    assert [record.offset for record in read_records(buffer[7:], header)] == [2**50, 2**50 + 1, 2**50 + 2]


@pytest.mark.parametrize("codec", CODECS)
def test_the_append_time_replaces_every_records_time_and_nothing_else(codec: int) -> None:
    records = some_records(3)
    buffer = writable(a_batch(records, codec=codec))
    stamp_append_time(buffer, 0, 1234)
    header = read_header(buffer)
    assert crc_is_right(buffer, 0, header)
    assert header.is_log_append_time
    assert header.max_timestamp == 1234
    assert list(read_records(buffer, header)) == [record._replace(timestamp=1234) for record in records]


@settings(deadline=None, max_examples=examples(60))
@given(st.sampled_from(CODECS), st.data())
def test_any_flipped_bit_that_the_crc_covers_is_noticed(codec: int, data: st.DataObject) -> None:
    batch = bytearray(a_batch(5, codec=codec, value=b"v" * 50))
    at = data.draw(st.integers(17, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    assert not crc_is_right(batch, 0, read_header(batch))


@settings(deadline=None, max_examples=examples(60))
@given(st.sampled_from(CODECS), st.data())
def test_records_cut_short_are_refused_whatever_the_codec(codec: int, data: st.DataObject) -> None:
    batch = a_batch(5, codec=codec, value=b"v" * 50)
    cut = data.draw(st.integers(1, len(batch) - HEADER_SIZE))
    header = read_header(batch)._replace(size=len(batch) - cut)
    with pytest.raises(BrokerError) as refusal:
        list(read_records(batch[:-cut], header))
    assert refusal.value.code in {ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE}


@settings(deadline=None, max_examples=examples(100))
@given(st.binary(max_size=120), st.integers(0, 7), st.integers(-1, 2**31 - 1))
def test_no_bytes_make_reading_fail_in_another_way(body: bytes, codec: int, count: int) -> None:
    header = read_header(a_batch())._replace(attributes=codec, record_count=count, size=HEADER_SIZE + len(body))
    try:
        list(read_records(bytes(HEADER_SIZE) + body, header))
    except BrokerError as error:
        code = error.code
    else:
        return
    assert code in {
        ErrorCode.INVALID_RECORD,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.MESSAGE_TOO_LARGE,
    }


@pytest.mark.parametrize(
    "body",
    [
        b"\x0e\x00\x00\x00\x01\x02v\x00" + b"\x00",  # A byte after the last record.
        b"\x10\x00\x00\x00\x01\x02v\x00" + b"\x00",  # A byte at the end of a record.
        b"\x0e\x00\x00\x00\x01\x04v\x00",  # A value longer than its record.
        b"\x0e\x00\x00\x00\x01\x01\x02\x02",  # More headers than bytes.
    ],
)
def test_records_that_do_not_fill_what_they_say_are_invalid(body: bytes) -> None:
    right = b"\x0e\x00\x00\x00\x01\x02v\x00"
    header = read_header(a_batch(1))
    assert len(list(read_records(bytes(HEADER_SIZE) + right, header._replace(size=HEADER_SIZE + len(right))))) == 1
    with pytest.raises(BrokerError) as refusal:
        list(read_records(bytes(HEADER_SIZE) + body, header._replace(size=HEADER_SIZE + len(body))))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_a_timestamp_beyond_sixty_four_bits_is_invalid() -> None:
    batch = a_batch(2)
    header = read_header(batch)._replace(base_timestamp=2**63 - 1)
    with pytest.raises(BrokerError) as refusal:
        list(read_records(batch, header))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
def test_kafka_python_reads_what_we_build(codec: int) -> None:
    records = [record._replace(key=b"k", headers=(("h", b"1"), ("none", None))) for record in some_records(40)]
    theirs = MemoryRecords(a_batch(records, codec=codec)).next_batch()
    assert theirs.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, [tuple(h) for h in r.headers]) for r in theirs]
    assert read == [(*record[:4], list(record.headers)) for record in records]


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_what_we_build(codec: int) -> None:
    records = [record._replace(key=b"k", headers=(("h", b"1"), ("none", None))) for record in some_records(40)]
    theirs = DefaultRecordBatch(a_batch(records, codec=codec))
    assert theirs.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in theirs]
    assert read == [(*record[:4], list(record.headers)) for record in records]


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
def test_we_read_what_kafka_python_builds(codec: int) -> None:
    records = some_records(40, key=b"k")
    builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, [])
    builder.close()
    batch = bytes(builder.buffer())
    header = read_header(batch)
    assert crc_is_right(batch, 0, header)
    assert header.codec == codec
    assert list(read_records(batch, header)) == records


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_aiokafka_builds(codec: int) -> None:
    records = some_records(40, key=b"k")
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 20)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, [])
    batch = bytes(builder.build())
    header = read_header(batch)
    assert crc_is_right(batch, 0, header)
    assert list(read_records(batch, header)) == records


def test_without_compression_we_build_the_bytes_that_aiokafka_builds() -> None:
    records = [record._replace(headers=(("h", b"1"),)) for record in some_records(100, value=b"v" * 70)]
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    theirs = bytes(builder.build())
    ours = a_batch(records, leader_epoch=read_header(theirs).partition_leader_epoch)
    assert ours == theirs
