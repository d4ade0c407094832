"""Message formats 0 and 1, against the codecs of kafka-python and aiokafka."""

from __future__ import annotations

import struct
import zlib

import pytest
from aiokafka.record._crecords.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy, legacy_writing, message_down_conversion
from sordini.protocol.records.batch import Record, read_header, stamp
from sordini.protocol.records.compression import compress
from sordini.protocol.records.control import COMMIT, Marker, build_marker
from sordini.protocol.records.expansion import decompress
from tests.support.builders import a_batch, some_records, writable
from tests.support.parts import examples

BOUND = 1 << 20


def read_all(data: bytes, bound: int = BOUND) -> list[Record]:
    return [record for entry in legacy.entries(data) for record in legacy.read_entry(data, entry, bound)]


def refused(data: bytes, bound: int = BOUND) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        read_all(data, bound)
    return refusal.value.code


def as_format(records: list[Record], magic: int) -> list[Record]:
    return [record._replace(headers=(), timestamp=record.timestamp if magic else -1) for record in records]


def a_message(value: bytes | None, *, magic: int = 1, attributes: int = 0, offset: int = 0, tail: bytes = b"") -> bytes:
    content = bytes([magic, attributes]) + (struct.pack(">q", 77) if magic else b"") + struct.pack(">i", -1)
    content += struct.pack(">i", -1 if value is None else len(value)) + (value or b"") + tail
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


values = st.none() | st.binary(max_size=100)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(values, values, st.integers(0, 2**40)), min_size=1, max_size=8),
    st.sampled_from([0, 1]),
    st.sampled_from([0, 1, 2, 3]),
    st.integers(0, 2**40),
)
def test_messages_read_back_as_they_were_written(
    contents: list[tuple[bytes | None, bytes | None, int]], magic: int, codec: int, base: int
) -> None:
    records = [Record(base + index, time, key, value) for index, (key, value, time) in enumerate(contents)]
    written = legacy_writing.write_messages(records, magic, codec=codec)
    assert len(list(legacy.entries(written))) == (1 if codec else len(records))
    assert read_all(written) == as_format(records, magic)


# aiokafka knows no lz4 in format 0.
@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_aiokafka_reads_what_we_write(magic: int, codec: int) -> None:
    records = some_records(20, base_offset=500, key=b"k")
    theirs = MemoryRecords(legacy_writing.write_messages(records, magic, codec=codec))
    read: list[Record] = []
    while (batch := theirs.next_batch()) is not None:
        assert batch.validate_crc()
        read += [Record(r.offset, r.timestamp if magic else -1, r.key, r.value) for r in batch]
    assert read == as_format(records, magic)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_we_read_what_aiokafka_writes(magic: int, codec: int) -> None:
    records = some_records(20, key=b"k")
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value)
    assert read_all(bytes(builder.build())) == as_format(records, magic)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_offsets_survive_down_conversion_and_headers_do_not(magic: int, codec: int) -> None:
    first = [record._replace(headers=(("h", b"v"),)) for record in some_records(3, base_offset=40)]
    second = some_records(2, base_offset=50)
    log = a_batch(first, base_offset=40, codec=codec) + a_batch(second, base_offset=50, codec=codec)
    assert read_all(message_down_conversion.down_convert(log, magic)) == as_format([*first, *second], magic)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_around_the_fetch_offset_loses_its_first_messages_unless_compressed(magic: int) -> None:
    records = some_records(5, base_offset=10)
    plain = message_down_conversion.down_convert(a_batch(records, base_offset=10), magic, start=13)
    assert [record.offset for record in read_all(plain)] == [13, 14]
    packed = message_down_conversion.down_convert(a_batch(records, base_offset=10, codec=1), magic, start=13)
    assert [record.offset for record in read_all(packed)] == [10, 11, 12, 13, 14]
    assert message_down_conversion.down_convert(a_batch(records, base_offset=10), magic, start=15) == b""


def test_gaps_that_compaction_left_stay_in_a_wrapper_of_format_1() -> None:
    records = [Record(10, 1, None, b"a"), Record(14, 1, None, b"b"), Record(15, 1, None, b"c")]
    converted = message_down_conversion.down_convert(a_batch(records, base_offset=10, codec=3), 1)
    assert [record.offset for record in read_all(converted)] == [10, 14, 15]
    [wrapper] = legacy.entries(converted)
    assert struct.unpack_from(">q", converted, wrapper.position) == (15,)


@pytest.mark.parametrize(("magic", "first"), [(0, 10), (1, 0)])
def test_offsets_inside_a_wrapper_are_absolute_in_format_0_and_count_from_0_in_format_1(magic: int, first: int) -> None:
    wrapper = legacy_writing.write_messages(some_records(3, base_offset=10), magic, codec=1)
    value = wrapper[legacy._FIELDS_START[magic] + 8 :]
    inner = decompress(1, value)
    assert [struct.unpack_from(">q", inner, one.position)[0] for one in legacy.entries(inner)] == list(
        range(first, first + 3)
    )


def test_control_batches_are_left_out_and_a_cut_tail_is_dropped() -> None:
    marker = build_marker(Marker(COMMIT, 0), producer_id=1, producer_epoch=0, timestamp_ms=1, base_offset=3)
    log = a_batch(3) + marker + a_batch(2, base_offset=4)
    assert [record.offset for record in read_all(message_down_conversion.down_convert(log, 1))] == [0, 1, 2, 4, 5]
    assert [record.offset for record in read_all(message_down_conversion.down_convert(log[:-1], 1))] == [0, 1, 2]
    assert message_down_conversion.down_convert(log[:30], 1) == b""


def test_the_logs_own_time_goes_into_the_messages() -> None:
    records = [Record(index, 99, None, b"v") for index in range(3)]
    for codec in (0, 1):
        converted = message_down_conversion.down_convert(a_batch(records, codec=codec, log_append_time=True), 1)
        assert read_all(converted) == records
        assert converted[17] & 0x08


def test_what_is_old_enough_is_copied_and_format_1_becomes_0() -> None:
    old = legacy_writing.write_messages(some_records(3), 0)
    newer = legacy_writing.write_messages(some_records(3, base_offset=3), 1, codec=1)
    assert message_down_conversion.down_convert(old + newer, 1) == old + newer
    converted = message_down_conversion.down_convert(old + newer, 0)
    assert converted.startswith(old)
    assert read_all(converted) == as_format(some_records(6), 0)


def test_zstd_has_no_old_format() -> None:
    with pytest.raises(BrokerError) as refusal:
        message_down_conversion.down_convert(a_batch(codec=4), 1)
    assert refusal.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_a_stamped_batch_converts_with_the_offsets_it_was_given() -> None:
    buffer = writable(a_batch(3, codec=2))
    stamp(buffer, 0, 1000, 5)
    assert [record.offset for record in read_all(message_down_conversion.down_convert(buffer, 0))] == [1000, 1001, 1002]
    assert read_header(buffer).base_offset == 1000


def test_a_wrapper_inside_a_wrapper_is_invalid() -> None:
    inner = a_message(compress(1, a_message(b"v")), attributes=1)
    assert refused(a_message(compress(1, inner), attributes=1)) == ErrorCode.INVALID_RECORD


def test_a_wrapper_that_wraps_nothing_is_invalid() -> None:
    assert refused(a_message(None, attributes=1)) == ErrorCode.INVALID_RECORD
    assert refused(a_message(compress(1, b""), attributes=1)) == ErrorCode.INVALID_RECORD
    assert refused(a_message(compress(1, a_message(b"v")[:-1]), attributes=1)) == ErrorCode.INVALID_RECORD


def test_a_wrapper_of_another_format_than_its_messages_is_invalid() -> None:
    assert refused(a_message(compress(1, a_message(b"v", magic=0)), attributes=1)) == ErrorCode.INVALID_RECORD


def test_offsets_inside_a_wrapper_of_format_1_count_back_from_its_own() -> None:
    inner = b"".join(a_message(b"v", offset=offset) for offset in range(3))
    assert [r.offset for r in read_all(a_message(compress(1, inner), attributes=1, offset=102))] == [100, 101, 102]
    # Some producers leave the wrapper's offset 0.
    assert [r.offset for r in read_all(a_message(compress(1, inner), attributes=1))] == [0, 1, 2]
    assert refused(a_message(compress(1, inner), attributes=1, offset=1)) == ErrorCode.INVALID_RECORD


def test_a_wrapper_with_the_logs_time_gives_it_to_its_messages() -> None:
    wrapped = a_message(compress(1, legacy_writing.write_messages(some_records(2), 1)), attributes=0x09)
    assert [record.timestamp for record in read_all(wrapped)] == [77, 77]


def test_a_bomb_in_a_wrapper_is_too_large() -> None:
    bomb = a_message(compress(1, bytes(3_000_000)), attributes=1)
    assert refused(bomb) == ErrorCode.MESSAGE_TOO_LARGE


def test_codecs_the_old_formats_do_not_have_are_unsupported() -> None:
    for codec in (4, 5, 7):
        assert refused(a_message(b"x", attributes=codec)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_damaged_messages_are_corrupt() -> None:
    message = a_message(b"value")
    assert refused(message[:-1] + b"x") == ErrorCode.CORRUPT_MESSAGE
    assert refused(a_message(b"value", tail=b"more")) == ErrorCode.CORRUPT_MESSAGE
    assert refused(a_message(compress(1, message[:-1] + b"x"), attributes=1)) == ErrorCode.CORRUPT_MESSAGE
    short = b"\x01\x00" + bytes(8)
    assert refused(struct.pack(">qiI", 0, 14, zlib.crc32(short)) + short) == ErrorCode.CORRUPT_MESSAGE
    beyond = b"\x00\x00" + struct.pack(">ii", 2**31 - 1, 0)
    assert refused(struct.pack(">qiI", 0, 14, zlib.crc32(beyond)) + beyond) == ErrorCode.CORRUPT_MESSAGE
    for length in (-1, 0, 13):
        assert refused(struct.pack(">qi", 0, length) + bytes(30)) == ErrorCode.CORRUPT_MESSAGE


@settings(deadline=None, max_examples=examples(80))
@given(st.sampled_from([0, 1]), st.sampled_from([0, 1, 2, 3]), st.data())
def test_a_flipped_bit_is_corrupt_or_only_moves_an_offset(magic: int, codec: int, data: st.DataObject) -> None:
    written = bytearray(legacy_writing.write_messages(some_records(1), magic, codec=codec))
    at = data.draw(st.integers(0, len(written) - 1))
    written[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read_all(bytes(written))
    except BrokerError as refusal:
        code = refusal.code
    else:
        code = ErrorCode.NONE
    # A size that is too long leaves no whole message; the offset stands outside the CRC.
    assert code in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD} or at < 12 or written[16] == 2


def test_aiokafka_agrees_on_the_checksum_of_a_message() -> None:
    assert LegacyRecordBatch(legacy_writing.write_messages(some_records(1), 1), 1).validate_crc()


@pytest.mark.parametrize("magic", [0, 1])
def test_what_cannot_be_a_whole_message_has_no_header(magic: int) -> None:
    data = legacy_writing.write_messages([Record(0, 5, None, None)], magic)
    assert len(data) == (26, 34)[magic]
    header = legacy.message_header(data, 0, len(data))
    assert header is not None
    assert (header.size, header.record_count, header.max_timestamp) == (len(data), 1, (-1, 5)[magic])
    assert legacy.message_header(data, 0, len(data) - 1) is None
    assert legacy.message_header(data[:-1] if magic == 0 else data[:25], 0, 100) is None
    for at, value in ((0, 0xFF), (16, 2), (16, 0xFF), (11, data[11] - 1)):
        changed = bytearray(data)
        changed[at] = value
        assert legacy.message_header(bytes(changed), 0, len(data)) is None


def read_deep(data: bytes, bound: int = BOUND) -> list[Record]:
    header = legacy.message_header(data, 0, len(data))
    assert header is not None
    return legacy.read_any(data, header, bound)


def test_how_deep_wrappers_nest_is_bounded_and_so_is_all_they_hold() -> None:
    data = a_message(b"v")
    for _ in range(legacy.DEPTH_READ):
        data = a_message(compress(1, data), attributes=1)
    assert len(read_deep(data)) == 1
    with pytest.raises(BrokerError) as refusal:
        read_deep(a_message(compress(1, data), attributes=1))
    assert refusal.value.code == ErrorCode.INVALID_RECORD
    inner = a_message(compress(1, a_message(bytes(6000))), attributes=1)
    bomb = a_message(compress(1, inner * 20), attributes=1)
    assert len(read_deep(bomb, 200_000)) == 20
    with pytest.raises(BrokerError) as refusal:
        read_deep(bomb, 100_000)
    assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_with_offsets_beyond_sixty_four_bits_cannot_be_converted(codec: int) -> None:
    batch = bytearray(a_batch(some_records(3), codec=codec))
    stamp(batch, 0, 2**63 - 1, 0)
    with pytest.raises(BrokerError, match="beyond 64 bits") as refusal:
        message_down_conversion.down_convert(bytes(batch), 1)
    assert refusal.value.code == ErrorCode.CORRUPT_MESSAGE
