"""ZooKeeper's tree of znodes in memory: what each operation changes and refuses, and which watches it fires.

Pure: no disk, no clock, no loop; time is an argument. A `ZnodeTree` is changed in batches. `undo_batch` reverts
everything since `begin_batch`, for a batch that could not be made durable; a refused `multi` reverts its own operations
in the same way.

    begin_batch   apply* (each returns its result and the watches to fire)   dirty -> to disk   or   undo_batch

Ephemeral znodes are not treated differently here; the store leaves them out when it saves (`Node.owner`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from sordini.replication.ports import (
    ANY_VERSION,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    OperationResult,
    Set,
    Stat,
    WatchKind,
)
from sordini.system.named_tuple import NamedTuple

Fired = tuple[WatchKind, str]
"""An event at a path. CHILDREN fires child watches, the others data watches (DELETED: both)."""


class Znode(NamedTuple):
    """One znode. Immutable, so that an undo restores the old value."""

    data: bytes
    czxid: int
    mzxid: int
    created_ms: int
    modified_ms: int
    version: int = 0
    creations: int = 0
    """How many children were ever created here: the number of the next sequential one."""
    owner: int = 0
    """The session that an ephemeral znode belongs to; 0 for persistent ones."""


class Applied(NamedTuple):
    """The outcome of one call: its results, and the events in their order."""

    results: list[OperationResult]
    fired: list[Fired]


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def check_path(path: str) -> None:
    """Raise ValueError unless a path is absolute, without empty steps or a slash at the end."""
    if not path.startswith("/") or "\0" in path or (path != "/" and (path.endswith("/") or "//" in path)):
        raise ValueError(f"{path!r} is not the path of a znode")


class ZnodeTree:
    """The znodes by path. `zxid` counts transactions and never decreases, not even by an undo."""

    def __init__(self, nodes: dict[str, Znode] | None = None, zxid: int = 0) -> None:
        self.zxid = zxid
        self._nodes = nodes or {"/": Znode(b"", 0, 0, 0, 0)}
        self._children: dict[str, set[str]] = {path: set() for path in self._nodes}
        for path in self._nodes:
            if path != "/":
                self._children[parent_of(path)].add(path.rpartition("/")[2])
        self._undo: list[tuple[str, Znode | None]] = []

    # Reading.

    def stat(self, path: str) -> Stat | None:
        check_path(path)
        node = self._nodes.get(path)
        return None if node is None else self._stat(path, node)

    def get(self, path: str) -> tuple[bytes, Stat]:
        check_path(path)
        node = self._node(path)
        return node.data, self._stat(path, node)

    def children(self, path: str) -> list[str]:
        check_path(path)
        self._node(path)
        return sorted(self._children[path])

    def owned_by(self, session_id: int) -> list[str]:
        """The ephemeral znodes of a session."""
        return [path for path, node in self._nodes.items() if node.owner == session_id]

    # Changing.

    def begin_batch(self) -> None:
        self._undo.clear()

    def undo_batch(self) -> None:
        self._undo_to(0)

    def dirty(self) -> Iterator[tuple[str, Znode | None]]:
        """Each path changed in this batch, with its znode now (None: deleted)."""
        for path in dict.fromkeys(path for path, _ in self._undo):
            yield path, self._nodes.get(path)

    def apply(self, operations: Sequence[Operation], session_id: int, now_ms: int) -> Applied:
        """Carry out one transaction, all of it or nothing. Raises the refusal of the first refused operation."""
        mark, fired = len(self._undo), list[Fired]()
        self.zxid += 1
        results = list[OperationResult]()
        try:
            for operation in operations:
                results.append(self._apply(operation, session_id, now_ms, fired))
        except CoordinationError as refusal:
            refusal.index = len(results)
            raise
        finally:
            if len(results) < len(operations):
                self._undo_to(mark)
        return Applied(results, fired)

    def end_session(self, session_id: int) -> list[Fired]:
        """Delete a session's ephemeral znodes; returns the events."""
        fired = list[Fired]()
        owned = self.owned_by(session_id)
        if owned:
            self.zxid += 1
        for path in owned:
            self._delete(Delete(path), fired)
        return fired

    def _apply(self, operation: Operation, session_id: int, now_ms: int, fired: list[Fired]) -> OperationResult:
        check_path(operation.path)
        match operation:
            case Create():
                return self._create(operation, session_id, now_ms, fired)
            case Set():
                return self._set(operation, now_ms, fired)
            case Delete():
                self._delete(operation, fired)
                return None
            case Check(path, version):
                self._expect(path, version)
                return None
            case _:
                assert_never(operation)

    def _create(self, operation: Create, session_id: int, now_ms: int, fired: list[Fired]) -> str:
        path = operation.path
        if path == "/":
            raise NodeExists(path)
        above = parent_of(path)
        parent = self._nodes.get(above)
        if parent is None:
            raise NoNode(path)
        if parent.owner:
            raise NoChildrenForEphemerals(path)
        if operation.sequential:
            path = f"{path}{parent.creations:010d}"
        if path in self._nodes:
            raise NodeExists(path)
        owner = session_id if operation.ephemeral else 0
        self._store_with_undo(above, parent._replace(creations=parent.creations + 1))
        self._store_with_undo(path, Znode(operation.data, self.zxid, self.zxid, now_ms, now_ms, owner=owner))
        fired += (WatchKind.CREATED, path), (WatchKind.CHILDREN, above)
        return path

    def _set(self, operation: Set, now_ms: int, fired: list[Fired]) -> Stat:
        node = self._expect(operation.path, operation.version)
        node = node._replace(data=operation.data, mzxid=self.zxid, modified_ms=now_ms, version=node.version + 1)
        self._store_with_undo(operation.path, node)
        fired.append((WatchKind.CHANGED, operation.path))
        return self._stat(operation.path, node)

    def _delete(self, operation: Delete, fired: list[Fired]) -> None:
        path = operation.path
        self._expect(path, operation.version)
        if self._children[path]:
            raise NotEmpty(path)
        assert path != "/", "the root is not deleted"
        self._store_with_undo(path, None)
        fired += (WatchKind.DELETED, path), (WatchKind.CHILDREN, parent_of(path))

    def _node(self, path: str) -> Znode:
        node = self._nodes.get(path)
        if node is None:
            raise NoNode(path)
        return node

    def _expect(self, path: str, version: int) -> Znode:
        node = self._node(path)
        if version not in (ANY_VERSION, node.version):
            raise BadVersion(path)
        return node

    def _stat(self, path: str, node: Znode) -> Stat:
        return Stat(
            node.czxid,
            node.mzxid,
            node.created_ms,
            node.modified_ms,
            node.version,
            node.owner,
            len(self._children[path]),
        )

    def _store_with_undo(self, path: str, node: Znode | None) -> None:
        self._undo.append((path, self._nodes.get(path)))
        self._store(path, node)

    def _store(self, path: str, node: Znode | None) -> None:
        above, name = parent_of(path), path.rpartition("/")[2]
        if node is None:
            del self._nodes[path]
            del self._children[path]
            self._children[above].discard(name)
        else:
            if path not in self._nodes:
                self._children[path] = set()
                self._children[above].add(name)
            self._nodes[path] = node

    def _undo_to(self, mark: int) -> None:
        while len(self._undo) > mark:
            self._store(*self._undo.pop())
