"""Repairs a copy of a verified directory. The original is only read.

First everything is removed that recovery would trust or refuse: files that contradict the log, batches with a right CRC
and invalid records, duplicate segments. Then the broker's own recovery opens the copy as after a crash, from its first
byte, and closes it as after a clean shutdown: this rebuilds indexes, transaction indexes, the snapshot, leader epochs
and checkpoints.
"""

from __future__ import annotations

import random
from typing import Final

from sordini.cli.commands.log.verify.directory import CHECKPOINTS, DirectoryReport
from sordini.cli.commands.log.verify.partition import PartitionReport
from sordini.protocol.types import TopicPartition
from sordini.storage import names
from sordini.storage.checkpoints import read_offsets, write_offsets
from sordini.storage.clean_shutdown import close_logs_cleanly
from sordini.storage.disk import Disk
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_dir_handle import LogDirHandle
from sordini.storage.log_directory import LogDirectory
from sordini.storage.open_files import OpenFiles
from sordini.storage.recovery import Opening, open_log
from sordini.system.named_tuple import NamedTuple

COPY_BYTES: Final = 4 * 1024 * 1024
OPEN_FILES_MAX: Final = 256
CONFIG: Final = LogConfig(cleanup_compact=True, producer_expiration_ms=2**62)
"""Records after a gap are kept, and producers do not expire."""
_REMOVED: Final = {
    "epochs-damaged",
    "epochs-disorder",
    "epochs-wrong",
    "epochs-beyond",
    "metadata-damaged",
    "snapshot-damaged",
    "snapshot-wrong",
    "snapshot-beyond",
    "meta-damaged",
    "checkpoint-damaged",
}
"""Kinds of findings whose file is removed: it is rebuilt, or not needed."""


class Repaired(NamedTuple):
    """The result of the repair of one partition."""

    path: str
    start_offset: int
    end_offset: int
    lost: tuple[tuple[int, int], ...]
    """Ranges of (first, last) offsets that existed, or seemed to, and are lost."""
    bytes_cut: int


def tree_size(disk: Disk, path: str) -> int:
    """Bytes of all files below a directory."""
    directories = set(disk.directories(path))
    own = sum(disk.file_size(f"{path}/{name}") for name in disk.list_directory(path) if name not in directories)
    return own + sum(tree_size(disk, f"{path}/{name}") for name in directories)


def copy_tree(disk: Disk, source: str, target: str) -> None:
    """Copy a directory with everything below it, and the files' own times. Raises OSError."""
    disk.make_directory(target)
    directories = set(disk.directories(source))
    for name in disk.list_directory(source):
        if name in directories:
            copy_tree(disk, f"{source}/{name}", f"{target}/{name}")
        elif name != names.LOCK:
            _copy_file(disk, f"{source}/{name}", f"{target}/{name}")


def _copy_file(disk: Disk, source: str, target: str) -> None:
    read = disk.open(source, writable=False)
    try:
        written = disk.open(target, create=True)
        try:
            for position in range(0, read.size(), COPY_BYTES):
                data = read.read_at(position, COPY_BYTES)
                while data:
                    data = data[written.append((data,)) :]
        finally:
            written.close()
    finally:
        read.close()
    disk.set_modified_ms(target, disk.modified_ms(source))


def repair_directory(disk: Disk, path: str, report: DirectoryReport, now_ms: int) -> list[Repaired]:
    """Repair the copy of a log directory in place. Raises OSError, StorageError, DamagedFile."""
    _remove_files(disk, path, report)
    for name in (names.CLEAN_MARKER, names.RECOVERY_POINTS):
        if disk.exists(f"{path}/{name}"):
            disk.remove(f"{path}/{name}")
    _remove_wrong_log_starts(disk, path, report)
    for found in report.partitions:
        _prepare(disk, _in(path, found.path), found)
    directory = LogDirectory(_home(disk, path))
    try:
        directory.load(lambda _: CONFIG, now_ms)
        ends = {log.directory: (log.log_start_offset, log.log_end_offset) for log in directory.logs.values()}
        sizes = {log.directory: log.size for log in directory.logs.values()}
        directory.close()
    finally:
        directory.close_without_flush()
    return [
        _outcome(found, _in(path, found.path), *ends[_in(path, found.path)], sizes[_in(path, found.path)])
        for found in report.partitions
    ]


def repair_partition(disk: Disk, path: str, report: PartitionReport, now_ms: int) -> Repaired:
    """Repair the copy of one partition's directory in place. Raises OSError, StorageError, DamagedFile."""
    _prepare(disk, path, report)
    partition = names.partition_of(path.rpartition("/")[2]) or TopicPartition("copy", 0)
    # With a log start offset past the end, recovery would delete everything.
    start = report.start_offset if report.start_offset <= report.end_offset else None
    opening = Opening(partition, path, CONFIG, is_clean=False, log_start_offset=start)
    log: Log = open_log(_home(disk, path.rpartition("/")[0]), opening, now_ms)
    outcome = _outcome(report, path, log.log_start_offset, log.log_end_offset, log.size)
    close_logs_cleanly(log.log_dir.disk, [log])
    return outcome


def _home(disk: Disk, path: str) -> LogDirHandle:
    # Randomness is not used here: no segment is rolled and no partition deleted.
    return LogDirHandle(disk, path, OpenFiles(disk, OPEN_FILES_MAX), random.Random(0))  # noqa: S311 - see above.


def _in(copy: str, original: str) -> str:
    return f"{copy}/{original.rpartition('/')[2]}"


def _remove_files(disk: Disk, path: str, report: DirectoryReport | PartitionReport) -> None:
    for finding in report.findings:
        name = finding.path.rpartition("/")[2]
        if finding.kind in _REMOVED and disk.exists(f"{path}/{name}"):
            disk.remove(f"{path}/{name}")


def _remove_wrong_log_starts(disk: Disk, path: str, report: DirectoryReport) -> None:
    """Remove checkpoint entries that would make recovery delete a log."""
    wrong = {
        found.path.rpartition("/")[2]
        for found in report.partitions
        if any(finding.kind in {"log-start-beyond", "log-start-below"} for finding in found.findings)
    }
    for name in CHECKPOINTS:
        offsets = read_offsets(disk, path, name)
        kept = {partition: offset for partition, offset in offsets.items() if str(partition) not in wrong}
        if len(kept) < len(offsets) and name == names.LOG_STARTS:
            write_offsets(disk, path, name, kept)


def _prepare(disk: Disk, directory: str, report: PartitionReport) -> None:
    _remove_files(disk, directory, report)
    end_offset = None
    is_truncated = False
    for segment in report.segments:
        overlaps = end_offset is not None and segment.base < end_offset
        if is_truncated or overlaps:
            # A segment whose offsets all exist before is redundant; otherwise the log is unreliable from here on.
            is_truncated = is_truncated or (end_offset is not None and segment.end_offset > end_offset)
            _remove_segment(disk, directory, segment.base)
            continue
        if segment.good_end < segment.size:
            _truncate(disk, _in(directory, segment.path), segment.good_end)
            is_truncated = True
        end_offset = segment.end_offset


def _remove_segment(disk: Disk, directory: str, base: int) -> None:
    for suffix in reversed(names.SEGMENT_SUFFIXES):
        path = f"{directory}/{names.file_name(base, suffix)}"
        if disk.exists(path):
            disk.remove(path)


def _truncate(disk: Disk, path: str, size: int) -> None:
    file = disk.open(path)
    try:
        file.truncate(size)
        file.sync()
    finally:
        file.close()


def _outcome(report: PartitionReport, path: str, start_offset: int, end_offset: int, size: int) -> Repaired:
    lost = []
    claimed_end = max([report.end_offset, *(segment.claimed_end for segment in report.segments)])
    if claimed_end > end_offset:
        lost.append((end_offset, claimed_end - 1))
    if start_offset > report.start_offset:
        lost.append((report.start_offset, start_offset - 1))
    return Repaired(path, start_offset, end_offset, tuple(lost), max(report.total("size") - size, 0))
