"""A log's `.snapshot` files: its producers' state up to the offset that names the file.

    0  int16   version, 1
    2  uint32  CRC-32C of everything after it
    6  int32   number of producers, then for each
          int64 producer id   int16 epoch   int32 last sequence   int64 last offset   int32 offset delta
          int64 timestamp     int32 coordinator epoch              int64 first offset of its transaction, -1 none

A snapshot is written in one go under its own name: the CRC tells a torn one, and recovery then takes an older one
and replays the log from there.
"""

from __future__ import annotations

import errno
import struct

from crc32c import crc32c

from sordini.storage.disk import Disk
from sordini.storage.names import SNAPSHOT, file_name, offset_of
from sordini.storage.producer_state import ProducerEntry, ProducerState

VERSION = 1
_HEADER = struct.Struct(">hIi")
_ENTRY = struct.Struct(">qhiqiqiq")
_CHECKED_FROM = 6


def encode_snapshot(state: ProducerState) -> bytes:
    """The bytes of a snapshot of `state`."""
    entries = b"".join(_ENTRY.pack(*entry) for entry in state.entries())
    count = len(entries) // _ENTRY.size
    data = bytearray(_HEADER.pack(VERSION, 0, count) + entries)
    struct.pack_into(">I", data, 2, crc32c(memoryview(data)[_CHECKED_FROM:]))
    return bytes(data)


def decode_snapshot(data: bytes) -> ProducerState | None:
    """The state in a snapshot's bytes, or None when they are damaged or of another version."""
    if len(data) < _HEADER.size:
        return None
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION or len(data) != _HEADER.size + count * _ENTRY.size:
        return None
    if crc32c(memoryview(data)[_CHECKED_FROM:]) != crc:
        return None
    return ProducerState(ProducerEntry(*entry) for entry in _ENTRY.iter_unpack(data[_HEADER.size :]))


def write_snapshot(disk: Disk, directory: str, offset: int, state: ProducerState, *, sync: bool) -> None:
    """Write the snapshot at `offset`; on the disk only with `sync` and a sync of the directory. Raises OSError."""
    path = f"{directory}/{file_name(offset, SNAPSHOT)}"
    data = encode_snapshot(state)
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        if file.append((data,)) != len(data):
            raise OSError(errno.ENOSPC, "a short write", path)
        if sync:
            file.sync()
    finally:
        file.close()


def newest_snapshot(disk: Disk, directory: str, names: list[str], at_most: int) -> tuple[int, ProducerState] | None:
    """The newest whole snapshot at an offset <= `at_most`; damaged ones met on the way are removed."""
    offsets = sorted(offset for name in names if (offset := offset_of(name, SNAPSHOT)) is not None)
    for offset in reversed(offsets):
        if offset > at_most:
            continue
        path = f"{directory}/{file_name(offset, SNAPSHOT)}"
        file = disk.open(path, writable=False)
        try:
            state = decode_snapshot(file.read_at(0, file.size()))
        finally:
            file.close()
        if state is not None:
            return offset, state
        disk.remove(path)
    return None


def remove_snapshots(disk: Disk, directory: str, *, below: int = 0, above: int | None = None) -> None:
    """Remove the snapshots at offsets < `below` or > `above`. Raises OSError."""
    for name in disk.list_directory(directory):
        offset = offset_of(name, SNAPSHOT)
        if offset is not None and (offset < below or (above is not None and offset > above)):
            disk.remove(f"{directory}/{name}")
