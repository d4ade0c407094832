"""Temporary files that an interrupted deletion or compaction left in a partition's directory.

`.deleted` files are removed. `.cleaned` files are of an unfinished compaction and removed; while one exists, a `.swap`
file at or after it belongs to the same unfinished swap and is removed, too. Any other `.swap` file is of a finished
compaction: it gets its name, and the segments between the first `.swap` file and the end of the last are removed.
Apache Kafka does the same, and `compaction.segment_replacement` has the order. After a crash in here the next start
repeats it.
"""

from __future__ import annotations

from sordini.storage import batch_scan, names
from sordini.storage.disk import Disk

_INDEXES = names.SEGMENT_SUFFIXES[1:]


def complete_interrupted(disk: Disk, directory: str) -> list[str]:
    """Complete or undo what was interrupted; the file names that remain, sorted. Raises OSError."""
    file_names = disk.list_directory(directory)
    together = "/".join(file_names)  # One search for all names: a start lists thousands of directories.
    if names.DELETED not in together and names.CLEANED not in together and names.SWAP not in together:
        return _without_orphans(disk, directory, file_names)
    swaps = _undo_unfinished(disk, directory, file_names)
    if swaps:
        _complete(disk, directory, swaps)
    return _without_orphans(disk, directory, disk.list_directory(directory))


def _undo_unfinished(disk: Disk, directory: str, file_names: list[str]) -> list[str]:
    """Remove the files of unfinished swaps; the `.swap` files of finished compactions, sorted."""
    cleaned = [name for name in file_names if name.endswith(names.CLEANED)]
    swaps = [name for name in file_names if name.endswith(names.SWAP)]
    first_cleaned = min(map(_base_of, cleaned), default=None)
    valid = [name for name in swaps if first_cleaned is None or _base_of(name) < first_cleaned]
    # The first `.cleaned` is removed last: it marks the others as unfinished.
    for name in [*sorted(set(swaps) - set(valid), reverse=True), *reversed(cleaned)]:
        disk.remove(f"{directory}/{name}")
    for name in file_names:
        if name.endswith(names.DELETED):
            disk.remove(f"{directory}/{name}")
    return valid


def _complete(disk: Disk, directory: str, swaps: list[str]) -> None:
    """Put finished segments in place. An index without its log is of a segment whose log was renamed already."""
    logs = [name for name in swaps if name.endswith(names.LOG + names.SWAP)]
    if logs:
        start = _base_of(logs[0])
        end = max(_end_offset(disk, f"{directory}/{name}", _base_of(name)) for name in logs)
        bases = {_base_of(name) for name in logs}
        for name in disk.list_directory(directory):
            stem, _, suffix = name.partition(".")
            if f".{suffix}" not in names.SEGMENT_SUFFIXES or not stem.isdigit():
                continue
            base = int(stem)
            # A rename replaces the log of the same name; its indexes are removed, as not each has a new one.
            if start <= base < end or (base in bases and f".{suffix}" != names.LOG):
                disk.remove(f"{directory}/{name}")
    for name in sorted(swaps, key=lambda name: (_base_of(name), names.LOG not in name)):
        disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(names.SWAP)}")


def _end_offset(disk: Disk, path: str, base: int) -> int:
    """The first offset after the batches of a file."""
    file = disk.open(path, writable=False)
    try:
        end_offset = base
        for _, header in batch_scan.headers_in(file, 0, file.size()):
            end_offset = header.next_offset
        return end_offset
    finally:
        file.close()


def _base_of(name: str) -> int:
    """The offset in a file's name; -1 for a name without one."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1


def _without_orphans(disk: Disk, directory: str, file_names: list[str]) -> list[str]:
    """Remove indexes that have no log."""
    present = set(file_names)
    orphans = [name for name in file_names if name.endswith(_INDEXES) and _is_orphan(name, present)]
    for name in orphans:
        disk.remove(f"{directory}/{name}")
    return [name for name in file_names if name not in orphans] if orphans else file_names


def _is_orphan(name: str, present: set[str]) -> bool:
    stem, _, suffix = name.partition(".")
    return f"{stem}{names.LOG}" not in present and stem.isdigit() and f".{suffix}" in _INDEXES
