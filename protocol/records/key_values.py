"""Keys and values of a batch's records, and nothing else of them: for reading a whole compacted log.

Half of what `batch.read_records` takes, which makes a `Record` of each; hence the loop with everything in it. The
bounds of records, keys and values are checked; times and offsets are stepped over, and so is what stands behind a value
(the headers).
"""

from __future__ import annotations

from collections.abc import Iterator

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import HEADER_SIZE, BatchHeader
from sordini.protocol.records.compression import EXPANDED_BYTES_MAX, NO_CODEC, decompress
from sordini.protocol.records.varint import read_varint

Pair = tuple[bytes | None, bytes | None]


def read_pairs(batch: memoryview, header: BatchHeader) -> list[Pair]:
    """The records of one whole version 2 batch, which fills `batch`; raises BrokerError."""
    body = bytes(batch[HEADER_SIZE : header.size])
    if header.codec != NO_CODEC:
        body = decompress(header.codec, body, EXPANDED_BYTES_MAX)
    return [pair for some in pairs_of(body, header.record_count, header.record_count) for pair in some]


def pairs_of(body: bytes, count: int, at_once: int) -> Iterator[list[Pair]]:
    """The `count` expanded records of a batch, `at_once` at a time; raises BrokerError."""
    position = 0
    for first in range(0, count, max(at_once, 1)):
        try:
            pairs, position = _pairs(body, position, min(at_once, count - first))
        except (IndexError, ValueError) as error:
            raise BrokerError(ErrorCode.INVALID_RECORD, f"a record is damaged: {error}") from None
        yield pairs


def _pairs(body: bytes, position: int, count: int) -> tuple[list[Pair], int]:
    """Raises IndexError or ValueError. Numbers of one byte are read in place: the call would cost more than they do."""
    pairs: list[Pair] = []
    size = len(body)
    for _ in range(count):
        length = body[position]
        if length < 0x80:
            position += 1
            length = (length >> 1) ^ -(length & 1)
        else:
            length, position = read_varint(body, position)
        end = position + length
        if length < 0 or end > size:
            raise ValueError(f"a length of {length} at byte {position}")
        position += 1  # The attributes.
        while body[position] > 0x7F:  # The time.
            position += 1
        position += 1
        while body[position] > 0x7F:  # The offset.
            position += 1
        position += 1
        length = body[position]
        if length < 0x80:
            position += 1
            length = (length >> 1) ^ -(length & 1)
        else:
            length, position = read_varint(body, position)
        key = None
        if length >= 0:
            key = body[position : position + length]
            position += length
        length = body[position]
        if length < 0x80:
            position += 1
            length = (length >> 1) ^ -(length & 1)
        else:
            length, position = read_varint(body, position)
        value = None
        if length >= 0:
            value = body[position : position + length]
            position += length
        if position > end:
            raise ValueError(f"a value ends at byte {position}, its record at {end}")
        pairs.append((key, value))
        position = end
    return pairs, position
