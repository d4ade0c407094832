"""What is sent or stored in the message formats before batches: conversions, what stays as it is, what is refused."""

from __future__ import annotations

import gzip
import itertools
import random
import struct
import zlib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode, RecordsRefused
from sordini.protocol.records import legacy, legacy_writing, message_down_conversion
from sordini.protocol.records.batch import Record, build_batch, crc_is_right, read_header
from sordini.protocol.records.compression import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from sordini.protocol.records.legacy_validation import LegacyMessages
from sordini.protocol.records.produce_validation import CheckedBatches, ProduceRules
from sordini.protocol.records.produced_records import accept_own_batch, check_produced
from tests.support.builders import BASE_TIMESTAMP, RULES, a_batch, an_idempotent_batch, some_records, writable
from tests.support.parts import examples

NOW = BASE_TIMESTAMP + 5000
OLD_CODECS = (NO_CODEC, GZIP, SNAPPY, LZ4)
BASE = 5_000


def sent(records: Sequence[Record], magic: int, codec: int = NO_CODEC) -> bytes:
    numbered = [record._replace(offset=number) for number, record in enumerate(records)]
    return (
        build_batch(numbered, codec=codec)
        if magic == 2
        else legacy_writing.write_messages(numbered, magic, codec=codec)
    )


def check(data: bytes, rules: ProduceRules, *, version: int | None = None) -> CheckedBatches | LegacyMessages:
    magic = data[16]
    return check_produced(
        writable(data), rules, NOW, produce_version=(9 if magic == 2 else 2) if version is None else version
    )


def stored(data: bytes, rules: ProduceRules, base: int = BASE) -> bytes:
    """What a log that ends at `base` would hold of it."""
    checked = check(data, rules)
    assert isinstance(checked, LegacyMessages)
    end = checked.assign_offsets(base)
    described = [header for _, header in checked.batches]
    assert described[0].base_offset == base
    assert described[-1].next_offset == end
    assert all(after.base_offset == before.next_offset for before, after in itertools.pairwise(described))
    return bytes(checked.buffer)


def read_all(data: bytes) -> list[Record]:
    """Every record, all CRCs checked."""
    found: list[Record] = []
    for entry in legacy.entries(data):
        piece = data[entry.position : entry.position + entry.size]
        header = read_header(piece) if entry.magic == 2 else legacy.message_header(piece, 0, entry.size)
        assert header is not None
        assert crc_is_right(piece, 0, header)
        found += legacy.read_any(piece, header)
    return found


def refused(data: bytes, rules: ProduceRules) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        stored(data, rules)
    return refusal.value.code


strings = st.none() | st.binary(max_size=60)
contents = st.lists(st.tuples(strings, strings, st.integers(-1, 2**40)), min_size=1, max_size=8)
codecs = st.sampled_from(OLD_CODECS)


@settings(max_examples=examples(150))
@given(
    contents,
    st.sampled_from([0, 1, 2]),
    codecs,
    st.sampled_from([0, 1]),
    st.none() | codecs,
    st.booleans(),
    st.integers(0, 2**50),
)
def test_any_records_of_any_format_and_codec_are_stored_in_any_old_format_and_read_back(
    records: list[tuple[bytes | None, bytes | None, int]],
    source: int,
    codec: int,
    target: int,
    topic_codec: int | None,
    log_append_time: bool,
    base: int,
) -> None:
    given_records = [Record(0, time, key, value) for key, value, time in records]
    rules = RULES._replace(magic=target, codec=topic_codec, log_append_time=log_append_time)
    data = stored(sent(given_records, source, codec), rules, base)
    stands = list(legacy.entries(data))
    used = codec if topic_codec is None else topic_codec
    assert {entry.magic for entry in stands} == {target}
    assert {legacy.codec_of(data, entry) for entry in stands} == {used}
    assert len(stands) == (len(records) if used == NO_CODEC else 1)
    back = read_all(data)
    assert [(record.key, record.value) for record in back] == [(key, value) for key, value, _ in records]
    assert [record.offset for record in back] == list(range(base, base + len(records)))
    times = [NOW if log_append_time else -1 if source == 0 else time for _, _, time in records]
    assert [record.timestamp for record in back] == (times if target else [-1] * len(records))
    # And up again: what an old log holds becomes a batch without another loss.
    for entry in stands:
        piece = data[entry.position : entry.position + entry.size]
        again = check(piece, RULES) if not (log_append_time and target) else None
        if again is not None:
            assert [(one.key, one.value, one.timestamp) for one in read_all(bytes(again.buffer))] == [
                (one.key, one.value, one.timestamp)
                for one in legacy.read_entry(piece, legacy.RecordSetEntry(0, entry.size, target), 1 << 20)
            ]


@settings(max_examples=examples(60))
@given(contents, st.sampled_from([0, 1, 2]), codecs, st.sampled_from([0, 1]))
def test_what_is_stored_converts_down_to_what_storing_it_in_the_older_format_gives(
    records: list[tuple[bytes | None, bytes | None, int]], source: int, codec: int, target: int
) -> None:
    given_records = [Record(0, time, key, value) for key, value, time in records]
    newer = stored(sent(given_records, source, codec), RULES._replace(magic=1))
    older = stored(sent(given_records, source, codec), RULES._replace(magic=target))
    assert read_all(message_down_conversion.down_convert(newer, target)) == read_all(older)


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_that_are_what_the_topic_stores_only_get_their_offsets(magic: int) -> None:
    data = sent(some_records(3, key=b"k"), magic)
    buffer = writable(data)
    checked = check_produced(buffer, RULES._replace(magic=magic), NOW, produce_version=2)
    assert isinstance(checked, LegacyMessages)
    assert checked.buffer.obj is buffer.obj
    checked.assign_offsets(BASE)
    for number, entry in enumerate(legacy.entries(data)):
        place = slice(entry.position + 8, entry.position + entry.size)
        assert bytes(buffer[place]) == data[place]
        assert struct.unpack_from(">q", buffer, entry.position) == (BASE + number,)


def test_a_wrapper_of_format_1_is_not_compressed_again_and_keeps_its_crc() -> None:
    for codec in (SNAPPY, LZ4):
        data = sent(some_records(3), 1, codec)
        assert stored(data, RULES._replace(magic=1))[8:] == data[8:]
    # In gzip's header a date that we would not write.
    theirs = wrapper(sent(some_records(3), 1), offset=2, timestamp=BASE_TIMESTAMP + 2, mtime=12345)
    after = stored(theirs, RULES._replace(magic=1))
    assert after[8:] == theirs[8:]
    assert struct.unpack_from(">q", after) == (BASE + 2,)


def wrapper(
    inner: bytes,
    magic: int = 1,
    *,
    offset: int = 0,
    timestamp: int = BASE_TIMESTAMP,
    attributes: int = GZIP,
    mtime: int = 0,
) -> bytes:
    data = gzip.compress(inner, mtime=mtime)
    times = struct.pack(">q", timestamp) if magic else b""
    content = b"".join((bytes([magic, attributes]), times, struct.pack(">ii", -1, len(data)), data))
    return struct.pack(">qiI", offset, len(content) + 4, zlib.crc32(content)) + content


def test_a_wrapper_gets_the_largest_time_of_its_messages_and_only_then_a_new_crc() -> None:
    inner = sent(some_records(3), 1)
    wrong = wrapper(inner, offset=2, timestamp=5)
    after = stored(wrong, RULES._replace(magic=1))
    header = legacy.message_header(after, 0, len(after))
    assert header is not None
    assert header.max_timestamp == BASE_TIMESTAMP + 2
    assert crc_is_right(after, 0, header)
    assert after[26:] == wrong[26:]
    right = wrapper(inner, offset=2, timestamp=BASE_TIMESTAMP + 2)
    assert stored(right, RULES._replace(magic=1))[8:] == right[8:]


@pytest.mark.parametrize("offset", [0, 100])
def test_a_wrapper_whose_messages_do_not_count_from_0_is_rewritten(offset: int) -> None:
    at_0 = b"".join(sent([record], 1) for record in some_records(3))
    data = wrapper(at_0 if offset == 0 else sent(some_records(3), 1), offset=offset)
    after = stored(data, RULES._replace(magic=1))
    assert after[34:] != data[34:]
    assert [record.offset for record in read_all(after)] == [BASE, BASE + 1, BASE + 2]


def test_a_wrapper_of_format_0_is_opened_and_every_message_given_its_absolute_offset() -> None:
    after = stored(sent(some_records(3), 0, GZIP), RULES._replace(magic=0))
    header = legacy.message_header(after, 0, len(after))
    assert header is not None
    assert header.last_offset == BASE + 2
    inner = zlib.decompress(after[26:], 31)
    assert [struct.unpack_from(">q", inner, one.position)[0] for one in legacy.entries(inner)] == [
        BASE,
        BASE + 1,
        BASE + 2,
    ]


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("magic", [0, 1])
def test_whatever_offset_a_client_gives_its_messages_means_nothing(magic: int, offset: int) -> None:
    data = bytearray(sent(some_records(2), magic))
    struct.pack_into(">q", data, 0, offset)
    assert stored(bytes(data), RULES._replace(magic=magic)) == stored(
        sent(some_records(2), magic), RULES._replace(magic=magic)
    )
    wrapped = bytearray(sent(some_records(2), magic, GZIP))
    struct.pack_into(">q", wrapped, 0, offset)
    for target in (0, 1):
        rules = RULES._replace(magic=target)
        if magic == 1 and offset < 0:
            assert refused(bytes(wrapped), rules) == ErrorCode.INVALID_RECORD
        else:
            assert [record.offset for record in read_all(stored(bytes(wrapped), rules))] == [BASE, BASE + 1]


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_the_logs_own_time_is_stamped_into_messages_and_wrappers_of_format_1(codec: int) -> None:
    rules = RULES._replace(magic=1, log_append_time=True)
    before = sent([Record(0, 5, b"k", b"v"), Record(0, -1, b"k", b"v")], 1, codec)
    after = stored(before, rules)
    for entry in legacy.entries(after):
        header = legacy.message_header(after, entry.position, entry.size)
        assert header is not None
        assert header.is_log_append_time
        assert header.max_timestamp == NOW
    assert [record.timestamp for record in read_all(after)] == [NOW, NOW]
    if codec:
        assert after[34:] == before[34:]


def test_what_the_old_formats_cannot_say_is_refused() -> None:
    for magic in (0, 1):
        rules = RULES._replace(magic=magic)
        assert refused(an_idempotent_batch(), rules) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        transactional = an_idempotent_batch(transactional=True)
        assert refused(transactional, rules) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        headed = build_batch([Record(0, 5, b"k", b"v"), Record(1, 5, b"k", b"v", (("h", None),))])
        assert refused(headed, rules) == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert refused(a_batch(codec=ZSTD), rules) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert refused(a_batch(), rules._replace(codec=ZSTD)) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert len(read_all(stored(a_batch(codec=ZSTD), rules._replace(codec=GZIP)))) == 3


@pytest.mark.parametrize("magic", [0, 1])
def test_batches_for_an_old_format_obey_every_other_rule(magic: int) -> None:
    rules = RULES._replace(magic=magic)
    broken = bytearray(a_batch())
    broken[-1] ^= 1
    assert refused(bytes(broken), rules) == ErrorCode.CORRUPT_MESSAGE
    assert refused(a_batch(codec=GZIP), rules._replace(key_required=True)) == ErrorCode.INVALID_RECORD
    assert refused(a_batch(), rules._replace(timestamp_before_ms_max=1)) == ErrorCode.INVALID_TIMESTAMP
    assert refused(a_batch([Record(0, -2, None, b"v")]), rules) == ErrorCode.INVALID_TIMESTAMP
    assert refused(a_batch(value=bytes(500)), rules._replace(message_bytes_max=100)) == ErrorCode.MESSAGE_TOO_LARGE
    bomb = build_batch([Record(0, 5, None, bytes(100_000))], codec=GZIP)
    assert refused(bomb, rules._replace(expanded_bytes_max=1000)) == ErrorCode.MESSAGE_TOO_LARGE
    with pytest.raises(RecordsRefused) as refusal:
        check(
            sent([Record(0, NOW, b"k", b"v"), Record(0, 5, b"k", b"v")], 1), rules._replace(timestamp_before_ms_max=9)
        )
    assert [index for index, _ in refusal.value.records] == [1]


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_that_grow_beyond_the_limit_when_rewritten_are_too_large(magic: int) -> None:
    packed = sent([Record(0, 5, None, bytes(5000))], 1 - magic, GZIP)
    rules = RULES._replace(magic=magic, codec=NO_CODEC, message_bytes_max=1000)
    assert refused(packed, rules) == ErrorCode.MESSAGE_TOO_LARGE
    incompressible = random.Random(1).randbytes(2000)
    data = sent([Record(0, 5, None, incompressible)], 1 - magic)
    assert refused(data, rules._replace(codec=GZIP, message_bytes_max=len(data))) == ErrorCode.MESSAGE_TOO_LARGE


def test_a_client_may_not_claim_the_brokers_time_in_format_1() -> None:
    for data in (
        legacy_writing.write_messages(some_records(1), 1, log_append_time=True),
        wrapper(sent(some_records(2), 1), attributes=9),
    ):
        for rules in (RULES, RULES._replace(magic=1), RULES._replace(magic=1, log_append_time=True)):
            with pytest.raises(BrokerError) as refusal:
                check(data, rules)
            assert refusal.value.code == ErrorCode.INVALID_TIMESTAMP


def test_a_wrapper_in_a_wrapper_is_refused_from_a_client_and_read_from_a_log() -> None:
    inner = legacy_writing.write_messages(some_records(2), 1)
    nested = wrapper(wrapper(inner, offset=1) + wrapper(inner, offset=3), offset=BASE + 3)
    for magic in (0, 1, 2):
        with pytest.raises(BrokerError) as refusal:
            check(nested, RULES._replace(magic=magic))
        assert refusal.value.code == ErrorCode.INVALID_RECORD
    assert [(record.offset, record.value) for record in read_all(nested)] == [
        (BASE, b"value-0"),
        (BASE + 1, b"value-1"),
        (BASE + 2, b"value-0"),
        (BASE + 3, b"value-1"),
    ]
    assert [record.offset for record in read_all(message_down_conversion.down_convert(nested, 0))] == [
        BASE,
        BASE + 1,
        BASE + 2,
        BASE + 3,
    ]


def test_old_messages_for_brokers_that_do_not_know_zstd_yet_are_not_stored_in_it() -> None:
    old = RULES._replace(zstd=False)
    for rules, data in (
        (old, a_batch(codec=ZSTD)),
        (old._replace(codec=ZSTD), a_batch(codec=ZSTD)),
        (old._replace(codec=ZSTD), a_batch()),
        (old._replace(codec=ZSTD), legacy_writing.write_messages(some_records(1), 1)),
    ):
        with pytest.raises(BrokerError) as refusal:
            check(data, rules)
        assert refusal.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert len(read_all(bytes(check(a_batch(codec=ZSTD), old._replace(codec=GZIP)).buffer))) == 3
    check(a_batch(codec=GZIP), old)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NO_CODEC, GZIP])
def test_the_brokers_own_records_are_stored_in_the_topics_format(magic: int, codec: int) -> None:
    taken = accept_own_batch(
        bytearray(build_batch([Record(0, 7, b"k", b"v"), Record(1, 7, b"l", None)], codec=codec)),
        RULES._replace(magic=magic),
        NOW,
    )
    assert isinstance(taken, LegacyMessages)
    assert taken.assign_offsets(BASE) == BASE + 2
    assert [(one.key, one.value) for one in read_all(bytes(taken.buffer))] == [(b"k", b"v"), (b"l", None)]


def test_a_request_that_cannot_be_written_to_is_copied() -> None:
    data = sent(some_records(2), 1)
    checked = check_produced(memoryview(data), RULES._replace(magic=1), NOW, produce_version=2)
    assert isinstance(checked, LegacyMessages)
    checked.assign_offsets(BASE)
    assert data == sent(some_records(2), 1)
    assert [record.offset for record in read_all(bytes(checked.buffer))] == [BASE, BASE + 1]


@settings(max_examples=examples(200))
@given(st.sampled_from([0, 1]), st.sampled_from([0, 1]), codecs, st.data())
def test_damaged_sets_are_refused_with_a_code_and_never_stored_wrong(
    source: int, target: int, codec: int, data: st.DataObject
) -> None:
    original = some_records(3, key=b"k")
    broken = bytearray(sent(original, source, codec))
    broken[data.draw(st.integers(0, len(broken) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        checked = check_produced(writable(bytes(broken)), RULES._replace(magic=target), NOW, produce_version=2)
        if isinstance(checked, LegacyMessages):
            checked.assign_offsets(BASE)
    except BrokerError:
        return
    values = [record.value for record in read_all(bytes(checked.buffer))] if checked.batches else []
    assert values == [record.value for record in original][: len(values)]


@settings(max_examples=examples(300))
@given(st.sampled_from([0, 1]), st.sampled_from([0, 1, 2]), codecs, st.booleans(), st.data())
def test_lies_with_a_right_crc_are_refused_or_stored_as_what_can_be_read(
    source: int, target: int, codec: int, wrapped: bool, data: st.DataObject
) -> None:
    lying = bytearray(sent(some_records(2), source, codec))
    for _ in range(3):
        lying[data.draw(st.integers(0, min(len(lying), 45) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    struct.pack_into(">I", lying, 12, zlib.crc32(bytes(lying[16:])))
    sent_bytes = wrapper(bytes(lying), source) if wrapped else bytes(lying)
    try:
        checked = check_produced(writable(sent_bytes), RULES._replace(magic=target), NOW, produce_version=2)
        if isinstance(checked, LegacyMessages):
            checked.assign_offsets(BASE)
    except BrokerError:
        return
    read_all(bytes(checked.buffer))
