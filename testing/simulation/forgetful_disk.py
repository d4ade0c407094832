"""A disk in memory that forgets what was not synced.

Every file has two images: the page cache (what a reader sees) and the disk (what the last `sync` promised), with the
operations between them in order. Every directory has the same pair for its names. `killed()` gives the disk another
process finds when this one died: the page cache as it was. `power_lost(seed)` gives what is found after the power
failed: the synced image, plus a seeded choice of the operations after it - whole, torn at any byte or sector, as
zeros, damaged - and of every directory's operations a prefix, as a journal keeps them (`forgetful_nodes`).

`die_at(n)` ends the "process" inside the n-th call that changes something: `Died` is raised, from that call and from
every later one. `fail(n, errno)` makes such a call fail once, `fail_while(predicate, errno)` whenever it is asked,
`refuse_while` does so for calls that only look (open, read, stat, list), `shorten(n)` makes a write take only half
of its bytes. A `sync` that fails with EIO drops what it should have written, and the next one succeeds (fsyncgate).
"""

from __future__ import annotations

import errno as errors
import os
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sordini.storage.disk import File
from sordini.testing.brokers.loop_processes import Died
from sordini.testing.simulation.forgetful_file import ForgetfulFile
from sordini.testing.simulation.forgetful_nodes import Node, after_power_loss, copied, name_of, parent_of

T = TypeVar("T")


DISK_BYTES = 1 << 40
"""What `space` reports; writes fail for lack of it only where a test sets that."""


class ForgetfulDisk:
    """`sordini.storage.disk.Disk` in memory, with the faults of the module's text.

    `log` holds (kind, path) of every call that changed something, for choosing where to strike.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.now_ms = now_ms
        self.root = Node(directory=True)
        self.forgets_what_failed = True
        self.has_dropped = False
        """A sync failed with EIO: the data may be missing, for every reader."""
        self.calls = 0
        self.open_files = 0
        self.log: list[tuple[str, str]] = []
        self.reserved: dict[str, int] = {}
        """Bytes reserved by path. They are no part of any file, so nothing of them is found afterwards."""
        self.chance = random.Random(0)
        """Decides what a failed sync drops."""
        self.before_offload: Callable[[], Awaitable[None]] | None = None
        self.after_offload: Callable[[], Awaitable[None]] | None = None
        self._locked: set[int] = set()
        self._dead = False
        self._die_at = -1
        self._die_share = 1.0
        self._failures: dict[int, int] = {}
        self._short: set[int] = set()
        self._failing: list[tuple[Callable[[str, str], bool], int]] = []
        self._refusing: list[tuple[Callable[[str, str], bool], int]] = []

    # Faults.

    def die_at(self, call: int, share: float = 0.0) -> None:
        """Crash inside the `call`-th change from now on (1 is the next), `share` of a write having been done."""
        self._die_at = self.calls + call
        self._die_share = share

    def fail(self, call: int, errno: int) -> None:
        """Make the `call`-th change from now on fail once, without effect."""
        self._failures[self.calls + call] = errno

    def shorten(self, call: int) -> None:
        """Make the `call`-th change from now on write half, if it is a write."""
        self._short.add(self.calls + call)

    def fail_while(self, applies: Callable[[str, str], bool], errno: int) -> None:
        """Fail every change for which `applies(kind, path)` holds, until `heal`."""
        self._failing.append((applies, errno))

    def refuse_while(self, applies: Callable[[str, str], bool], errno: int) -> None:
        """Fail every call that only looks for which `applies(kind, path)` holds, until `heal`."""
        self._refusing.append((applies, errno))

    def heal_faults(self) -> None:
        """As `heal`, but a crash that was ordered still happens."""
        self._failing.clear()
        self._refusing.clear()
        self._failures.clear()
        self._short.clear()

    def heal(self) -> None:
        self.heal_faults()
        self._die_at = -1

    def kill(self) -> None:
        """From now on every call raises `Died`."""
        self._dead = True

    def check_alive(self) -> None:
        if self._dead:
            raise Died

    def change(self, kind: str, path: str, carry_out: Callable[[float], int]) -> int:
        self.check_alive()
        self.calls += 1
        call = self.calls
        self.log.append((kind, path))
        if call == self._die_at:
            carry_out(self._die_share)
            self._dead = True
            raise Died
        errno = self._failures.pop(call, 0)
        for applies, failing in self._failing:
            if applies(kind, path):
                errno = failing
        if errno:
            raise OSError(errno, os.strerror(errno), path)
        return carry_out(0.5 if call in self._short and kind == "write" else 1.0)

    def check_read(self, kind: str, path: str) -> None:
        """A call that changes nothing: an open, a read, a stat, a list."""
        for applies, errno in self._refusing:
            if applies(kind, path):
                raise OSError(errno, os.strerror(errno), path)

    def space(self, path: str) -> tuple[int, int]:
        self.check_alive()
        if self._find(path) is None:
            raise FileNotFoundError(errors.ENOENT, "no such directory", path)
        used = sum(len(data) for data in self.tree().values())
        return DISK_BYTES, DISK_BYTES - used

    # What is found afterwards.

    def killed(self) -> ForgetfulDisk:
        """The disk as the next process finds it after a crash of the process alone."""
        survivor = ForgetfulDisk(self.now_ms)
        survivor.root = copied(self.root, {})
        return survivor

    def power_lost(self, seed: int) -> ForgetfulDisk:
        """The disk as the next process finds it when the power failed; `seed` chooses what was kept."""
        chance = random.Random(seed)
        survivor = ForgetfulDisk(self.now_ms)
        survivor.root = after_power_loss(self.root, chance, {})
        return survivor

    # The port.

    def open(self, path: str, *, create: bool = False, writable: bool = True) -> File:
        self.check_alive()
        self.check_read("open", path)
        node = self._find(path)
        if node is None:
            if not create:
                raise FileNotFoundError(errors.ENOENT, "no such file", path)
            node = Node()
            node.modified_ms = self.now_ms()
            self._link("create", path, node)
        if node.directory:
            raise IsADirectoryError(errors.EISDIR, "is a directory", path)
        return ForgetfulFile(self, path, node)

    def exists(self, path: str) -> bool:
        self.check_alive()
        return self._find(path) is not None

    def file_size(self, path: str) -> int:
        self.check_read("stat", path)
        return len(self._must(path).data)

    def list_directory(self, path: str) -> list[str]:
        self.check_read("list", path)
        node = self._must(path)
        if not node.directory:
            raise NotADirectoryError(errors.ENOTDIR, "not a directory", path)
        return sorted(node.names)

    def directories(self, path: str) -> list[str]:
        return [name for name in self.list_directory(path) if self.is_directory(f"{path}/{name}")]

    def read(self, path: str) -> bytes:
        node = self._must(path)
        if node.directory:
            raise IsADirectoryError(errors.EISDIR, "is a directory", path)
        return bytes(node.data)

    def is_directory(self, path: str) -> bool:
        self.check_alive()
        node = self._find(path)
        return node is not None and node.directory

    def make_directory(self, path: str) -> None:
        self.check_alive()
        parent = parent_of(path)
        if self._find(path) is None:
            if parent != path and self._find(parent) is None:
                self.make_directory(parent)
            self._link("mkdir", path, Node(directory=True))

    def rename(self, old: str, new: str) -> None:
        node = self._must(old)
        old_parent, new_parent = self._must(parent_of(old)), self._must(parent_of(new))

        def rename(share: float) -> int:
            if share != 1.0:
                return 0
            if old_parent is new_parent:
                old_parent.change_names([(name_of(old), None), (name_of(new), node)])
            else:
                new_parent.change_names([(name_of(new), node)])
                old_parent.change_names([(name_of(old), None)])
            return 0

        self.change("rename", new, rename)

    def remove(self, path: str) -> None:
        if self._must(path).directory:
            raise IsADirectoryError(errors.EISDIR, "is a directory", path)
        self._link("remove", path, None)

    def remove_directory(self, path: str) -> None:
        if self._must(path).names:
            raise OSError(errors.ENOTEMPTY, "the directory is not empty", path)
        self._link("rmdir", path, None)

    def sync_directory(self, path: str) -> None:
        node = self._must(path)

        def sync(share: float) -> int:
            if share == 1.0:
                node.sync_names()
            return 0

        self.change("sync directory", path, sync)

    def modified_ms(self, path: str) -> int:
        self.check_read("stat", path)
        return self._must(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        def date(share: float) -> int:
            if share == 1.0:
                self._must(path).modified_ms = modified_ms
            return 0

        self.change("date", path, date)

    def lock(self, path: str) -> File:
        file = self.open(path, create=True)
        node = self._must(path)
        if id(node) in self._locked:
            raise BlockingIOError(errors.EAGAIN, "locked by another process", path)
        self._locked.add(id(node))
        return file

    def together(self, syncs: Sequence[Callable[[], None]]) -> None:
        for sync in syncs:
            sync()

    async def offload(self, function: Callable[[], T]) -> T:
        if self.before_offload is not None:
            await self.before_offload()
        done = function()
        if self.after_offload is not None:
            await self.after_offload()
        return done

    # For tests that look at files or damage them.

    def contents(self, path: str) -> bytes:
        return bytes(self._must(path).data)

    def replace(self, path: str, data: bytes) -> None:
        """Put a whole file on the disk, synced, as another program would have left it."""
        self.make_directory(parent_of(path))
        node = Node()
        node.data = bytearray(data)
        node.sync()
        parent = self._must(parent_of(path))
        parent.change_names([(name_of(path), node)])
        parent.synced_names[name_of(path)] = node

    def flip(self, path: str, position: int, bit: int = 0) -> None:
        """Turn one bit of both images."""
        node = self._must(path)
        node.data[position] ^= 1 << bit
        node.sync()

    def tree(self, path: str = "/") -> dict[str, bytes]:
        """Every file below `path` with its bytes."""
        found: dict[str, bytes] = {}
        for name in self.list_directory(path):
            child = f"{path.rstrip(chr(47))}/{name}"
            if self.is_directory(child):
                found.update(self.tree(child))
            else:
                found[child] = self.contents(child)
        return found

    def release_lock(self, path: str, node: Node) -> None:
        # POSIX: closing any descriptor of the file lets the process's lock go.
        self._locked.discard(id(node))

    def _find(self, path: str) -> Node | None:
        node = self.root
        for part in path.split("/"):
            if part:
                found = node.names.get(part)
                if found is None:
                    return None
                node = found
        return node

    def _must(self, path: str) -> Node:
        self.check_alive()
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errors.ENOENT, "no such file or directory", path)
        return node

    def _link(self, kind: str, path: str, node: Node | None) -> None:
        parent = self._must(parent_of(path))

        def link(share: float) -> int:
            if share == 1.0:
                parent.change_names([(name_of(path), node)])
            return 0

        self.change(kind, path, link)
