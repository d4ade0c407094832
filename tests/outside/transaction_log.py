"""What was written to a ZooKeeper, read from its transaction logs: the one witness who sees which writes were one.

    file    "ZKLG", version, database id, then records up to the zeros that the file was made with
    record  Adler-32 of the transaction, its length, the transaction, "B"
    transaction  header (session, its call number, zxid, time, kind), then what the kind says; all numbers big-endian

Only what can be read is returned: a record that is just being written ends the reading.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

_FILE_HEAD: Final = 16
_RECORD_HEAD: Final = struct.Struct(">qi")
_TXN_HEAD: Final = struct.Struct(">qiqqi")
_INT: Final = struct.Struct(">i")
_CREATES: Final = frozenset({1, 15, 19, 21})  # Plain, with its stat, of a container, with a time to live.
_DELETES: Final = frozenset({2, 20})
_SET, _CHECK, _MULTI = 5, 13, 14


class Operation(NamedTuple):
    """One change of one node, or the check of its version that stands before it.

    `version` is the node's after a "set", the one that was demanded for a "check", and None for the others.
    """

    kind: str
    path: str
    data: bytes = b""
    version: int | None = None


class Transaction(NamedTuple):
    """What was written at once. A multi that was refused is not among them."""

    zxid: int
    session: int
    operations: tuple[Operation, ...]


def transactions(directory: Path, after: int = 0) -> list[Transaction]:
    """All that changed nodes since a transaction id, in order. `directory` is the server's dataDir."""
    found = []
    for path in sorted((directory / "version-2").glob("log.*"), key=lambda one: int(one.suffix[1:], 16)):
        found += [one for one in _of_file(path.read_bytes()) if one.zxid > after and one.operations]
    return found


def _of_file(content: bytes) -> Iterator[Transaction]:
    position = _FILE_HEAD
    while position + _RECORD_HEAD.size <= len(content):
        checksum, size = _RECORD_HEAD.unpack_from(content, position)
        start = position + _RECORD_HEAD.size
        body = content[start : start + size]
        if size <= 0 or len(body) < size or zlib.adler32(body) != checksum:
            return
        session, _, zxid, _, kind = _TXN_HEAD.unpack_from(body)
        yield Transaction(zxid, session, tuple(_operations(kind, body[_TXN_HEAD.size :])))
        position = start + size + 1


def _operations(kind: int, body: bytes) -> Iterator[Operation]:
    if kind == _MULTI:
        (count,) = _INT.unpack_from(body)
        position = _INT.size
        for _ in range(count):
            (one,) = _INT.unpack_from(body, position)
            part, position = _field(body, position + _INT.size)
            yield from _operations(one, part)
        return
    if kind not in _CREATES | _DELETES | {_SET, _CHECK}:
        return  # Sessions that begin and end, parts of a multi that failed.
    path, position = _field(body, 0)
    name = path.decode()
    if kind in _CREATES:
        yield Operation("create", name, _field(body, position)[0])
    elif kind in _DELETES:
        yield Operation("delete", name)
    elif kind == _SET:
        data, position = _field(body, position)
        yield Operation("set", name, data, _INT.unpack_from(body, position)[0])
    else:
        yield Operation("check", name, version=_INT.unpack_from(body, position)[0])


def _field(body: bytes, position: int) -> tuple[bytes, int]:
    """A length and so many bytes; the length of nothing is -1."""
    (size,) = _INT.unpack_from(body, position)
    start = position + _INT.size
    end = start + max(0, size)
    return body[start:end], end
