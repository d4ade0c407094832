"""Java's hash codes, by which Apache Kafka chooses partitions of internal topics and of the old producer. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_INT32_MIN: Final = -(2**31)


def text_hash(text: str) -> int:
    """`String.hashCode`, over the units of UTF-16."""
    if text.isascii():
        return _folded(0, text.encode())
    wide = text.encode("utf-16-be", "surrogatepass")
    return _folded(0, (high << 8 | low for high, low in zip(wide[::2], wide[1::2], strict=True)))


def bytes_hash(data: bytes) -> int:
    """`Arrays.hashCode` of a `byte[]`, whose bytes have signs."""
    return _folded(1, memoryview(data).cast("b"))


def number_hash(number: int) -> int:
    """`hashCode` of an Integer, or of a Long where the number has more than 32 bits. Raises ValueError beyond 64."""
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{number} is no Long")
    return number if _INT32_MIN <= number < -_INT32_MIN else _signed(number ^ (number & 2**64 - 1) >> 32)


def partition_of(hash_code: int, partitions: int) -> int:
    """The hash code without its sign, modulo the partitions."""
    # The smallest 32-bit number has no absolute value; as in Apache Kafka it becomes 0.
    return 0 if hash_code == _INT32_MIN else abs(hash_code) % partitions


def _folded(code: int, numbers: Iterable[int]) -> int:
    for number in numbers:
        code = 31 * code + number & 0xFFFF_FFFF
    return _signed(code)


def _signed(code: int) -> int:
    code &= 0xFFFF_FFFF
    return code - 2**32 if code >= 2**31 else code
