"""An open file of the disk that forgets (`forgetful_disk`)."""

from __future__ import annotations

import errno as errors
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sordini.storage.disk import NEWEST_BYTES_MAX, Buffer
from sordini.testing.simulation.forgetful_nodes import Node

if TYPE_CHECKING:
    from sordini.testing.simulation.forgetful_disk import ForgetfulDisk


class ForgetfulFile:
    """A descriptor of a node; it keeps working after the name is gone, as the real ones do."""

    def __init__(self, disk: ForgetfulDisk, path: str, node: Node) -> None:
        self._disk = disk
        self._path = path
        self._node = node
        self._closed = False
        self._newest_from = len(node.data)
        disk.open_files += 1

    @property
    def path(self) -> str:
        return self._path

    @property
    def node(self) -> Node:
        """The file itself, which outlives this descriptor."""
        return self._node

    def fileno(self) -> int:
        raise OSError(errors.ENOTSUP, "a file in memory has no descriptor")

    def _check(self) -> None:
        self._disk.check_alive()
        if self._closed:
            raise OSError(errors.EBADF, "the file is closed", self._path)

    def size(self) -> int:
        self._check()
        return len(self._node.data)

    def append(self, buffers: Sequence[Buffer]) -> int:
        end, whole = len(self._node.data), b"".join(buffers)
        before = min(self._newest_from, end)
        written = self.write_at(end, whole)
        if written == len(whole) <= NEWEST_BYTES_MAX:
            self._newest_from = before if end + written - before <= NEWEST_BYTES_MAX else end
        return written

    def read_at(self, position: int, size: int) -> bytes:
        self._check()
        self._disk.check_read("read", self._path)
        return bytes(self._node.data[position : position + size])

    def write_at(self, position: int, data: Buffer) -> int:
        self._check()
        whole = bytes(data)
        self._newest_from = 2**63

        def write(share: float) -> int:
            part = whole[: int(len(whole) * share)]
            self._node.write(position, part)
            self._node.modified_ms = self._disk.now_ms()
            return len(part)

        return self._disk.change("write", self._path, write)

    def truncate(self, size: int) -> None:
        self._check()
        self._newest_from = 2**63

        def truncate(share: float) -> int:
            if share == 1.0:
                self._node.truncate(size)
            return 0

        self._disk.change("truncate", self._path, truncate)

    def newest(self, position: int, size: int) -> bytes | None:
        self._check()
        if not self._newest_from <= position <= position + size <= len(self._node.data):
            return None
        return bytes(self._node.data[position : position + size])

    def reserve(self, size: int) -> None:
        self._check()
        self._disk.reserved[self._path] = size

    def give_back(self) -> None:
        self._check()
        self._disk.reserved.pop(self._path, None)

    def sync(self) -> None:
        self._check()

        def sync(share: float) -> int:
            if share == 1.0:
                self._node.sync()
            return 0

        try:
            self._disk.change("sync", self._path, sync)
        except OSError as error:
            if error.errno == errors.EIO and self._disk.forgets_what_failed:
                self._node.drop(self._disk.chance)
                self._disk.has_dropped = True
            raise

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._disk.open_files -= 1
            self._disk.release_lock(self._path, self._node)
