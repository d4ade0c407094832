"""Compressed records, expanded step by step up to a limit.

A size that a peer declares is never allocated: output grows in steps of at most 64 KiB until the data ends or the
limit is reached. Snappy alone has no streaming form; a block's declared size is accepted only up to the largest
expansion of that codec (a copy element of three bytes yields at most 64).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.compression import (
    GZIP,
    LZ4,
    NO_CODEC,
    SNAPPY,
    XERIAL_BLOCK_LENGTH,
    XERIAL_HEADER_SIZE,
    XERIAL_MAGIC,
    ZSTD,
    not_of_codec,
    unknown_codec,
)
from sordini.protocol.records.work_budget import BYTES_PER_STEP, UNBOUNDED, WorkBudget

EXPANDED_BYTES_MAX: Final = 64 * 1024 * 1024
STEP_BYTES: Final = 64 * 1024
SNAPPY_EXPANSION_MAX: Final = 22


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
                raise not_of_codec(GZIP, "bytes follow its end")
            expanded.add(inflate.decompress(data[start : start + STEP_BYTES], STEP_BYTES))
            # At the end of the stream the tail no longer changes, so the tail alone would loop forever.
            while inflate.unconsumed_tail and not inflate.eof:
                expanded.add(inflate.decompress(inflate.unconsumed_tail, STEP_BYTES))
        while not inflate.eof and (part := inflate.decompress(b"", STEP_BYTES)):
            expanded.add(part)
    except zlib.error as error:
        raise not_of_codec(GZIP, error) from None
    if not inflate.eof or inflate.unused_data:
        raise not_of_codec(GZIP, "bytes follow its end" if inflate.eof else "it ends too early")


def _expand_lz4(data: bytes, expanded: Expanded) -> None:
    import lz4.frame

    frame = lz4.frame.LZ4FrameDecompressor()
    try:
        for start in range(0, len(data), STEP_BYTES):
            if frame.eof:
                raise not_of_codec(LZ4, "bytes follow its end")
            expanded.add(frame.decompress(data[start : start + STEP_BYTES], STEP_BYTES))
            while not frame.needs_input and not frame.eof:
                part = frame.decompress(b"", STEP_BYTES)
                if not part:
                    break
                expanded.add(part)
    except (RuntimeError, EOFError, ValueError) as error:
        raise not_of_codec(LZ4, error) from None
    if not frame.eof or frame.unused_data:
        raise not_of_codec(LZ4, "bytes follow its end" if frame.eof else "it ends too early")


def _expand_zstd(data: bytes, expanded: Expanded) -> None:
    import zstandard

    if not _zstd_frames_are_whole(data, expanded.budget):
        raise not_of_codec(ZSTD, "it ends too early")
    try:
        with zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True) as reader:
            while part := reader.read(STEP_BYTES):
                expanded.add(part)
    except zstandard.ZstdError as error:
        raise not_of_codec(ZSTD, error) from None


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
    if not data.startswith(XERIAL_MAGIC):
        _snappy_block(data, expanded)
        return
    position = XERIAL_HEADER_SIZE
    if len(data) < position:
        raise not_of_codec(SNAPPY, "it ends too early")
    while position < len(data):
        if position + 4 > len(data):
            raise not_of_codec(SNAPPY, "it ends too early")
        (length,) = XERIAL_BLOCK_LENGTH.unpack_from(data, position)
        position += 4
        if length <= 0 or length > len(data) - position:
            raise not_of_codec(SNAPPY, f"a block of {length} bytes with {len(data) - position} left")
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
        raise not_of_codec(SNAPPY, "a block without a size")
    if declared > len(block) * SNAPPY_EXPANSION_MAX:
        raise not_of_codec(SNAPPY, f"a block of {len(block)} bytes cannot hold {declared}")
    expanded.make_room(declared)
    try:
        expanded.take(bytes(cramjam.snappy.decompress_raw(block)))
    except cramjam.DecompressionError as error:
        raise not_of_codec(SNAPPY, error) from None


_EXPANDERS: Final[dict[int, Callable[[bytes, Expanded], None]]] = {
    NO_CODEC: _expand_nothing,
    GZIP: _expand_gzip,
    SNAPPY: _expand_snappy,
    LZ4: _expand_lz4,
    ZSTD: _expand_zstd,
}
