"""What an interrupted deletion or compaction leaves in a partition's directory, and what becomes of it.

`.deleted` files are past use, `.cleaned` ones were never finished. A `.swap` is a finished compaction: its segment
replaces every segment whose records it covers, and its indexes are made anew from it.
"""

from __future__ import annotations

from sordini.storage import batch_scan, names
from sordini.storage.disk import Disk


def clear_leftovers(disk: Disk, directory: str) -> list[str]:
    """Finish what was interrupted; the file names that remain, sorted. Raises OSError."""
    file_names = disk.list_directory(directory)
    if not any(name.endswith((names.DELETED, names.CLEANED, names.SWAP)) for name in file_names):
        return _without_orphans(disk, directory, file_names)
    for name in file_names:
        if name.endswith((names.DELETED, names.CLEANED)):
            disk.remove(f"{directory}/{name}")
    swaps = [name for name in file_names if name.endswith(names.SWAP)]
    for name in swaps:
        if name.endswith(names.LOG + names.SWAP):
            _complete_swap(disk, directory, name)
        else:
            disk.remove(f"{directory}/{name}")
    return _without_orphans(disk, directory, disk.list_directory(directory))


def _complete_swap(disk: Disk, directory: str, name: str) -> None:
    base = names.offset_of(name.removesuffix(names.SWAP), names.LOG)
    if base is None:
        return
    path = f"{directory}/{name}"
    file = disk.open(path, writable=False)
    try:
        end_offset = base
        for _, header in batch_scan.headers_in(file, 0, file.size()):
            end_offset = header.next_offset
    finally:
        file.close()
    for other in disk.list_directory(directory):
        for suffix in names.SEGMENT_SUFFIXES:
            covered = names.offset_of(other, suffix)
            # The segment of the same name goes last, by the rename: a crash in between finds the swap again.
            if covered is not None and base <= covered < max(end_offset, base + 1) and other != f"{base:020d}.log":
                disk.remove(f"{directory}/{other}")
    disk.rename(path, path.removesuffix(names.SWAP))


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
