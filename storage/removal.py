"""Removing deleted files and directories, in a thread of the disk. The next start removes what fails here.

`LogDirectory.delete` (log_directory.py) renames the directory of a deleted partition; `log_jobs.py` has it removed once
`file.delete.delay.ms` has passed.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.storage.disk import Disk
from sordini.storage.log_dir_handle import LogDirHandle


class PendingDelete:
    """Directories of partitions that were renamed for their deletion, and when each is removed."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []
        """(when due in ms, path)"""

    def add(self, due_ms: int, path: str) -> None:
        self._due.append((due_ms, path))

    def take_due(self, now_ms: int) -> list[str]:
        """The paths whose delay has passed; each is returned once."""
        taken = [path for due_ms, path in self._due if due_ms <= now_ms]
        self._due = [entry for entry in self._due if entry[0] > now_ms]
        return taken


def remove_files(disk: Disk, paths: list[str]) -> None:
    """Remove `.deleted` files. Errors are ignored: the next start removes such files."""
    for path in paths:
        _try(disk.remove, path)


def remove_directories(log_dir: LogDirHandle, directories: list[str]) -> None:
    """Remove the directories of deleted partitions; as `remove_files`, but raises OSError when a sync fails."""
    disk = log_dir.disk
    # Else a power failure could undo the rename, with only some of the files left.
    disk.sync_directory(log_dir.path)
    for directory in directories:
        try:
            files = disk.list_directory(directory)
        except OSError:
            continue
        for name in files:
            _try(disk.remove, f"{directory}/{name}")
        _try(disk.remove_directory, directory)


def _try(action: Callable[[str], None], path: str) -> None:
    try:
        action(path)
    except OSError:
        return
