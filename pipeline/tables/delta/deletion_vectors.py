"""Deletion vectors of Delta's protocol: which rows of a data file are deleted, without rewriting the file.

A vector is a set of row numbers (from 0, in the order of the file), as a roaring bitmap of 64 bits in its portable
form. One file has the vectors of one commit:

    1 byte    the format's version, 1
    then for each vector:
    4 bytes   its length, big-endian
    4 bytes   1681511377, little-endian: the portable form
    ...       the bitmap; both are what `length` counts
    4 bytes   CRC-32 of them, big-endian

An `add` action names its vector by a descriptor: the file's UUID in base 85 (of ZeroMQ), offset, length, cardinality.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID, uuid4

from pyroaring import BitMap64

from sordini.pipeline.tables.table import TableError

Descriptor = dict[str, Any]
"""The field `deletionVector` of an `add` action."""

_VERSION: Final = b"\x01"
_MAGIC: Final = struct.pack("<i", 1681511377)
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_DIGITS: Final = 20
_BESIDE, _INLINE = "u", "i"


def encode(vectors: Mapping[str, BitMap64]) -> tuple[str, bytes, dict[str, Descriptor]]:
    """The name and contents of a file with these vectors, and the descriptor of each, by the same names."""
    identity = uuid4()
    contents = bytearray(_VERSION)
    descriptors: dict[str, Descriptor] = {}
    for name, rows in vectors.items():
        data = _MAGIC + rows.serialize()
        descriptors[name] = {
            "storageType": _BESIDE,
            "pathOrInlineDv": _to_base_85(identity.bytes),
            "offset": len(contents),
            "sizeInBytes": len(data),
            "cardinality": len(rows),
        }
        contents += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return _file_name("", identity), bytes(contents), descriptors


def decode(descriptor: Descriptor, read: Callable[[str], bytes]) -> BitMap64:
    """The vector of a descriptor; `read` returns the bytes of a file below the table's folder. Raises TableError."""
    if descriptor["storageType"] == _INLINE:
        data = _from_base_85(descriptor["pathOrInlineDv"])[: descriptor["sizeInBytes"]]
    else:
        path = vector_path(descriptor)
        assert path is not None, "it is not in the log"
        start = int(descriptor.get("offset") or 0)
        contents = read(path)
        end = start + 4 + descriptor["sizeInBytes"]
        data = contents[start + 4 : end]
        if contents[end : end + 4] != struct.pack(">I", zlib.crc32(data)):
            raise TableError(f"the deletion vector at byte {start} of {path} is damaged: its checksum is another")
    if data[:4] != _MAGIC:
        raise TableError(f"a deletion vector has an unknown form ({data[:4].hex()})")
    return BitMap64.deserialize(data[4:])


def vector_path(descriptor: Descriptor) -> str | None:
    """The file of a vector, below the table's folder; None if it is in the log. Raises TableError."""
    kind, text = descriptor["storageType"], descriptor["pathOrInlineDv"]
    if kind == _INLINE:
        return None
    if kind != _BESIDE:
        raise TableError(f"a deletion vector is at {text}, outside the table's folder")
    prefix, digits = text[:-_UUID_DIGITS], text[-_UUID_DIGITS:]
    return _file_name(prefix, UUID(bytes=_from_base_85(digits)))


def _file_name(prefix: str, identity: UUID) -> str:
    return f"{prefix}/deletion_vector_{identity}.bin".lstrip("/")


def _to_base_85(data: bytes) -> str:
    """`data` has a multiple of four bytes."""
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        text += "".join(_DIGITS[number // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return text


def _from_base_85(text: str) -> bytes:
    values = [_DIGITS.index(digit) for digit in text]
    numbers = (
        sum(value * 85 ** (4 - at) for at, value in enumerate(values[each : each + 5]))
        for each in range(0, len(values), 5)
    )
    return b"".join(struct.pack(">I", number) for number in numbers)
