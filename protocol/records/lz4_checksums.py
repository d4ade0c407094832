"""The header checksum of LZ4 frames, which message format 0 has another way (KAFKA-3160)."""

from __future__ import annotations

from sordini.protocol.records.compression import LZ4, LZ4_FRAME_MAGIC, not_of_codec


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
    if len(frame) < 7 or not frame.startswith(LZ4_FRAME_MAGIC):
        raise not_of_codec(LZ4, "no frame header")
    flags = frame[4]
    end = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    if len(frame) < end:
        raise not_of_codec(LZ4, "it ends too early")
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
