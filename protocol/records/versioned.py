"""Keys and values of the coordinators' own records: an int16 version, and a message of that version behind it.

Malformed bytes return a `Damaged` and raise nothing: one bad record must not make the groups or transactions of a
partition unavailable. Bytes after the message are ignored, as in Apache Kafka.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, TypeVar

from sordini.protocol.codecs import decode, encode
from sordini.protocol.errors import WireError
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")

_VERSION = Struct(">h")


class Damaged(NamedTuple):
    """Malformed bytes, and why."""

    reason: str


def version_of(data: bytes | memoryview) -> int | Damaged:
    """The version that a key or value begins with."""
    if len(data) < _VERSION.size:
        return Damaged(f"{len(data)} bytes are too few for a version")
    version: int = _VERSION.unpack_from(data)[0]
    return Damaged(f"version {version} is none") if version < 0 else version


def read_versioned(cls: type[T], version: int, data: bytes | memoryview, *, newest: int) -> T | Damaged:
    """Read the message after the version; `newest` is the last version of `cls`."""
    if version > newest:
        return Damaged(f"version {version} is not known")
    try:
        return decode(cls, version, memoryview(data), _VERSION.size)[0]
    except WireError as error:
        return Damaged(str(error))


def written(value: Any, version: int) -> bytes:
    """The version, followed by the message."""
    return _VERSION.pack(version) + encode(value, version)
