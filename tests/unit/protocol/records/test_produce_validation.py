"""What a Produce request may bring in, and the code with which everything else is refused."""

from __future__ import annotations

import contextlib
import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records.batch import (
    HEADER_SIZE,
    Record,
    assemble_batch,
    build_batch,
    crc_is_right,
    read_header,
    read_records,
)
from sordini.protocol.records.compression import compress
from sordini.protocol.records.control import COMMIT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules
from sordini.protocol.records.produced_records import accept_own_batch, check_produced
from tests.support.builders import BASE_TIMESTAMP, RULES, a_batch, an_idempotent_batch, some_records, writable
from tests.support.parts import examples

NOW = BASE_TIMESTAMP + 5000
STRICT = RULES._replace(check_compressed=True)


def check(data: bytes, rules: ProduceRules = RULES, version: int = 9) -> CheckedBatches:
    return check_produced(writable(data), rules, NOW, produce_version=version)


def refused(data: bytes, rules: ProduceRules = RULES, version: int = 9) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        check(data, rules, version)
    return refusal.value.code


def changed(batch: bytes, **fields: int) -> bytes:
    """The batch with header fields overwritten and a right CRC."""
    return bytes(assemble_batch(read_header(batch)._replace(**fields), batch[HEADER_SIZE:]))


def records_of(checked: CheckedBatches) -> list[Record]:
    [(position, header)] = checked.batches
    assert position == 0
    assert header == read_header(checked.buffer)
    assert len(checked.buffer) == header.size
    assert crc_is_right(checked.buffer, 0, header)
    assert not checked.buffer.readonly
    return list(read_records(checked.buffer, header))


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("rules", [RULES, STRICT])
@pytest.mark.parametrize("count", [1, 5, 100])
def test_a_right_batch_is_taken_as_it_is_and_not_copied(codec: int, rules: ProduceRules, count: int) -> None:
    batch = writable(an_idempotent_batch(count, codec=codec))
    before = bytes(batch)
    checked = check_produced(batch, rules, NOW, produce_version=9)
    assert checked.buffer.obj is batch.obj
    assert bytes(batch) == before
    assert records_of(checked) == some_records(count)


def test_a_batch_in_bytes_that_cannot_be_written_is_copied() -> None:
    assert records_of(check_produced(memoryview(a_batch()), RULES, NOW, produce_version=9)) == some_records()


@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_any_flipped_bit_is_refused_or_outside_what_a_producer_says(data: st.DataObject) -> None:
    batch = bytearray(a_batch(4, value=b"v" * 30))
    at = data.draw(st.integers(0, len(batch) - 1))
    batch[at] ^= 1 << data.draw(st.integers(0, 7))
    if 12 <= at < 16:  # The leader epoch, which the broker overwrites.
        assert records_of(check(bytes(batch))) == some_records(4, value=b"v" * 30)
    else:
        assert refused(bytes(batch)) in {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


@settings(deadline=None, max_examples=examples(60))
@given(st.binary(max_size=100), st.integers(0, 13))
def test_no_bytes_fail_in_another_way(data: bytes, version: int) -> None:
    with contextlib.suppress(BrokerError):
        check(data, STRICT, version)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_what_is_not_one_whole_batch_is_invalid(version: int) -> None:
    batch = a_batch()
    for wrong in (b"", batch[:11], batch[:16], batch[:60], batch[:-1], batch + batch):
        assert refused(wrong, version=version) == ErrorCode.INVALID_RECORD


def test_a_whole_batch_followed_by_part_of_one_is_taken_alone() -> None:
    batch = a_batch()
    for tail in (b"\x00" * 5, batch[:30], batch[:-1]):
        assert bytes(check(batch + tail).buffer) == batch


def test_wrong_sizes_and_formats_are_corrupt() -> None:
    batch = a_batch()
    assert refused(batch[:8] + struct.pack(">i", 13) + batch[12:]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(batch[:8] + struct.pack(">i", -1) + batch[12:]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(batch[:8] + struct.pack(">i", 30) + batch[12:42]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(batch[:16] + b"\x03" + batch[17:]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(batch[:16] + b"\xff" + batch[17:]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(batch + b"\x00" * 20) == ErrorCode.CORRUPT_MESSAGE


def test_a_wrong_crc_is_corrupt() -> None:
    batch = bytearray(a_batch())
    batch[20] ^= 1
    assert refused(bytes(batch)) == ErrorCode.CORRUPT_MESSAGE


LIES: dict[str, dict[str, int]] = {
    "a count of two to the thirty-one": {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 2},
    "no count": {"record_count": -1, "last_offset_delta": -2},
    "count zero": {"record_count": 0, "last_offset_delta": -1},
    "a wrong count": {"record_count": 4, "last_offset_delta": 3},
    "a wrong last offset": {"last_offset_delta": 5},
    "a base offset": {"base_offset": 1},
    "a control batch": {"attributes": 0x20},
    "a producer without a sequence": {"producer_id": 1, "producer_epoch": 0, "base_sequence": -1},
    "a producer without an epoch": {"producer_id": 1, "producer_epoch": -1, "base_sequence": 0},
    "a transaction without a producer": {"attributes": 0x10},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_is_invalid(lie: str) -> None:
    assert refused(changed(a_batch(), **LIES[lie])) == ErrorCode.INVALID_RECORD


def test_a_marker_from_a_client_is_invalid() -> None:
    marker = build_marker(Marker(COMMIT, 1), producer_id=1, producer_epoch=0, timestamp_ms=1)
    assert refused(changed(marker, base_sequence=0)) == ErrorCode.INVALID_RECORD


def test_the_size_limit_counts_the_whole_batch_and_is_exact() -> None:
    batch = a_batch()
    check(batch, RULES._replace(message_bytes_max=len(batch)))
    assert refused(batch, RULES._replace(message_bytes_max=len(batch) - 1)) == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_version_7() -> None:
    batch = a_batch(codec=4)
    check(batch, version=7)
    assert refused(batch, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_unsupported(codec: int) -> None:
    assert refused(changed(a_batch(), attributes=codec)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_garbage_behind_a_good_beginning_passes_unless_it_is_opened(codec: int) -> None:
    good = a_batch(codec=codec)
    batch = bytes(assemble_batch(read_header(good), good[HEADER_SIZE : HEADER_SIZE + 4] + b"garbage"))
    check(batch)
    for rules in (STRICT, RULES._replace(key_required=True), RULES._replace(codec=0)):
        assert refused(batch, rules) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_records_that_lie_are_invalid_when_opened(codec: int) -> None:
    batch = a_batch(5, codec=codec)
    lying = changed(batch, record_count=6, last_offset_delta=5)
    assert refused(lying, STRICT) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_is_too_large_when_opened(codec: int) -> None:
    batch = bytes(assemble_batch(read_header(a_batch(1, codec=codec)), compress(codec, bytes(5_000_000))))
    rules = STRICT._replace(expanded_bytes_max=1_000_000)
    assert refused(batch, rules) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_record_with_two_to_the_thirty_headers_is_invalid() -> None:
    record = b"\x00\x00\x00\x01\x01" + b"\x80\x80\x80\x80\x08"
    body = bytes([len(record) * 2]) + record
    assert refused(bytes(assemble_batch(read_header(a_batch(1)), body))) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [0, 3])
def test_a_compacted_topic_wants_keys(codec: int) -> None:
    rules = RULES._replace(key_required=True)
    records_of(check(a_batch(50, key=b"k", codec=codec), rules))
    assert refused(a_batch(50, codec=codec), rules) == ErrorCode.INVALID_RECORD
    one_without = [*some_records(50, key=b"k"), Record(50, BASE_TIMESTAMP, None, b"v")]
    assert refused(a_batch(one_without, codec=codec), rules) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("count", [3, 40])
def test_times_too_far_from_now_are_refused(codec: int, count: int) -> None:
    rules = STRICT._replace(timestamp_before_ms_max=1000, timestamp_after_ms_max=100)
    for timestamp in (NOW - 1000, NOW + 100 - count):
        records_of(check(a_batch(count, timestamp=timestamp, codec=codec), rules))
    for timestamp in (NOW - 1001, NOW + 102 - count):
        assert refused(a_batch(count, timestamp=timestamp, codec=codec), rules) == ErrorCode.INVALID_TIMESTAMP
    # The log's own time makes the producer's meaningless.
    check(a_batch(count, timestamp=5, codec=codec), rules._replace(log_append_time=True))


def test_records_without_a_time_are_within_any_limit() -> None:
    rules = RULES._replace(timestamp_before_ms_max=1000, timestamp_after_ms_max=100)
    check(a_batch([Record(0, -1, None, b""), Record(1, -1, None, b"")]), rules)
    check(a_batch([Record(0, -1, None, b""), Record(1, NOW, None, b"")]), rules)
    mixed = [Record(0, -1, None, b""), Record(1, NOW - 2000, None, b""), Record(2, NOW, None, b"")]
    assert refused(a_batch(mixed), rules) == ErrorCode.INVALID_TIMESTAMP
    check(a_batch(mixed))


def test_a_producer_may_not_set_the_log_append_time() -> None:
    batch = a_batch(log_append_time=True)
    assert refused(batch) == ErrorCode.INVALID_TIMESTAMP
    assert refused(batch, RULES._replace(log_append_time=True)) == ErrorCode.INVALID_TIMESTAMP


def test_a_refusal_says_which_records_are_wrong() -> None:
    keys = [b"a", None, b"b", None]
    batch = a_batch([Record(index, 5, key, b"v") for index, key in enumerate(keys)])
    with pytest.raises(RecordsRefused) as refusal:
        check(batch, RULES._replace(key_required=True))
    assert [index for index, _ in refusal.value.records] == [1, 3]
    times = [NOW, 5, -1, NOW + 10]
    batch = a_batch([Record(index, time, b"k", b"v") for index, time in enumerate(times)])
    with pytest.raises(RecordsRefused) as refusal:
        check(batch, RULES._replace(timestamp_before_ms_max=100))
    assert [index for index, _ in refusal.value.records] == [1]
    assert "timestamp 5" in refusal.value.records[0][1]


@pytest.mark.parametrize("name", [b"\xd9", b"h"])
def test_a_refusal_says_which_of_many_records_are_wrong_whatever_their_headers_are_called(name: bytes) -> None:
    """More than the walk takes: read by foreign code, which wants names of headers to be UTF-8."""
    headers = ((name.decode(errors="surrogateescape"), b"x"),)
    records = [Record(index, 5, None if index in (2, 19) else b"k", bytes(index), headers) for index in range(20)]
    with pytest.raises(RecordsRefused) as refusal:
        check(a_batch(records), RULES._replace(key_required=True))
    assert [index for index, _ in refusal.value.records] == [2, 19]


def test_times_beyond_sixty_four_bits_are_refused() -> None:
    batch = a_batch([Record(0, 2**63 - 1, None, b"")])
    check(batch)
    over = changed(a_batch([Record(0, 5, None, b""), Record(1, 6, None, b"")]), base_timestamp=2**63 - 1)
    assert refused(over) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("count", [3, 40])
def test_a_wrong_max_timestamp_is_set_right(count: int) -> None:
    batch = changed(a_batch(count), max_timestamp=2**62)
    checked = check(batch)
    assert records_of(checked) == some_records(count)
    assert checked.batches[0][1].max_timestamp == BASE_TIMESTAMP + count - 1


@pytest.mark.parametrize("codec", range(5))
def test_the_logs_own_time_is_written_into_the_header(codec: int) -> None:
    checked = check(a_batch(5, codec=codec), RULES._replace(log_append_time=True))
    assert records_of(checked) == [record._replace(timestamp=NOW) for record in some_records(5)]
    assert checked.batches[0][1].is_log_append_time


@pytest.mark.parametrize("source", range(5))
@pytest.mark.parametrize("target", range(5))
def test_a_topics_codec_replaces_the_producers(source: int, target: int) -> None:
    batch = an_idempotent_batch(30, codec=source, transactional=True)
    checked = check(batch, RULES._replace(codec=target, codec_level=None))
    assert records_of(checked) == some_records(30)
    header = checked.batches[0][1]
    assert header.codec == target
    assert header._replace(attributes=0, size=0, crc=0) == read_header(batch)._replace(attributes=0, size=0, crc=0)
    assert header.is_transactional


def test_recompression_obeys_the_level_the_size_limit_and_the_append_time() -> None:
    batch = a_batch(300, value=b"some text that compresses well " * 5)
    rules = RULES._replace(codec=1, log_append_time=True)
    quick = check(batch, rules._replace(codec_level=1))
    small = check(batch, rules._replace(codec_level=9))
    assert len(small.buffer) < len(quick.buffer)
    assert {record.timestamp for record in records_of(small)} == {NOW}
    compressed = bytes(small.buffer)
    fresh = a_batch(300, value=b"some text that compresses well " * 5, codec=1)
    rules = RULES._replace(codec=0, message_bytes_max=len(compressed) + 5000)
    assert refused(fresh, rules) == ErrorCode.MESSAGE_TOO_LARGE


def as_messages(magic: int, count: int = 3, **options: object) -> bytes:
    return write_messages(some_records(count, key=b"k"), magic, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4))
def test_old_messages_become_one_batch_in_their_codec(version: int, magic: int, codec: int) -> None:
    checked = check(as_messages(magic, codec=codec), version=version)
    expected = some_records(key=b"k")
    if magic == 0:
        expected = [record._replace(timestamp=-1) for record in expected]
    assert records_of(checked) == expected
    assert checked.batches[0][1].codec == codec


def test_old_messages_obey_the_topics_rules() -> None:
    checked = check(as_messages(1, codec=1), RULES._replace(codec=4, log_append_time=True), version=2)
    assert checked.batches[0][1].codec == 4
    assert {record.timestamp for record in records_of(checked)} == {NOW}
    keyless = write_messages(some_records(), 1)
    assert refused(keyless, RULES._replace(key_required=True), 2) == ErrorCode.INVALID_RECORD
    rules = RULES._replace(timestamp_before_ms_max=1)
    assert refused(keyless, rules, 2) == ErrorCode.INVALID_TIMESTAMP
    records_of(check(write_messages(some_records(), 0), rules, 2))
    before_time = write_messages([Record(0, -2, b"k", b"v")], 1)
    assert refused(before_time, version=2) == ErrorCode.INVALID_TIMESTAMP
    assert refused(as_messages(1), RULES._replace(message_bytes_max=20), 2) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("version", [3, 9])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_are_invalid_from_produce_version_3_on(version: int, magic: int) -> None:
    assert refused(as_messages(magic), version=version) == ErrorCode.INVALID_RECORD


def test_a_message_set_that_holds_nothing_whole_is_nothing() -> None:
    for nothing in (b"", as_messages(1)[:10], as_messages(1, 1)[:-1]):
        assert check(nothing, version=2).batches == []


def test_message_sets_of_two_formats_or_two_wrappers_are_invalid() -> None:
    assert refused(as_messages(0) + as_messages(1), version=2) == ErrorCode.INVALID_RECORD
    assert refused(as_messages(1, codec=1) * 2, version=2) == ErrorCode.INVALID_RECORD
    assert refused(as_messages(1) + as_messages(1, codec=1), version=2) == ErrorCode.INVALID_RECORD
    assert refused(as_messages(1) + a_batch(), version=2) == ErrorCode.INVALID_RECORD


def test_a_batch_in_an_old_produce_request_is_taken() -> None:
    assert records_of(check(a_batch(), version=2)) == some_records()


def test_check_takes_what_build_makes_of_thousands_of_records() -> None:
    records = [Record(index, NOW + index // 100, b"%d" % index, bytes(index % 300)) for index in range(3000)]
    batch = build_batch(records)
    assert crc32c(batch[21:]) == read_header(batch).crc
    assert records_of(check(batch)) == records


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_closed_batch_must_begin_as_its_codec_does(codec: int) -> None:
    batch = a_batch(codec=codec)
    check(batch)
    header = read_header(batch)
    for body in (b"", b"\x00" * 40, b"garbage!" * 4):
        assert refused(bytes(assemble_batch(header, body))) == ErrorCode.CORRUPT_MESSAGE


def test_a_batch_of_the_brokers_own_is_taken_as_it_is_unless_it_is_too_large() -> None:
    batch = bytearray(build_batch([Record(0, 1000, b"k", b"v")]))
    taken = accept_own_batch(batch, RULES, 1000)
    assert bytes(taken.buffer) == bytes(batch)
    assert [(position, header.record_count) for position, header in taken.batches] == [(0, 1)]
    with pytest.raises(BrokerError) as refusal:
        accept_own_batch(batch, RULES._replace(message_bytes_max=len(batch) - 1), 1000)
    assert refusal.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_of_the_brokers_own_follows_the_topics_codec_and_clock() -> None:
    batch = build_batch([Record(0, 1000, b"k", b"v" * 1000)])
    gzipped = accept_own_batch(bytearray(batch), RULES._replace(codec=1), 1000)
    assert gzipped.batches[0][1].codec == 1
    assert len(gzipped.buffer) < len(batch)
    dated = accept_own_batch(bytearray(batch), RULES._replace(log_append_time=True), 7777)
    assert dated.batches[0][1].max_timestamp == 7777
