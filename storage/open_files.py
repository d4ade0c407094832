"""A bound on open descriptors: files are opened at their use, and closed when others need the descriptors.

A `Handle` stands for a file by its path. `handle.file` is the open file or None; a caller on the hot path reads it
itself, sets `used`, and calls `reopen` only for None. A caller that keeps a `File` beyond one call pins the handle: a
pinned file stays open, also through a rename or a removal, and a retired one closes at its last unpin. A second-chance
sweep (the clock algorithm) chooses which handles close, so a use costs one store and no list is reordered.

Used by the loop's thread only: a thread that syncs files gets pinned `File`s and never touches handles.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import Final

from sordini.storage.disk import Disk, File

PINNED_BEYOND_MAX: Final = 64
"""See `pinned_beyond`."""


def pinned_beyond(limit: int) -> int:
    """How many files readers may have open beyond the limit; past that, opening one for a reader fails (EMFILE)."""
    return min(PINNED_BEYOND_MAX, limit // 4 + 1)


class Handle:
    """One file, open or closed."""

    __slots__ = ("_pins", "file", "files", "is_retired", "path", "used")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self.path = path
        self.file: File | None = None
        self.used = False
        self.files = files
        self._pins = 0
        self.is_retired = False
        """The file is deleted or its log closed: it closes at the last unpin, and cannot be opened again."""

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    def reopen(self, *, create: bool = False) -> File:
        """The open file, opened now if it was not; raises OSError."""
        self.used = True
        file = self.file
        if file is None:
            assert not self.is_retired, f"{self.path} was deleted"
            file = self.file = self.files.open(self, create=create)
        return file

    def pin(self) -> File:
        """Keep the file open until `unpin`."""
        file = self.file
        if file is None:
            file = self.reopen()
        self.used = True
        self._pins += 1
        return file

    def pin_to_send(self) -> File:
        """As `pin`, for a reader; raises OSError EMFILE when readers already hold too many files open."""
        if self.file is None and not self.files.has_room_for_readers():
            raise OSError(errno.EMFILE, "too many log files are being read at once", self.path)
        return self.pin()

    def unpin(self) -> None:
        assert self._pins > 0, f"{self.path} was unpinned more often than pinned"
        self._pins -= 1
        if self.is_retired and self._pins == 0:
            self.close()

    def retire(self) -> None:
        """Close the file now or at the last unpin; it cannot be opened again."""
        self.is_retired = True
        if self._pins == 0:
            self.close()

    def close(self) -> None:
        """Close the file now; its next use opens it again. A pinned file must not be closed."""
        assert self._pins == 0, f"{self.path} is pinned"
        if self.file is not None:
            file, self.file = self.file, None
            file.close()
            self.files.closed()


class OpenFiles:
    """All handles of a store; at most `limit` files stay open, and more only while they are pinned."""

    def __init__(self, disk: Disk, limit: int) -> None:
        assert limit > 0
        self.disk = disk
        self._limit = limit
        self._open = 0
        self._ring: deque[Handle] = deque()

    @property
    def open_count(self) -> int:
        return self._open

    def open(self, handle: Handle, *, create: bool) -> File:
        """Open a handle's file for it, closing others if there are too many."""
        if self._open >= self._limit:
            self._sweep(self._limit - 1)
        try:
            file = self.disk.open(handle.path, create=create)
        except OSError as error:
            # With no file of ours left to close it is the system's refusal; it was an IndexError once (found by `make
            # crash`).
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._sweep(self._open - 1):
                raise
            file = self.disk.open(handle.path, create=create)
        self._open += 1
        self._ring.append(handle)
        return file

    def has_room_for_readers(self) -> bool:
        """Whether one more file may be opened for a reader, which may keep it open for long."""
        bound = self._limit + pinned_beyond(self._limit)
        if self._open >= bound:
            self._sweep(self._limit - 1)
        return self._open < bound

    def closed(self) -> None:
        self._open -= 1
        # Closed handles stay in the ring until they outnumber the open ones.
        if len(self._ring) > 2 * self._limit + 64:
            self._ring = deque(dict.fromkeys(handle for handle in self._ring if handle.file is not None))

    def _sweep(self, open_max: int) -> bool:
        """Close files that are not pinned until `open_max` are open, if there are so many; whether any was closed."""
        before = self._open
        for _ in range(2 * len(self._ring)):
            if self._open <= open_max or not self._ring:
                break
            handle = self._ring.popleft()
            if handle.file is None:
                continue
            if handle.used or handle.is_pinned:
                handle.used = False
                self._ring.append(handle)
            else:
                handle.close()
        return self._open < before
