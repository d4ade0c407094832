"""The bytes before a registered value: which schema it has, and for Protobuf which message of it. Pure.

    0            1..4                 then, for Protobuf only
    magic 0 | schema id, big-endian | count | index | index ...

The indexes lead from the file to the message: its place among the messages of the file, then among those inside that
one, and so on. Count and indexes are zigzag varints; the first message of a file, [0], is the count 0 alone (Confluent
Platform, "Wire format").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.schemas.codecs import ValueRefused
from sordini.system.named_tuple import NamedTuple

MAGIC: Final = 0
HEADER_BYTES: Final = 5
SCHEMA_ID_MAX: Final = (1 << 31) - 1
INDEXES_MAX: Final = 100
"""Messages inside each other, as deep as protoc compiles."""
_VARINT_BYTES_MAX: Final = 5
_FIRST_MESSAGE: Final = (0,)


class Framed(NamedTuple):
    """The id of a schema, and where in the bytes the rest starts."""

    schema_id: int
    start: int


class MessageIndexes(NamedTuple):
    """The way to a message, and where in the bytes the message starts."""

    indexes: tuple[int, ...]
    start: int


def write_header(schema_id: int) -> bytes:
    """The five bytes before a value of Avro and JSON, and before the indexes of Protobuf."""
    assert 0 <= schema_id <= SCHEMA_ID_MAX
    return bytes([MAGIC]) + schema_id.to_bytes(4, "big")


def read_header(data: bytes) -> Framed:
    """Raises ValueRefused for bytes without the header of a registry."""
    if len(data) < HEADER_BYTES:
        raise ValueRefused(f"{len(data)} bytes, fewer than the {HEADER_BYTES} of a registry's header")
    if data[0] != MAGIC:
        raise ValueRefused(f"the first byte is {data[0]}, not the {MAGIC} of a registry's header")
    schema_id = int.from_bytes(data[1:HEADER_BYTES], "big")
    if schema_id > SCHEMA_ID_MAX:
        raise ValueRefused(f"{schema_id} is no id of a schema")
    return Framed(schema_id, HEADER_BYTES)


def write_indexes(indexes: Sequence[int]) -> bytes:
    """At least one index; all are zero or more."""
    assert 0 < len(indexes) <= INDEXES_MAX
    if tuple(indexes) == _FIRST_MESSAGE:
        return _varint(0)
    return b"".join(map(_varint, (len(indexes), *indexes)))


def read_indexes(data: bytes, start: int = HEADER_BYTES) -> MessageIndexes:
    """Raises ValueRefused."""
    count, at = _read_varint(data, start)
    if count == 0:
        return MessageIndexes(_FIRST_MESSAGE, at)
    if count > INDEXES_MAX:
        raise ValueRefused(f"{count} indexes of messages, more than {INDEXES_MAX}")
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return MessageIndexes(tuple(indexes), at)


def _varint(number: int) -> bytes:
    assert 0 <= number <= SCHEMA_ID_MAX
    rest, made = number << 1, bytearray()  # Zigzag of a number that is not negative.
    while rest > 0x7F:
        made.append(rest & 0x7F | 0x80)
        rest >>= 7
    made.append(rest)
    return bytes(made)


def _read_varint(data: bytes, start: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(data[start : start + _VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            if value & 1 or value >> 1 > SCHEMA_ID_MAX:
                raise ValueRefused("an index of a message that is negative or too large")
            return value >> 1, start + place + 1
    raise ValueRefused("the indexes of the message end too early, or are too long")
