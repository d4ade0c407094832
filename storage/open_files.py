"""A bound on open descriptors: files that are opened when they are used and closed when others need the room.

A `Handle` stands for a file by its path. `handle.file` is the open file or None; a caller on the hot path reads it
itself, sets `used`, and calls `reopen` only for None. Whatever keeps a `File` beyond one call pins the handle: a
pinned file stays open, through a rename or a removal too, and closes at the last unpin when it was condemned.
Which handles close is decided by a second-chance sweep, so that using one costs a store and no list is reordered.

Belongs to one thread at a time: a thread that syncs files is given pinned ones and never touches handles.
"""

from __future__ import annotations

import errno
from collections import deque
from typing import Final

from sordini.storage.disk import Disk, File

PINNED_BEYOND_MAX: Final = 64
"""See `pinned_beyond`."""


def pinned_beyond(limit: int) -> int:
    """How many files readers may have open past the limit; then what is not open cannot be read (EMFILE)."""
    return min(PINNED_BEYOND_MAX, limit // 4 + 1)


class Handle:
    """One file that may be open or not."""

    __slots__ = ("_condemned", "_pins", "file", "files", "path", "used")

    def __init__(self, files: OpenFiles, path: str) -> None:
        self.path = path
        self.file: File | None = None
        self.used = False
        self.files = files
        self._pins = 0
        self._condemned = False

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    @property
    def is_condemned(self) -> bool:
        """Whether the file is deleted, or will be with its last pin."""
        return self._condemned

    def reopen(self, *, create: bool = False) -> File:
        """The open file, opened now if it was not; raises OSError."""
        self.used = True
        file = self.file
        if file is None:
            assert not self._condemned, f"{self.path} was deleted"
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
        """Keep the file open until a reader has it; raises OSError EMFILE when readers hold too many others open."""
        if self.file is None and not self.files.has_room_for_readers():
            raise OSError(errno.EMFILE, "too many log files are being read at once", self.path)
        return self.pin()

    def unpin(self) -> None:
        assert self._pins > 0, f"{self.path} was unpinned more often than pinned"
        self._pins -= 1
        if self._condemned and self._pins == 0:
            self.close()

    def condemn(self) -> None:
        """Close the file now, or with the last pin; it cannot be opened again."""
        self._condemned = True
        if self._pins == 0:
            self.close()

    def close(self) -> None:
        """Close it now; it opens again at its next use. A pinned file must not be closed."""
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
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._sweep(self._open - 1):
                raise
            file = self.disk.open(handle.path, create=create)
        self._open += 1
        self._ring.append(handle)
        return file

    def has_room_for_readers(self) -> bool:
        """Whether one more file may be opened for a reader, who may keep it open for long."""
        bound = self._limit + pinned_beyond(self._limit)
        if self._open >= bound:
            self._sweep(self._limit - 1)
        return self._open < bound

    def closed(self) -> None:
        self._open -= 1
        # Handles that closed by themselves are left in the ring until there are as many of them as open ones.
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
