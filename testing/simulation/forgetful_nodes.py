"""The two images of every file and directory of a forgetful disk: what is cached, and what was synced.

What real disks promise, and this one too: a sync keeps the file's bytes and size, a directory's sync its names; a
rename over another file is one change; bytes that no unsynced write touched stay as they are; a directory's changes
reach the disk in order, as a journal keeps them. What they do not: any order between files, or between a file and
its name; that a write is kept whole, or that a file's new size comes with its new bytes.
"""

from __future__ import annotations

import random

SECTOR = 512


class Node:
    """A file's two images, or a directory's."""

    def __init__(self, *, directory: bool = False) -> None:
        self.directory = directory
        self.data = bytearray()
        self.synced = b""
        self.pending: list[tuple[str, int, bytes]] = []
        self.was_dropped = False
        """A sync failed and the cache holds bytes that the system will never write: they count as clean."""
        self.modified_ms = 0
        self.names: dict[str, Node] = {}
        self.synced_names: dict[str, Node] = {}
        self.pending_names: list[list[tuple[str, Node | None]]] = []

    def write(self, position: int, data: bytes) -> None:
        self.pending.append(("write", position, data))
        _write(self.data, position, data)

    def truncate(self, size: int) -> None:
        self.pending.append(("truncate", size, b""))
        _truncate(self.data, size)

    def sync(self) -> None:
        if self.was_dropped:
            image = bytearray(self.synced)
            _carry_out(image, self.pending)
            self.synced = bytes(image)
        else:
            self.synced = bytes(self.data)
        self.pending.clear()

    def drop(self, chance: random.Random) -> None:
        """A sync fails: of the writes before it some reach the disk, and none is tried again (fsyncgate)."""
        if not any(kind == "write" for kind, _, _ in self.pending):
            return
        image = bytearray(self.synced)
        # Sizes are the journal's business, and stay to be written.
        kept = [change for change in self.pending if change[0] == "truncate" or chance.random() < 0.5]
        _carry_out(image, kept)
        self.synced = bytes(image)
        self.pending.clear()
        self.was_dropped = True

    def evict(self) -> None:
        """Let the cache forget what counts as clean: from now on a reader sees the disk."""
        if self.was_dropped:
            self.data = bytearray(self.synced)
            _carry_out(self.data, self.pending)
            self.was_dropped = False

    def change_names(self, changes: list[tuple[str, Node | None]]) -> None:
        self.pending_names.append(changes)
        _rename(self.names, changes)

    def sync_names(self) -> None:
        self.synced_names = dict(self.names)
        self.pending_names.clear()


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _write(image: bytearray, position: int, data: bytes) -> None:
    if len(image) < position:
        image.extend(bytes(position - len(image)))
    image[position : position + len(data)] = data


def _truncate(image: bytearray, size: int) -> None:
    if size <= len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


def _carry_out(image: bytearray, changes: list[tuple[str, int, bytes]]) -> None:
    for kind, position, data in changes:
        if kind == "write":
            _write(image, position, data)
        else:
            _truncate(image, position)


def _rename(names: dict[str, Node], changes: list[tuple[str, Node | None]]) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def copied(node: Node, seen: dict[int, Node]) -> Node:
    """What another process finds: the page cache, but for what a failed sync left in it that is not on the disk."""
    if id(node) in seen:
        return seen[id(node)]
    copy = seen[id(node)] = Node(directory=node.directory)
    copy.data = bytearray(node.data)
    copy.modified_ms = node.modified_ms
    copy.names = {name: copied(child, seen) for name, child in node.names.items()}
    # What was unsynced stays so: the power may still fail during the next start.
    copy.synced, copy.pending = node.synced, list(node.pending)
    copy.was_dropped = node.was_dropped
    copy.evict()
    copy.synced_names = {name: copied(child, seen) for name, child in node.synced_names.items()}
    copy.pending_names = [
        [(name, child if child is None else copied(child, seen)) for name, child in change]
        for change in node.pending_names
    ]
    return copy


def after_power_loss(node: Node, chance: random.Random, seen: dict[int, Node]) -> Node:
    """What the disk holds when the power failed; every choice is drawn from `chance`, file by file."""
    if id(node) in seen:
        return seen[id(node)]
    copy = seen[id(node)] = Node(directory=node.directory)
    copy.modified_ms = node.modified_ms
    if node.directory:
        names = dict(node.synced_names)
        for change in node.pending_names[: chance.randint(0, len(node.pending_names))]:
            _rename(names, change)
        copy.names = {name: after_power_loss(child, chance, seen) for name, child in sorted(names.items())}
        copy.synced_names = dict(copy.names)
        return copy
    copy.data = bytearray(node.synced)
    _carry_out(copy.data, _kept(node.pending, chance))
    copy.sync()
    return copy


def _kept(pending: list[tuple[str, int, bytes]], chance: random.Random) -> list[tuple[str, int, bytes]]:
    """Of a file's unsynced changes all, none, a prefix with a torn end, or any subset, each write in any state."""
    mode = chance.randrange(6)
    if mode == 0 or not pending:
        return []
    if mode == 1:
        return pending
    if mode == 2:
        kept = pending[: chance.randint(1, len(pending))]
        return [*kept[:-1], _torn(kept[-1], chance)]
    subset = [change for change in pending if chance.random() < 0.6]
    if mode == 3:
        return subset
    return [_damaged(change, chance) for change in subset]


def _torn(change: tuple[str, int, bytes], chance: random.Random) -> tuple[str, int, bytes]:
    """The first part of a write: up to any byte, or up to a sector's edge."""
    kind, position, data = change
    if kind != "write":
        return change
    end = chance.randint(0, len(data))
    if chance.random() < 0.5:
        end = min(max((position + end) // SECTOR * SECTOR - position, 0), len(data))
    return kind, position, data[:end]


def _damaged(change: tuple[str, int, bytes], chance: random.Random) -> tuple[str, int, bytes]:
    """A write as it was, torn, or with a part that never came: zeros where the size did, bits of something else."""
    kind, position, data = change
    if kind != "write" or not data:
        return change
    mode = chance.randrange(5)
    if mode == 0:
        return change
    if mode == 1:
        return _torn(change, chance)
    if mode == 2:
        return kind, position, bytes(len(data))
    # Whole sectors, as far as this write reaches: what lay in them before was synced and stays.
    first = (position + chance.randrange(len(data))) // SECTOR * SECTOR
    start, end = max(first - position, 0), min(first + SECTOR * chance.randint(1, 3) - position, len(data))
    hurt = bytearray(data)
    if mode == 3:
        hurt[start:end] = bytes(end - start)
    else:
        hurt[start:end] = chance.randbytes(end - start)
    return kind, position, bytes(hurt)
