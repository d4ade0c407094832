"""A log's `.snapshot` files: its producers' state up to the offset that names the file.

    0  int16   version, 1
    2  uint32  CRC-32C of everything after it
    6  int32   number of producers, then for each
          int64 producer id   int16 epoch   int32 last sequence   int64 last offset   int32 offset delta
          int64 timestamp     int32 coordinator epoch              int64 first offset of its transaction, -1 none

A snapshot is written under its final name: the CRC reveals a torn one, and recovery then uses an older one and replays
the log from there.
"""

from __future__ import annotations

import struct

from sordini.protocol.crc import crc32c
from sordini.storage.checkpoints import write_over
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


NO_PRODUCERS = encode_snapshot(ProducerState())


def decode_snapshot(data: bytes) -> ProducerState | None:
    """The state in a snapshot's bytes, or None when they are damaged or of another version."""
    if data == NO_PRODUCERS:
        return ProducerState()
    if len(data) < _HEADER.size:
        return None
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION or len(data) != _HEADER.size + count * _ENTRY.size:
        return None
    if crc32c(memoryview(data)[_CHECKED_FROM:]) != crc:
        return None
    return ProducerState(ProducerEntry(*entry) for entry in _ENTRY.iter_unpack(data[_HEADER.size :]))


def write_snapshot(disk: Disk, directory: str, offset: int, state: ProducerState) -> str:
    """Write the snapshot at `offset`, unsynced; its path. Raises OSError."""
    path = f"{directory}/{file_name(offset, SNAPSHOT)}"
    write_over(disk, path, encode_snapshot(state))
    return path


def keep_snapshot(disk: Disk, directory: str, offset: int, state: ProducerState) -> None:
    """As `write_snapshot`, but skips a file with the same bytes: a start may see thousands."""
    path = f"{directory}/{file_name(offset, SNAPSHOT)}"
    try:
        if disk.read(path) == encode_snapshot(state):
            return
    except FileNotFoundError:
        pass
    write_snapshot(disk, directory, offset, state)


def newest_snapshot(disk: Disk, directory: str, offsets: list[int], at_most: int) -> tuple[int, ProducerState] | None:
    """The newest whole snapshot at one of `offsets` that is <= `at_most`; damaged ones before it are removed.

    Raises OSError.
    """
    for offset in sorted(offsets, reverse=True):
        if offset > at_most:
            continue
        path = f"{directory}/{file_name(offset, SNAPSHOT)}"
        state = decode_snapshot(disk.read(path))
        if state is not None:
            return offset, state
        disk.remove(path)
    return None


def snapshot_offsets(file_names: list[str]) -> list[int]:
    """The offsets of the snapshots among the names in a partition's directory."""
    return [
        offset for name in file_names if name.endswith(SNAPSHOT) and (offset := offset_of(name, SNAPSHOT)) is not None
    ]


def remove_snapshots(disk: Disk, directory: str, *, below: int = 0, above: int | None = None) -> None:
    """Remove the snapshots at offsets < `below` or > `above`. Raises OSError."""
    for offset in snapshot_offsets(disk.list_directory(directory)):
        if offset < below or (above is not None and offset > above):
            disk.remove(f"{directory}/{file_name(offset, SNAPSHOT)}")
