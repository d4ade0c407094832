"""Decoding as a whole: the rows are those that an independent reader reads, whatever way the bytes come."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecordsBuilder

from sordini.pipeline.source.decode import COLUMNS, BrokenRecords, Decoder, arrow_schema, decoder
from sordini.protocol.records.batch import HEADER_SIZE, BatchHeader, Record, assemble_batch, build_batch, read_header
from sordini.protocol.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    compress,
)
from sordini.protocol.records.control import COMMIT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from tests.support.decoded_logs import (
    ALL,
    CODECS,
    TIME,
    decode,
    decoded,
    judged,
    logs,
    rows_of,
    wanted,
    with_right_crc,
    with_wrong_crc,
)
from tests.support.parts import examples


def some(count: int, base: int = 0, **fields: object) -> bytes:
    records = [Record(base + number, TIME, None, b"value %d" % number) for number in range(count)]
    return build_batch(records, base_offset=base, **fields)


def header_of(base: int, last_delta: int, count: int, *, attributes: int = 0) -> BatchHeader:
    return BatchHeader(base, 0, 0, 2, 0, attributes, last_delta, TIME, TIME, -1, -1, -1, count)


# -- laws


@settings(max_examples=examples(60))
@given(logs())
def test_the_rows_are_those_that_an_independent_reader_reads(log: list[bytes]) -> None:
    assert decoded(b"".join(log)) == judged(b"".join(log))


@settings(max_examples=25)
@given(logs(), st.data())
def test_rows_before_the_start_and_from_the_end_on_are_cut_off(log: list[bytes], data: st.DataObject) -> None:
    rows = judged(b"".join(log))
    offsets = st.integers(rows[0][2] - 1, rows[-1][2] + 2)
    start, end = data.draw(offsets), data.draw(offsets)
    assert decoded(b"".join(log), wanted(start, end)) == [row for row in rows if start <= row[2] < end]


@settings(max_examples=25)
@given(logs(), st.data())
def test_how_the_bytes_are_split_into_responses_does_not_matter(log: list[bytes], data: st.DataObject) -> None:
    """Each response begins with a batch that holds the next offset, or with one before it, and is cut anywhere."""
    whole = b"".join(log)
    starts = [len(b"".join(log[:number])) for number in range(len(log) + 1)]
    reader, rows, at = Decoder(wanted()), [], 0
    while at < len(log):
        again = data.draw(st.integers(0, at))
        cut = data.draw(st.integers(starts[at + 1], len(whole)))
        fed = reader.feed(memoryview(whole)[starts[again] : cut], ())
        rows += [] if fed.batch is None else rows_of(fed.batch)
        at = max(number for number, start in enumerate(starts) if start <= cut)
    assert rows == judged(whole)


@settings(max_examples=12)
@given(logs(), st.frozensets(st.sampled_from(COLUMNS)))
def test_leaving_out_columns_changes_nothing_of_the_others(log: list[bytes], columns: frozenset[str]) -> None:
    everything = decode(memoryview(b"".join(log)), wanted()).batch
    part = decode(memoryview(b"".join(log)), wanted(columns=columns)).batch
    assert part.schema == arrow_schema(columns)
    assert part.num_rows == everything.num_rows
    assert part.to_pylist() == everything.select([name for name in COLUMNS if name in columns]).to_pylist()


@settings(max_examples=12)
@given(logs(batches_max=8), st.integers(1, 4000))
def test_the_size_of_pieces_does_not_matter(log: list[bytes], piece_bytes: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "PIECE_BYTES", piece_bytes)
        assert decoded(b"".join(log)) == judged(b"".join(log))
        fed = decode(memoryview(b"".join(log)), wanted()).batch
    assert rows_of(fed) == judged(b"".join(log))


@pytest.mark.parametrize(("magic", "codec"), [(2, codec) for codec in CODECS] + [(1, codec) for codec in CODECS[:4]])
def test_what_another_client_wrote_is_read(magic: int, codec: int) -> None:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    headers = [("h", b"v"), ("none", None)] if magic == 2 else []
    for number in range(300):
        key = None if number % 3 else b"key %d" % number
        value = None if number % 50 == 7 else b"value " * (number % 40)
        builder.append(timestamp=TIME + number * 100, key=key, value=value, headers=headers if number % 4 else [])
    builder.close()
    log = bytes(builder.buffer())
    rows = decoded(log)
    assert rows == judged(log)
    assert [row[3] for row in rows] == [TIME + number * 100 for number in range(300)]


@pytest.mark.parametrize("codec", CODECS)
def test_sound_batches_are_decoded_together(codec: int) -> None:
    """Sizes of one and two bytes side by side, and more batches than are needed for lanes."""
    log = b""
    for base in range(0, 6000, 100):
        records = [
            Record(base + number, TIME + number * 50, None, bytes(number + base // 100)) for number in range(100)
        ]
        log += build_batch(records, base_offset=base, codec=codec)
    (piece,) = Decoder(wanted()).pieces(memoryview(log), ())
    sizes = [number + batch for batch in range(60) for number in range(100)]
    assert [len(value) for value in piece.batch.column("value").to_pylist()] == sizes


# -- offsets


def test_the_next_offset_is_past_control_records_and_compacted_ones() -> None:
    marker = build_marker(Marker(COMMIT, 0), producer_id=7, producer_epoch=0, timestamp_ms=TIME, base_offset=3)
    emptied = bytes(assemble_batch(header_of(4, 5, 0), b""))
    last = bytes(assemble_batch(header_of(10, 9, 1), some(1, 10)[HEADER_SIZE:]))
    log = some(3) + marker + emptied + last
    reader = Decoder(wanted())
    fed = reader.feed(memoryview(log), ())
    assert fed.batch.column("offset").to_pylist() == [0, 1, 2, 10]
    assert fed.next_offset == reader.next_offset == 20
    assert decode(memoryview(marker + emptied), wanted(3)) == (None, 10)


def test_the_next_offset_is_never_past_the_end_that_is_wanted() -> None:
    assert decode(memoryview(some(10)), wanted(2, 5)).next_offset == 5
    assert decode(memoryview(some(10, 100)), wanted(2, 5)) == (None, 5)
    assert decode(memoryview(some(10)), wanted(5, 5)) == (None, 5)


def test_a_batch_that_is_cut_short_is_left_for_the_next_fetch() -> None:
    log = some(3) + some(3, 3)
    for cut in range(len(some(3)), len(log)):
        fed = decode(memoryview(log)[:cut], wanted())
        assert (fed.batch.num_rows, fed.next_offset) == (3, 3)
    assert decode(memoryview(log)[:70], wanted()) == (None, 0)
    assert decode(memoryview(b""), wanted(9)) == (None, 9)


def test_what_is_past_the_end_is_not_looked_at() -> None:
    log = some(3) + with_wrong_crc(some(3, 3)) + b"\xff" * 100
    assert decode(memoryview(log), wanted(0, 3)).batch.num_rows == 3


# -- values


def test_the_columns_have_the_names_and_types_of_sparks_own_source() -> None:
    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    assert arrow_schema(reversed(COLUMNS)) == pa.schema(
        {
            "key": pa.binary(),
            "value": pa.binary(),
            "topic": pa.string(),
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", tz="UTC"),
            "timestampType": pa.int32(),
            "headers": pa.list_(header),
        }
    )
    with pytest.raises(ValueError, match="no column of a Kafka record: colour"):
        Decoder(wanted(columns=frozenset({"key", "colour"})))


def test_rows_without_columns_are_still_counted() -> None:
    assert decode(memoryview(some(5)), wanted(columns=frozenset())).batch.num_rows == 5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoder, "PIECE_BYTES", 10)
        assert decode(memoryview(some(5) + some(4, 5)), wanted(columns=frozenset())).batch.num_rows == 9


def test_the_rows_do_not_hold_on_to_what_was_fetched() -> None:
    fetched = bytearray(some(5))
    batch = decode(memoryview(fetched), wanted()).batch
    fetched[:] = bytes(len(fetched))
    assert batch.column("value").to_pylist() == [b"value %d" % number for number in range(5)]


def test_header_names_that_are_no_utf8_become_what_java_makes_of_them() -> None:
    odd = build_batch([Record(0, TIME, None, b"", (("\udcff!", b"v"),))])
    assert decode(memoryview(odd), wanted()).batch.column("headers").to_pylist() == [
        [{"key": "\ufffd!", "value": b"v"}]
    ]


@pytest.mark.parametrize("magic", [1, 2])
def test_a_time_that_spark_cannot_tell_is_null(magic: int) -> None:
    beyond = 2**63 // 1000 + 1
    records = [Record(0, TIME, None, b"a"), Record(1, beyond, None, b"b"), Record(2, 5, None, b"c")]
    log = build_batch(records) if magic == 2 else write_messages(records, magic)
    batch = decode(memoryview(log), wanted()).batch
    batch.validate(full=True)
    assert batch.column("timestamp").cast("int64").to_pylist() == [TIME * 1000, None, 5000]


def test_a_topic_name_of_any_length_fills_its_column() -> None:
    for topic in ("", "t", "\u00e9" * 100):
        batch = decode(memoryview(some(3)), wanted()._replace(topic=topic)).batch
        assert batch.column("topic").to_pylist() == [topic] * 3


# -- broken records


@pytest.mark.parametrize("codec", CODECS)
def test_a_wrong_crc_is_reported_with_the_batchs_offset_and_codec(codec: int) -> None:
    log = some(3) + with_wrong_crc(some(4, 3, codec=codec)) + some(1, 7)
    with pytest.raises(BrokenRecords) as caught:
        decode(memoryview(log), wanted())
    broken = caught.value
    assert (broken.topic, broken.partition, broken.offset, broken.next_offset) == ("views", 3, 3, 7)
    assert (broken.codec, broken.reason) == (CODEC_NAMES[codec], "the CRC is wrong")
    assert str(broken) == f"topic 'views', partition 3, offset 3, {CODEC_NAMES[codec]}: the CRC is wrong"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_bytes_that_are_not_the_codecs_are_reported_whatever_the_crc_says(codec: int) -> None:
    good = some(50, 3, codec=codec)
    for body in (good[HEADER_SIZE:-3], b"\xff" * 30, b""):
        bad = with_right_crc(read_header(good), body)
        with pytest.raises(BrokenRecords) as caught:
            decode(memoryview(some(3) + bad), wanted())
        assert (caught.value.offset, caught.value.codec) == (3, CODEC_NAMES[codec])
        assert f"the records are not {CODEC_NAMES[codec]}" in caught.value.reason


def test_a_codec_that_there_is_not_is_reported() -> None:
    bad = with_right_crc(header_of(3, 0, 1, attributes=6), b"something")
    with pytest.raises(BrokenRecords, match="offset 3, codec 6: codec 6 is not known"):
        decode(memoryview(bad), wanted())


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_record_is_reported_by_its_own_offset_and_everything_before_its_batch_is_given(codec: int) -> None:
    good = some(50, 3)
    body = bytearray(good[HEADER_SIZE:])
    at = body.index(b"value 20")
    body[at - 1] = 80  # Its value's length.
    header = read_header(good)._replace(attributes=codec)
    log = some(3) + with_right_crc(header, compress(codec, body)) + some(1, 53)
    pieces = Decoder(wanted()).pieces(memoryview(log), ())
    assert [row[2] for row in rows_of(next(pieces).batch)] == [0, 1, 2]
    with pytest.raises(BrokenRecords) as caught:
        next(pieces)
    assert (caught.value.offset, caught.value.next_offset, caught.value.codec) == (23, 53, CODEC_NAMES[codec])
    assert "record 20 of the batch" in caught.value.reason


def test_pieces_before_a_broken_batch_are_given_before_it_is_reported() -> None:
    reader = Decoder(wanted())
    pieces = reader.pieces(memoryview(some(3) + some(2, 3) + with_wrong_crc(some(3, 5))), ())
    assert [row[2] for row in rows_of(next(pieces).batch)] == [0, 1, 2, 3, 4]
    assert reader.next_offset == 5
    with pytest.raises(BrokenRecords):
        next(pieces)
    assert reader.next_offset == 5


def test_a_feed_that_fails_has_moved_nothing() -> None:
    reader = Decoder(wanted())
    with pytest.raises(BrokenRecords):
        reader.feed(memoryview(some(3) + with_wrong_crc(some(3, 3))), ())
    assert reader.next_offset == 0
    assert reader.feed(memoryview(some(3) + some(3, 3)), ()).batch.num_rows == 6


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (header_of(0, 9, 4), "record 3"),  # One more than there are.
        (header_of(0, 9, 2), "bytes follow the last record"),
        (header_of(0, 9, 0), "0 records in"),
        (header_of(0, 9, -1), "-1 records in"),
        (header_of(0, 9, 2**31 - 1), "2147483647 records in"),
        (header_of(0, 1, 3), "record 2 of the batch says it is offset 2"),
    ],
)
def test_a_header_that_contradicts_the_records_is_reported(header: BatchHeader, reason: str) -> None:
    with pytest.raises(BrokenRecords, match=reason):
        decode(memoryview(with_right_crc(header, some(3)[HEADER_SIZE:])), wanted())


def test_offsets_that_do_not_rise_are_reported() -> None:
    with pytest.raises(BrokenRecords, match="offset 3, unknown codec: a batch of offsets 1 to 2 follows 2"):
        decode(memoryview(some(3) + some(2, 1)), wanted())
    twice = some(1)[HEADER_SIZE:] * 2
    with pytest.raises(BrokenRecords, match="offset 1, uncompressed: record 1 of the batch says it is offset 0"):
        decode(memoryview(with_right_crc(header_of(0, 1, 2), twice)), wanted())


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (bytes(8) + (20).to_bytes(4) + bytes(4) + b"\x02" + bytes(100), "a batch of 32 bytes"),
        (bytes(8) + (-20).to_bytes(4, signed=True) + bytes(100), "no message of format 0 has -8 bytes"),
        (bytes(8) + (50).to_bytes(4) + bytes(4) + b"\x03" + bytes(100), "message format 3"),
        (bytes(8) + (6).to_bytes(4) + bytes(100), "no message of format 0 has 18 bytes"),
    ],
)
def test_what_cannot_be_a_batch_is_reported_and_nothing_behind_it_is_believed(tail: bytes, reason: str) -> None:
    with pytest.raises(BrokenRecords, match=reason) as caught:
        decode(memoryview(some(3) + (3).to_bytes(8) + tail[8:]), wanted())
    assert (caught.value.offset, caught.value.next_offset) == (3, None)


def test_a_broken_old_message_is_reported() -> None:
    log = bytearray(write_messages([Record(5, TIME, b"k", b"value")], 1))
    log[-1] ^= 1
    with pytest.raises(BrokenRecords, match="offset 5, uncompressed: a message's CRC is wrong"):
        decode(memoryview(log), wanted(5))


def test_what_is_reported_and_what_is_wanted_can_be_pickled() -> None:
    broken = BrokenRecords("views", 3, 17, codec=ZSTD, reason="the CRC is wrong", next_offset=20)
    again = pickle.loads(pickle.dumps(broken))
    assert isinstance(again, BrokenRecords)
    assert (str(again), again.offset, again.next_offset) == (str(broken), 17, 20)
    assert pickle.loads(pickle.dumps(wanted())) == wanted()
    assert wanted().columns == ALL
