"""The codecs: what they expand, what they refuse, and how much they allocate on the way."""

from __future__ import annotations

import gzip
import struct

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import lz4_checksums
from sordini.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from sordini.protocol.records.expansion import decompress
from tests.support.alone import Alone, traced_peak_bytes
from tests.support.parts import examples

REAL_CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


def refused(codec: int, data: bytes, bytes_max: int = 1 << 20) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        decompress(codec, data, bytes_max)
    return refusal.value.code


def refuse(codec: int, data: bytes, code: ErrorCode) -> None:
    assert refused(codec, data) == code


@settings(deadline=None, max_examples=50)
@given(st.sampled_from([0, *REAL_CODECS]), st.binary(max_size=500), st.integers(1, 400))
def test_what_was_compressed_expands_to_itself(codec: int, data: bytes, times: int) -> None:
    assert decompress(codec, compress(codec, data * times), 1 << 20) == data * times


@pytest.mark.parametrize("codec", REAL_CODECS)
@pytest.mark.parametrize("level", [1, 9])
def test_a_level_changes_the_bytes_and_not_what_they_mean(codec: int, level: int) -> None:
    data = b"".join(b"%d," % index for index in range(50_000))
    assert decompress(codec, compress(codec, data, level=level), 1 << 20) == data


@pytest.mark.parametrize("codec", [0, *REAL_CODECS])
def test_the_bound_is_exact(codec: int) -> None:
    data = bytes(200_000)
    assert decompress(codec, compress(codec, data), 200_000) == data
    assert refused(codec, compress(codec, data), 199_999) == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", REAL_CODECS)
def test_a_bomb_is_refused_in_small_steps(codec: int, alone: Alone) -> None:
    bomb = compress(codec, bytes(50_000_000))
    alone(decompress, codec, compress(codec, b"load the library"), 1 << 20)
    peak = alone(traced_peak_bytes, refuse, codec, bomb, ErrorCode.MESSAGE_TOO_LARGE)
    assert peak < 3 * (1 << 20) + len(bomb)


def outcome(codec: int, data: bytes) -> ErrorCode:
    try:
        assert len(decompress(codec, data, 1 << 16)) <= 1 << 16
    except BrokerError as refusal:
        return refusal.code
    return ErrorCode.NONE


OUTCOMES = {ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE}


@settings(deadline=None, max_examples=examples(60))
@given(st.sampled_from(REAL_CODECS), st.binary(max_size=200))
def test_garbage_is_corrupt_and_nothing_worse(codec: int, data: bytes) -> None:
    assert outcome(codec, data) in OUTCOMES


@settings(deadline=None, max_examples=examples(60))
@given(st.sampled_from(REAL_CODECS), st.data())
def test_damaged_data_is_corrupt_or_expands_within_the_bound(codec: int, data: st.DataObject) -> None:
    wrong = bytearray(compress(codec, b"some records, some more records " * 30))
    wrong[data.draw(st.integers(0, len(wrong) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert outcome(codec, bytes(wrong)) in OUTCOMES


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_a_stream_cut_anywhere_is_corrupt(codec: int) -> None:
    data = compress(codec, b"some records, some more records " * 30)
    for end in range(len(data)):
        assert refused(codec, data[:end]) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_bytes_after_the_end_are_corrupt(codec: int) -> None:
    for size in (10, 100_000):
        data = compress(codec, b"a" * size)
        assert refused(codec, data + b"more") == ErrorCode.CORRUPT_MESSAGE
        assert refused(codec, data + b"more" * 30_000) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_a_codec_that_does_not_exist_is_unsupported(codec: int) -> None:
    assert refused(codec, b"abc") == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(BrokerError):
        compress(codec, b"abc")


def test_what_other_libraries_write_is_read() -> None:
    data = b"one two three " * 9000
    assert decompress(GZIP, gzip.compress(data), 1 << 20) == data
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data)), 1 << 20) == data
    for linked in (True, False):
        frame = lz4.frame.compress(data, block_linked=linked, store_size=True, content_checksum=True)
        assert decompress(LZ4, frame, 1 << 20) == data
    stream = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compressobj()
    frame = stream.compress(data) + stream.flush()
    assert decompress(ZSTD, frame + frame, 1 << 20) == data + data


def test_a_snappy_block_that_declares_too_much_allocates_nothing(alone: Alone) -> None:
    for declared in (b"\xff\xff\xff\xff\x07" + b"abc", b"\xff" * 8):
        assert alone(traced_peak_bytes, refuse, SNAPPY, declared, ErrorCode.CORRUPT_MESSAGE) < 1 << 20


@pytest.mark.parametrize("length", [0, -1, 5, 2**31 - 1])
def test_a_snappy_frame_with_a_wrong_block_length_is_corrupt(length: int) -> None:
    framed = compress(SNAPPY, b"abc")
    assert refused(SNAPPY, framed[:16] + struct.pack(">i", length) + b"abc") == ErrorCode.CORRUPT_MESSAGE
    assert refused(SNAPPY, framed[:12]) == ErrorCode.CORRUPT_MESSAGE
    assert refused(SNAPPY, framed + b"\x00") == ErrorCode.CORRUPT_MESSAGE


def test_an_lz4_header_is_mended_and_broken_as_format_0_wants_it() -> None:
    for options in ({}, {"store_size": True}, {"store_size": False, "content_checksum": True}):
        frame = lz4.frame.compress(b"abc" * 101, **options)
        broken = lz4_checksums.lz4_with_format_0_checksum(frame)
        assert broken != frame
        assert refused(LZ4, broken) == ErrorCode.CORRUPT_MESSAGE
        assert lz4_checksums.lz4_with_frame_checksum(broken) == frame
    for wrong in (b"", b"\x04\x22\x4d\x18\x68", b"abcdefghijkl"):
        with pytest.raises(BrokerError):
            lz4_checksums.lz4_with_frame_checksum(wrong)


def test_the_header_checksum_is_xxhash() -> None:
    # From the specification's reference implementation.
    assert lz4_checksums._xxh32_short(b"") == 0x02CC5D05
    assert lz4_checksums._xxh32_short(b"a") == 0x550D7456
    assert lz4_checksums._xxh32_short(b"abc") == 0x32D153FF
    for size in range(0, 60_000, 997):
        frame = lz4.frame.compress(bytes(size))
        assert lz4_checksums.lz4_with_frame_checksum(frame) == frame
