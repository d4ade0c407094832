"""What a directory must be like when the marker of a clean stop lies in it: Apache Kafka believes it unread."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from sordini.protocol.records.batch import HEADER_SIZE, crc_is_right, read_header
from sordini.storage import names
from sordini.storage.producer_snapshots import decode_snapshot
from tests.crash.expected_log import require


def check_stopped(directory: str, tree: Mapping[str, bytes]) -> bool:
    """Whether `directory` has the marker; raises Violation when it should not have."""
    if f"{directory}/{names.CLEAN_MARKER}" not in tree:
        return False
    points_path = f"{directory}/{names.RECOVERY_POINTS}"
    require(points_path in tree, directory, "has the marker and no recovery points")
    points = _offsets(tree[points_path])
    partitions: dict[str, dict[str, bytes]] = {}
    for path, data in tree.items():
        home, _, name = path.rpartition("/")
        if home.startswith(f"{directory}/") and names.partition_of(home.rpartition("/")[2]) is not None:
            partitions.setdefault(home, {})[name] = data
    for home, files in partitions.items():
        end = _check_partition(home, files)
        partition = names.partition_of(home.rpartition("/")[2])
        require(points.get(partition) == end, home, f"ends at {end}, the recovery point is {points.get(partition)}")
    return True


def _offsets(data: bytes) -> dict[object, int]:
    lines = data.decode().split("\n")
    require(lines[0] == "0" and int(lines[1]) == len(lines) - 3, "a checkpoint cannot be parsed:", lines)
    return {names.partition_of("{}-{}".format(*line.split(" "))): int(line.split(" ")[2]) for line in lines[2:-1]}


def _check_partition(home: str, files: Mapping[str, bytes]) -> int:
    """Indexes without padding, whole batches, a snapshot at the end; the end."""
    logs = sorted(name for name in files if name.endswith(names.LOG))
    require(bool(logs), home, "has no segment beside the marker")
    end = 0
    for name in logs:
        base = int(name.removesuffix(names.LOG))
        end, newest = _check_batches(f"{home}/{name}", files[name], base)
        stem = name.removesuffix(names.LOG)
        offsets = _entries(home, files, stem + names.OFFSET_INDEX, ">ii")
        require(offsets == sorted(set(offsets)), home, f"{stem}.index does not rise: {offsets}")
        require((0, 0) not in offsets, home, f"{stem}.index is padded")
        times = _entries(home, files, stem + names.TIME_INDEX, ">qi")
        require(times == sorted(set(times)), home, f"{stem}.timeindex does not rise: {times}")
        last = times[-1][0] if times else -1
        require(last == newest, home, f"{stem}.timeindex ends with {last}, the newest time is {newest}")
    snapshot = files.get(names.file_name(end, names.SNAPSHOT))
    require(snapshot is not None, home, f"has no snapshot at its end {end}: {sorted(files)}")
    require(snapshot is not None and decode_snapshot(snapshot) is not None, home, f"has a torn snapshot at {end}")
    return end


def _check_batches(path: str, data: bytes, base: int) -> tuple[int, int]:
    """(end offset, newest time) of a file that must be whole."""
    position, end, newest = 0, base, -1
    while position < len(data):
        require(len(data) - position >= HEADER_SIZE, path, f"ends inside a header at {position}")
        header = read_header(data, position)
        image = data[position : position + header.size]
        is_right = len(image) == header.size >= HEADER_SIZE and crc_is_right(image, 0, header)
        require(is_right and header.base_offset >= end, path, f"is damaged at {position}")
        end, newest = header.next_offset, max(newest, header.max_timestamp)
        position += header.size
    return end, newest


def _entries(home: str, files: Mapping[str, bytes], name: str, form: str) -> list[tuple[int, int]]:
    require(name in files, home, f"{name} is missing beside the marker")
    size = struct.calcsize(form)
    require(len(files[name]) % size == 0, home, f"{name} has {len(files[name])} bytes")
    return list(struct.iter_unpack(form, files[name]))
