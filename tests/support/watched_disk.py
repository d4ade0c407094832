"""A disk that notes what is read: reads are what lookups are counted by."""

from __future__ import annotations

from sordini.storage.disk import File
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk


class Watched(ForgetfulDisk):
    """`reads` has the position and size of each read of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int]] = []

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file = super().open(path, create=create, writable=writable)
        read_at = file.read_at

        def noted(position: int, size: int) -> bytes:
            self.reads.append((position, size))
            return read_at(position, size)

        file.read_at = noted  # type: ignore[method-assign]
        return file
