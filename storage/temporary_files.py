"""What an interrupted deletion or compaction leaves in a partition's directory, and what becomes of it.

`.deleted` files are past use. `.cleaned` ones were never finished; while one is left, a `.swap` at or after it belongs
to the same swap, had not come into force, and goes too. Any other `.swap` is a finished compaction: it is put in
place, and what lies between the first of them and the end of the last is removed. That is what Apache Kafka does, and
`compaction.swap` is where the order comes from. A crash in here is recovered from by doing it again.
"""

from __future__ import annotations

from sordini.storage import batch_scan, names
from sordini.storage.disk import Disk


def clear_leftovers(disk: Disk, directory: str) -> list[str]:
    """Finish what was interrupted; the file names that remain, sorted. Raises OSError."""
    file_names = disk.list_directory(directory)
    if not any(name.endswith((names.DELETED, names.CLEANED, names.SWAP)) for name in file_names):
        return _without_orphans(disk, directory, file_names)
    swaps = _undo_unfinished(disk, directory, file_names)
    if swaps:
        _complete(disk, directory, swaps)
    return _without_orphans(disk, directory, disk.list_directory(directory))


def _undo_unfinished(disk: Disk, directory: str, file_names: list[str]) -> list[str]:
    """Remove what never came into force; the `.swap` files that did, sorted."""
    cleaned = [name for name in file_names if name.endswith(names.CLEANED)]
    swaps = [name for name in file_names if name.endswith(names.SWAP)]
    first_cleaned = min(map(_base_of, cleaned), default=None)
    valid = [name for name in swaps if first_cleaned is None or _base_of(name) < first_cleaned]
    # The first `.cleaned` goes last: it is what says that the others are unfinished.
    for name in [*sorted(set(swaps) - set(valid), reverse=True), *reversed(cleaned)]:
        disk.remove(f"{directory}/{name}")
    for name in file_names:
        if name.endswith(names.DELETED):
            disk.remove(f"{directory}/{name}")
    return valid


def _complete(disk: Disk, directory: str, swaps: list[str]) -> None:
    """Put finished segments in place. An index without its log is of a segment whose log has its name already."""
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
            # The log of the same name goes by the rename, its indexes now: not each has a new one.
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
    """The offset that a file is named by; -1 for a name without one."""
    stem = name.partition(".")[0]
    return int(stem) if stem.isdigit() else -1


def _without_orphans(disk: Disk, directory: str, file_names: list[str]) -> list[str]:
    """Remove indexes that have no log."""
    logs = {name.removesuffix(names.LOG) for name in file_names if name.endswith(names.LOG)}
    kept = []
    for name in file_names:
        stem, _, suffix = name.partition(".")
        if f".{suffix}" in names.SEGMENT_SUFFIXES[1:] and stem.isdigit() and stem not in logs:
            disk.remove(f"{directory}/{name}")
        else:
            kept.append(name)
    return kept
