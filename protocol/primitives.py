"""The wire's smallest forms, and the annotations by which a message's fields name them.

A field's annotation has two parts: the type for type checkers (`int`, `str | None`, `list[T]`) and, inside
`Annotated`, the encoding on the wire. Numbers are big-endian. A length precedes its value, and is encoded in one
of two ways:

    kind              classic versions           flexible versions (KIP-482)
    String            int16 n, n bytes           varint n + 1, n bytes        null: -1 / 0
    Bytes, Records    int32 n, n bytes           varint n + 1, n bytes        null: -1 / 0
    Array             int32 n, n elements        varint n + 1, n elements     null: -1 / 0

and in flexible versions every struct ends with its tagged fields: varint count, then for each varint tag,
varint size, the value. All varints here are unsigned, seven bits a byte, least significant first. A struct
that may be null has an int8 in front: -1 for null, else 1.
"""

from __future__ import annotations

from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

from sordini.protocol.errors import WireError
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")

STRING_BYTES_MAX: Final = 0x7FFF
"""Longest string in any version; classic versions cannot express more, Apache Kafka refuses it in all."""

TAGS_MAX: Final = 1024
"""Most tagged fields of one struct: a peer must not make the broker skip any number of unknown ones."""

ROW_COST: Final = 1
"""Cost of an array's element: an object with fields, a string, or a number that is answered by an object."""

NUMBER_COST: Final = 0
"""Cost of any other number in an array; NUMBERS_PER_ROW of them in one array cost as much as a row."""

NUMBERS_PER_ROW: Final = 10

COST_MAX: Final = 1_000_000 * ROW_COST
"""The most that all elements of one message may cost, unless the caller of the decoder sets a limit."""

PRESENT: Final = 1
ABSENT: Final = 0xFF
"""The byte in front of a struct that may be null: 1, or -1 for null."""

_VARINT_BYTES_MAX = 5
_VARINT_MAX = 0xFFFF_FFFF


class Fixed(NamedTuple):
    """A value of fixed width; `letter` is its code in the `struct` module, `cost` its cost in an array."""

    letter: str
    size: int
    cost: int = NUMBER_COST


class Text(NamedTuple):
    """A UTF-8 string."""

    nullable: bool


class Blob(NamedTuple):
    """Opaque bytes, copied out of the frame."""

    nullable: bool


class RecordBytes(NamedTuple):
    """Record batches: a view into the frame when read, bytes or a slice of a file when written."""

    nullable: bool = True


class Packed(bytes):
    """An array's length and elements, encoded: what is sent many times is encoded once."""

    __slots__ = ()


class Many(NamedTuple):
    """An array; the element's kind is found in the annotation's type argument."""

    nullable: bool


class RecordSlice(Protocol):
    """Records that are sent by reference, straight from their file; the sender releases them."""

    @property
    def size(self) -> int:
        """How many bytes will be sent."""

    def release(self) -> None:
        """Give the file back; the bytes may be gone afterwards."""


Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
RowInt32 = Annotated[int, Fixed("i", 4, ROW_COST)]
"""A number in an array whose every element is answered by a row of its own."""
MarkerInt32 = Annotated[int, Fixed("i", 4, 20 * ROW_COST)]
"""A number in an array whose every element causes a record to be written."""
Float64 = Annotated[float, Fixed("d", 8)]
Bool = Annotated[bool, Fixed("?", 1)]
Uuid = Annotated[bytes, Fixed("16s", 16)]
String = Annotated[str, Text(nullable=False)]
NullableString = Annotated[str | None, Text(nullable=True)]
Bytes = Annotated[bytes, Blob(nullable=False)]
NullableBytes = Annotated[bytes | None, Blob(nullable=True)]
Array = Annotated[list[T], Many(nullable=False)]
NullableArray = Annotated[list[T] | None, Many(nullable=True)]

AnyRecords: TypeAlias = bytes | bytearray | memoryview | RecordSlice | None
ProducedRecords = Annotated[memoryview | None, RecordBytes()]
FetchedRecords = Annotated[AnyRecords, RecordBytes()]

ZERO_UUID: Final = bytes(16)


def varint(value: int) -> bytes:
    """Encode a non-negative number of at most 32 bits as an unsigned varint."""
    # Unrolled for the lengths on the hot path: up to 2 MiB of records.
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    assert value <= _VARINT_MAX, f"{value} does not fit a varint of 32 bits"
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80)) + varint(value >> 14)


def read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """Read an unsigned varint; returns the value and its end position.

    Raises WireError beyond five bytes or 32 bits, and IndexError at the buffer's end, which compiled decoders
    turn into WireError.
    """
    first = buffer[position]
    return finish_varint(buffer, position + 1, first) if first > 0x7F else (first, position + 1)


def finish_varint(buffer: memoryview, position: int, first: int) -> tuple[int, int]:
    """Read the rest of a varint whose first byte has the high bit set."""
    byte = buffer[position]
    value = first & 0x7F | (byte & 0x7F) << 7
    if byte < 0x80:
        return value, position + 1
    position += 1
    for shift in range(14, 7 * _VARINT_BYTES_MAX, 7):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _VARINT_MAX:
                raise WireError(f"a varint has more than 32 bits: {value}")
            return value, position
    raise WireError(f"a varint does not end within {_VARINT_BYTES_MAX} bytes")


def skip_tags(buffer: memoryview, position: int, first: int) -> int:
    """Skip a struct's tagged fields, none of which is known; returns the position after them.

    `position` is after the count's first byte, `first`. Raises WireError for more than TAGS_MAX fields, or
    when one ends after the buffer.
    """
    count = first
    if first > 0x7F:
        count, position = finish_varint(buffer, position, first)
    if count > TAGS_MAX:
        raise WireError(f"{count} tagged fields in one struct, {TAGS_MAX} are allowed")
    for _ in range(count):
        _tag, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        position += size
        if position > len(buffer):
            raise WireError(f"a tagged field of {size} bytes ends after the frame")
    return position
