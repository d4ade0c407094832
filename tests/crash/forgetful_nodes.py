"""The two images of every file and directory of a forgetful disk: what is cached, and what was synced."""

from __future__ import annotations

import random


class Node:
    """A file's two images, or a directory's."""

    def __init__(self, *, directory: bool = False) -> None:
        self.directory = directory
        self.data = bytearray()
        self.synced = b""
        self.pending: list[tuple[str, int, bytes]] = []
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
        self.synced = bytes(self.data)
        self.pending.clear()

    def change_names(self, changes: list[tuple[str, Node | None]]) -> None:
        self.pending_names.append(changes)
        _rename(self.names, changes)


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


def _rename(names: dict[str, Node], changes: list[tuple[str, Node | None]]) -> None:
    for name, node in changes:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def copied(node: Node, seen: dict[int, Node]) -> Node:
    """The page cache written back: everything visible is now on the disk."""
    if id(node) in seen:
        return seen[id(node)]
    copy = seen[id(node)] = Node(directory=node.directory)
    copy.data = bytearray(node.data)
    copy.modified_ms = node.modified_ms
    copy.names = {name: copied(child, seen) for name, child in node.names.items()}
    # What was unsynced stays so: the power may still fail during the next start.
    copy.synced, copy.pending = node.synced, list(node.pending)
    copy.synced_names = {name: copied(child, seen) for name, child in node.synced_names.items()}
    copy.pending_names = [
        [(name, child if child is None else copied(child, seen)) for name, child in change]
        for change in node.pending_names
    ]
    return copy


def after_power_loss(node: Node, chance: random.Random, seen: dict[int, Node]) -> Node:
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
    for kind, position, data in _kept(node.pending, chance):
        if kind == "write":
            _write(copy.data, position, data)
        else:
            _truncate(copy.data, position)
    copy.sync()
    return copy


def _kept(pending: list[tuple[str, int, bytes]], chance: random.Random) -> list[tuple[str, int, bytes]]:
    """Of a file's unsynced operations all, none, a prefix with a torn end, or any subset."""
    mode = chance.randrange(4)
    if mode == 0 or not pending:
        return []
    if mode == 1:
        return pending
    if mode == 2:
        kept = pending[: chance.randint(1, len(pending))]
        kind, position, data = kept[-1]
        return [*kept[:-1], (kind, position, data[: chance.randint(0, len(data))] if kind == "write" else data)]
    return [operation for operation in pending if chance.random() < 0.5]
