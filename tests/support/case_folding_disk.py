"""A disk whose file system does not distinguish the case of letters, as macOS's does by default."""

from __future__ import annotations

from pathlib import Path

from sordini.storage.disk import File, SystemDisk


class CaseFoldingDisk(SystemDisk):
    """The machine's disk, on which a name finds an existing one that differs in case only."""

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        return super().open(existing(path), create=create, writable=writable)

    def exists(self, path: str) -> bool:
        return super().exists(existing(path))

    def is_directory(self, path: str) -> bool:
        return super().is_directory(existing(path))

    def make_directory(self, path: str) -> None:
        super().make_directory(existing(path))


def existing(path: str) -> str:
    """The path with the names that directories have, as far as it exists."""
    found = Path("/")
    for name in Path(path).parts[1:]:
        names = [one.name for one in found.iterdir()] if found.is_dir() else []
        found /= next((one for one in names if one.lower() == name.lower()), name)
    return str(found)
