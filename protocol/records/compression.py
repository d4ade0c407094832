"""The four codecs of record batches: their numbers, names and first bytes, and compression. See `expansion.py`, too.

    gzip    one zlib stream with a gzip header
    snappy  the framing of xerial's snappy-java (what Kafka clients write), or one bare block
    lz4     the LZ4 frame format; message format 0 has a wrong header checksum, see `lz4_checksums.py`
    zstd    Zstandard frames

The libraries are imported on first use: a broker whose producers do not compress never loads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.work_budget import BYTES_PER_STEP, UNBOUNDED, WorkBudget

NO_CODEC: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
CODEC_NAMES: Final = {NO_CODEC: "uncompressed", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
"""The names that `compression.type` uses."""

PIECE_BYTES: Final = 1024 * 1024
"""Bytes compressed by one call."""

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_HEADER_SIZE: Final = len(_XERIAL_HEADER)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
XERIAL_BLOCK_LENGTH = struct.Struct(">i")

LZ4_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_BEGINNINGS: Final = {
    GZIP: (b"\x1f\x8b\x08",),
    SNAPPY: tuple(bytes([first]) for first in range(256)),
    LZ4: (LZ4_FRAME_MAGIC,),
    # A frame, or one of the sixteen kinds of skippable frame.
    ZSTD: (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + kind]) + b"\x2a\x4d\x18" for kind in range(16))),
}
_LZ4_LEVEL_DEFAULT: Final = 9
_LZ4_LEVEL_FAST: Final = 0
_LZ4_LEVEL_MAX: Final = 12


def check_beginning(codec: int, data: memoryview) -> None:
    """Check the first bytes of compressed records: the only check of a batch that is not expanded.

    Raises BrokerError CORRUPT_MESSAGE. A raw snappy block may begin with any byte, so only empty data is refused.
    """
    beginnings = _BEGINNINGS[codec]
    if bytes(data[:4]).startswith(beginnings):
        return
    raise not_of_codec(codec, f"it begins with {bytes(data[:4]).hex() or 'nothing'}")


def unknown_codec(codec: int) -> BrokerError:
    """The error for an unknown codec number. (Apache Kafka: UNKNOWN_SERVER_ERROR and a stack trace.)"""
    return BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} is not known")


def compress(
    codec: int, data: bytes | bytearray | memoryview, *, level: int | None = None, budget: WorkBudget = UNBOUNDED
) -> bytes:
    """Compress as Apache Kafka's own clients frame it; `level` None is the codec's default.

    Raises BudgetExceeded when `budget` is spent, before anything is compressed.
    """
    charge_compression(codec, level, len(data), budget)
    if codec == NO_CODEC:
        return bytes(data)
    if codec == GZIP:
        deflate = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return b"".join([*map(deflate.compress, _pieces(data)), deflate.flush()])
    if codec == SNAPPY:
        return _snappy_framed(memoryview(data))
    if codec == LZ4:
        return _lz4_frame(data, level)
    if codec == ZSTD:
        import zstandard

        zstd = zstandard.ZstdCompressor(3 if level is None else level)
        if len(data) <= PIECE_BYTES:
            return zstd.compress(bytes(data))
        frame = zstd.compressobj(size=len(data))
        return b"".join([*map(frame.compress, _pieces(data)), frame.flush()])
    raise unknown_codec(codec)


def charge_compression(codec: int, level: int | None, size: int, budget: WorkBudget) -> None:
    """Charge the compression of `size` bytes; raises BudgetExceeded."""
    budget.spend(size // _bytes_per_step(codec, level))


def _bytes_per_step(codec: int, level: int | None) -> int:
    """How many bytes a codec compresses in a step."""
    if codec == GZIP:
        return 15
    if codec == ZSTD:
        return 100 if level is None or level <= 3 else 25 if level <= 9 else 1
    if codec == LZ4:
        return BYTES_PER_STEP if level in (None, _LZ4_LEVEL_DEFAULT) else 10
    return BYTES_PER_STEP


def _pieces(data: bytes | bytearray | memoryview) -> Iterator[bytes | bytearray | memoryview]:
    """The data in pieces, between which signals are handled."""
    if len(data) <= PIECE_BYTES:
        yield data
        return
    view = memoryview(data)
    for start in range(0, len(view), PIECE_BYTES):
        yield view[start : start + PIECE_BYTES]


def not_of_codec(codec: int, why: object) -> BrokerError:
    """The error for bytes that are not what their codec says."""
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"the records are not {CODEC_NAMES[codec]}: {why}")


def _snappy_framed(data: memoryview) -> bytes:
    import cramjam

    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(data[start : start + _XERIAL_BLOCK_BYTES])))
        parts += (XERIAL_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _lz4_frame(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    import lz4.frame

    # Level 9 is the default of the configuration and means lz4's fast mode, as in Apache Kafka (KIP-390).
    is_fast = level is None or level == _LZ4_LEVEL_DEFAULT
    # Independent blocks of 64 KiB without a content size: the only form that every Kafka client reads.
    compressor = lz4.frame.LZ4FrameCompressor(
        compression_level=_LZ4_LEVEL_FAST if is_fast else min(level or 0, _LZ4_LEVEL_MAX),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
    )
    parts = [compressor.begin()]
    parts += map(compressor.compress, _pieces(data))
    return b"".join([*parts, compressor.flush()])
