"""Removing files and directories whose time is up, in a thread of the disk. What fails is left for the next start."""

from __future__ import annotations

from collections.abc import Callable

from sordini.storage.disk import Disk
from sordini.storage.log_dir_handle import Home


def remove_files(disk: Disk, paths: list[str]) -> None:
    """Remove files. What fails is left: the next start removes what is named so."""
    for path in paths:
        _try(disk.remove, path)


def remove_directories(home: Home, directories: list[str]) -> None:
    """Remove partitions that were deleted; as `remove_files`, but that it raises OSError when a sync fails."""
    disk = home.disk
    # Else a power failure could bring a partition's name back, with a part of its files.
    disk.sync_directory(home.path)
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
