"""The four codecs of record batches, expanded step by step up to a limit.

A size that a peer declares is never allocated: output grows in steps of at most 64 KiB until the data ends or the
limit is reached. Snappy alone has no streaming form; a block's declared size is accepted only up to the largest
expansion of that codec (a copy element of three bytes yields at most 64).

    gzip    one zlib stream with a gzip header
    snappy  the framing of xerial's snappy-java (what Kafka clients write), or one bare block
    lz4     the LZ4 frame format; message format 0 has a wrong header checksum, see `lz4_with_frame_checksum`
    zstd    Zstandard frames

The libraries are imported on first use: a broker whose producers do not compress never loads them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
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

EXPANDED_BYTES_MAX: Final = 64 * 1024 * 1024
STEP_BYTES: Final = 64 * 1024
PIECE_BYTES: Final = 1024 * 1024
"""Bytes compressed by one call."""

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_HEADER_SIZE: Final = len(_XERIAL_HEADER)
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
SNAPPY_EXPANSION_MAX: Final = 22
_BLOCK_LENGTH = struct.Struct(">i")

_LZ4_FRAME_MAGIC: Final = b"\x04\x22\x4d\x18"
_BEGINNINGS: Final = {
    GZIP: (b"\x1f\x8b\x08",),
    SNAPPY: tuple(bytes([first]) for first in range(256)),
    LZ4: (_LZ4_FRAME_MAGIC,),
    # A frame, or one of the sixteen kinds of skippable frame.
    ZSTD: (b"\x28\xb5\x2f\xfd", *(bytes([0x50 + kind]) + b"\x2a\x4d\x18" for kind in range(16))),
}
_LZ4_LEVEL_DEFAULT: Final = 9
_LZ4_LEVEL_FAST: Final = 0
_LZ4_LEVEL_MAX: Final = 12


def decompress(
    codec: int, data: bytes | memoryview, expanded_bytes_max: int = EXPANDED_BYTES_MAX, budget: WorkBudget = UNBOUNDED
) -> bytes:
    """Expand `data`. Raises BrokerError, and BudgetExceeded when `budget` is spent.

    UNSUPPORTED_COMPRESSION_TYPE for a codec number without a codec, CORRUPT_MESSAGE for bytes that are not the
    codec's (or not all of them), MESSAGE_TOO_LARGE when they expand to more than `expanded_bytes_max`.
    """
    expanded = Expanded(expanded_bytes_max, budget)
    expand(codec, data, expanded)
    return expanded.join()


def expand(codec: int, data: bytes | memoryview, expanded: Expanded) -> None:
    """Expand `data` into `expanded`, step by step; raises as `decompress`."""
    expander = _EXPANDERS.get(codec)
    if expander is None:
        raise unknown_codec(codec)
    expander(bytes(data), expanded)


def check_beginning(codec: int, data: memoryview) -> None:
    """Check the first bytes of compressed records: the only check of a batch that is not expanded.

    Raises BrokerError CORRUPT_MESSAGE. A raw snappy block may begin with any byte, so only empty data is refused.
    """
    beginnings = _BEGINNINGS[codec]
    if bytes(data[:4]).startswith(beginnings):
        return
    raise _corrupt(codec, f"it begins with {bytes(data[:4]).hex() or 'nothing'}")


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


def _corrupt(codec: int, why: object) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"the records are not {CODEC_NAMES[codec]}: {why}")


def _too_large(bytes_max: int) -> BrokerError:
    return BrokerError(ErrorCode.MESSAGE_TOO_LARGE, f"the records expand to more than {bytes_max} bytes")


class Expanded:
    """Collects the output, and stops at the size limit, or when the budget is spent."""

    def __init__(self, bytes_max: int, budget: WorkBudget) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self.budget = budget
        self.size = 0

    def add(self, part: bytes) -> None:
        """Charge and keep the output of a step; raises BrokerError MESSAGE_TOO_LARGE and BudgetExceeded."""
        self.make_room(len(part))
        self.take(part)

    def make_room(self, size: int) -> None:
        """Charge for bytes that are about to be expanded."""
        if self.size + size > self._bytes_max:
            raise _too_large(self._bytes_max)
        self.budget.spend(size // BYTES_PER_STEP)

    def take(self, part: bytes) -> None:
        """Keep bytes that were charged."""
        self.size += len(part)
        self._parts.append(part)

    def join(self) -> bytes:
        """All kept bytes."""
        return b"".join(self._parts)


def _expand_nothing(data: bytes, expanded: Expanded) -> None:
    expanded.add(data)


def _expand_gzip(data: bytes, expanded: Expanded) -> None:
    inflate = zlib.decompressobj(31)
    try:
        # Fed in steps: zlib copies the unread rest of its input, which must not be the whole rest each time.
        for start in range(0, len(data), STEP_BYTES):
            if inflate.eof:
                raise _corrupt(GZIP, "bytes follow its end")
            expanded.add(inflate.decompress(data[start : start + STEP_BYTES], STEP_BYTES))
            # At the end of the stream the tail no longer changes, so the tail alone would loop forever.
            while inflate.unconsumed_tail and not inflate.eof:
                expanded.add(inflate.decompress(inflate.unconsumed_tail, STEP_BYTES))
        while not inflate.eof and (part := inflate.decompress(b"", STEP_BYTES)):
            expanded.add(part)
    except zlib.error as error:
        raise _corrupt(GZIP, error) from None
    if not inflate.eof or inflate.unused_data:
        raise _corrupt(GZIP, "bytes follow its end" if inflate.eof else "it ends too early")


def _expand_lz4(data: bytes, expanded: Expanded) -> None:
    import lz4.frame

    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        for start in range(0, len(data), STEP_BYTES):
            if frame.eof:
                raise _corrupt(LZ4, "bytes follow its end")
            expanded.add(frame.decompress(data[start : start + STEP_BYTES], STEP_BYTES))
            while not frame.needs_input and not frame.eof:
                part = frame.decompress(b"", STEP_BYTES)
                if not part:
                    break
                expanded.add(part)
    except (RuntimeError, EOFError, ValueError) as error:
        raise _corrupt(LZ4, error) from None
    if not frame.eof or frame.unused_data:
        raise _corrupt(LZ4, "bytes follow its end" if frame.eof else "it ends too early")


def _expand_zstd(data: bytes, expanded: Expanded) -> None:
    import zstandard

    if not _zstd_frames_are_whole(data, expanded.budget):
        raise _corrupt(ZSTD, "it ends too early")
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            while part := reader.read(STEP_BYTES):
                expanded.add(part)
    except zstandard.ZstdError as error:
        raise _corrupt(ZSTD, error) from None


def _zstd_frames_are_whole(data: bytes, budget: WorkBudget) -> bool:
    """Whether the data ends at the end of a frame: the library takes a truncated frame for its end (RFC 8878)."""
    position = 0
    size = len(data)
    while position < size:
        budget.spend(1)
        if position + 5 > size:
            return False
        if data[position + 1 : position + 4] == b"\x2a\x4d\x18" and data[position] & 0xF0 == 0x50:  # Skippable.
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        position, has_checksum = _zstd_blocks_start(data, position)
        last = False
        while not last:
            budget.spend(1)
            if position + 3 > size:
                return False
            block = int.from_bytes(data[position : position + 3], "little")
            last = block & 1 == 1
            is_run = block >> 1 & 3 == 1
            position += 3 + (1 if is_run else block >> 3)
        position += 4 if has_checksum else 0
    return position == size and size > 0


def _zstd_blocks_start(data: bytes, position: int) -> tuple[int, bool]:
    descriptor = data[position + 4]
    is_single_segment = descriptor >> 5 & 1
    content_size_bytes = (is_single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
    window_bytes = 1 - is_single_segment
    start = position + 5 + window_bytes + dictionary_id_bytes + content_size_bytes
    return start, descriptor >> 2 & 1 == 1


def _expand_snappy(data: bytes, expanded: Expanded) -> None:
    if not data.startswith(_XERIAL_MAGIC):
        _snappy_block(data, expanded)
        return
    position = _XERIAL_HEADER_SIZE
    if len(data) < position:
        raise _corrupt(SNAPPY, "it ends too early")
    while position < len(data):
        if position + 4 > len(data):
            raise _corrupt(SNAPPY, "it ends too early")
        (length,) = _BLOCK_LENGTH.unpack_from(data, position)
        position += 4
        if length <= 0 or length > len(data) - position:
            raise _corrupt(SNAPPY, f"a block of {length} bytes with {len(data) - position} left")
        expanded.budget.spend(1)
        _snappy_block(data[position : position + length], expanded)
        position += length


def _snappy_block(block: bytes, expanded: Expanded) -> None:
    import cramjam

    declared = shift = 0
    for byte in block[:5]:
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise _corrupt(SNAPPY, "a block without a size")
    if declared > len(block) * SNAPPY_EXPANSION_MAX:
        raise _corrupt(SNAPPY, f"a block of {len(block)} bytes cannot hold {declared}")
    expanded.make_room(declared)
    try:
        expanded.take(bytes(cramjam.snappy.decompress_raw(block)))
    except cramjam.DecompressionError as error:
        raise _corrupt(SNAPPY, error) from None


def _snappy_framed(data: memoryview) -> bytes:
    import cramjam

    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(bytes(data[start : start + _XERIAL_BLOCK_BYTES])))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
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


def lz4_with_frame_checksum(frame: bytes) -> bytes:
    """Make a message-format-0 LZ4 frame readable: give its header the checksum of the frame format.

    KAFKA-3160: producers of that format summed the frame's magic number too; readers ignored the byte.
    """
    end = _lz4_header_end(frame)
    return frame[: end - 1] + bytes([_lz4_checksum(frame[4 : end - 1])]) + frame[end:]


def lz4_with_format_0_checksum(frame: bytes) -> bytes:
    """Give an LZ4 frame the header checksum that consumers of message format 0 expect (KAFKA-3160)."""
    end = _lz4_header_end(frame)
    return frame[: end - 1] + bytes([_lz4_checksum(frame[: end - 1])]) + frame[end:]


def _lz4_header_end(frame: bytes) -> int:
    if len(frame) < 7 or not frame.startswith(_LZ4_FRAME_MAGIC):
        raise _corrupt(LZ4, "no frame header")
    flags = frame[4]
    end = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if len(frame) < end:
        raise _corrupt(LZ4, "it ends too early")
    return end


def _lz4_checksum(header: bytes) -> int:
    return _xxh32_short(header) >> 8 & 0xFF


def _xxh32_short(data: bytes) -> int:
    """XxHash32 with seed 0 of up to 15 bytes, by its specification (our frame headers have 6, others' up to 14)."""
    prime1, prime2, prime3, prime4, prime5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    assert len(data) < 16, data
    total = prime5 + len(data)
    rest = data
    while len(rest) >= 4:
        total = _rotated(total + int.from_bytes(rest[:4], "little") * prime3, 17) * prime4
        rest = rest[4:]
    for byte in rest:
        total = _rotated(total + byte * prime5, 11) * prime1
    total &= 0xFFFFFFFF
    total = (total ^ total >> 15) * prime2 & 0xFFFFFFFF
    total = (total ^ total >> 13) * prime3 & 0xFFFFFFFF
    return total ^ total >> 16


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> 32 - bits) & 0xFFFFFFFF


_EXPANDERS: Final[dict[int, Callable[[bytes, Expanded], None]]] = {
    NO_CODEC: _expand_nothing,
    GZIP: _expand_gzip,
    SNAPPY: _expand_snappy,
    LZ4: _expand_lz4,
    ZSTD: _expand_zstd,
}
