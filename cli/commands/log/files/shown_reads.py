"""Progress of commands that read, copy or recover whole log directories.

On a terminal a line says which file is read, and how far.
"""

from __future__ import annotations

from typing import Self

from sordini.cli.common.output import ProgressLine, size_text
from sordini.cli.common.terminal import echo_lines
from sordini.storage.disk import File, SystemDisk
from sordini.system.clock import SystemClock


class ShownReads(SystemDisk):
    """The machine's disk; the line of progress of its reads is on standard error, and only on a terminal."""

    def __init__(self, line: ProgressLine | None = None) -> None:
        super().__init__()
        self._line = line or ProgressLine(SystemClock())

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        file = super().open(path, create=create, writable=writable)
        return file if create else _ShownFile(file, self._line)

    def echo_lines(self, text: str) -> None:
        """Print lines of the result in place of the progress."""
        self._line.clear()
        echo_lines(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.clear()


class _ShownFile:
    """A file whose reads are shown; a repair writes to what it reads, too."""

    def __init__(self, file: File, line: ProgressLine) -> None:
        self._file = file
        self._line = line
        self.size = file.size
        self.close = file.close
        self.fileno = file.fileno
        self.newest = file.newest
        self.append = file.append
        self.write_at = file.write_at
        self.truncate = file.truncate
        self.reserve = file.reserve
        self.give_back = file.give_back
        self.sync = file.sync

    @property
    def path(self) -> str:
        return self._file.path

    def read_at(self, position: int, size: int) -> bytes:
        self._line.show(f"{self._file.path}: {size_text(position)} of {size_text(self._file.size())}")
        return self._file.read_at(position, size)
