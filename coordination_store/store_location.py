"""Locations of a cluster's tree, as an operator writes them, and what is checked before a store is opened.

    embedded:DIR          the embedded store in a log directory, or embedded:FILE
    zookeeper:HOST:PORT   an ensemble, as in zookeeper.connect: several with commas between, /chroot at the end

A file whose tree was moved stays unchanged, with a note beside it: `coordination.sqlite.moved`. A broker refuses such
a file, because two trees of one cluster would diverge. Without the note the file can be used again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from sordini.coordination_store.embedded import open_embedded
from sordini.coordination_store.znode_tree import check_path
from sordini.replication.ports import Clock, CoordinationStore, StoreUnusable
from sordini.storage.checkpoints import DamagedFile, read_whole, write_whole
from sordini.storage.disk import Disk
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.coordination_store.store_migration import StoreTree
    from sordini.coordination_store.zookeeper_access import ZooKeeperAccess

STORE_FILE: Final = "coordination.sqlite"
"""In the first log directory, where Apache Kafka ignores files whose names it does not know."""

MOVED: Final = ".moved"
FORMER: Final = ".former-"
EMBEDDED, ZOOKEEPER = "embedded", "zookeeper"
ZOOKEEPER_PORT: Final = 2181


class StoreLocation(NamedTuple):
    """One location."""

    kind: str
    where: str
    """A path, or the addresses of an ensemble."""
    root: str = ""
    """The chroot; "" for none."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.where}{self.root}"


def location_of(text: str) -> StoreLocation:
    """Read `embedded:PATH` or `zookeeper:HOST:PORT/CHROOT`. Raises ValueError, which says what is wrong."""
    kind, colon, rest = text.partition(":")
    if not colon or not rest or kind not in (EMBEDDED, ZOOKEEPER):
        raise ValueError("a store is embedded:DIR or zookeeper:HOST:PORT/CHROOT")
    if kind == EMBEDDED:
        return StoreLocation(EMBEDDED, rest.rstrip("/") or "/")
    hosts, slash, chroot = rest.partition("/")
    root = f"/{chroot}".rstrip("/") if slash else ""
    check_path(root or "/")
    addresses = [address.strip() for address in hosts.split(",")]
    return StoreLocation(ZOOKEEPER, ",".join(map(_with_port, addresses)), root)


def _with_port(address: str) -> str:
    host, colon, port = address.rpartition(":")
    if not colon or address.endswith("]"):
        host, port = address, str(ZOOKEEPER_PORT)
    if not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{address!r} is not HOST:PORT of a ZooKeeper")
    return f"{host}:{port}"


class StoreLocations:
    """Opens and marks locations, on one disk and one clock."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        *,
        connection_timeout_ms: int,
        zookeeper: Callable[[str], ZooKeeperAccess] | None = None,
    ) -> None:
        """`zookeeper` makes the access to an ensemble, for a tree below a znode ("" for "/"); None: in plaintext."""
        self._zookeeper = zookeeper
        self._disk = disk
        self._clock = clock
        self._connection_timeout_ms = connection_timeout_ms

    def file_of(self, location: StoreLocation) -> str:
        """The embedded store's file."""
        return f"{location.where}/{STORE_FILE}" if self._disk.is_directory(location.where) else location.where

    def _is_same(self, location: StoreLocation, other: StoreLocation) -> bool:
        if location.kind == EMBEDDED == other.kind:
            return self.file_of(location) == self.file_of(other)
        return location == other

    def may_exist(self, location: StoreLocation) -> bool:
        """Whether the file exists; always true of an ensemble, which only opening it can tell."""
        return location.kind != EMBEDDED or self._disk.exists(self.file_of(location))

    @asynccontextmanager
    async def open(self, location: StoreLocation) -> AsyncIterator[StoreTree]:
        """Open a store for the time of the context; an embedded one is locked meanwhile. Raises StoreUnusable."""
        store: CoordinationStore
        if location.kind == EMBEDDED:
            store = await open_embedded(self.file_of(location), self._clock)
        else:
            # Late: kazoo is slow to import.
            from sordini.coordination_store.zookeeper import ZooKeeperStore
            from sordini.coordination_store.zookeeper_access import OPEN

            timeout_ms = self._connection_timeout_ms
            # Without the chroot: connecting to one creates it, and reading must not write.
            access = OPEN if self._zookeeper is None else self._zookeeper(location.root)
            store = ZooKeeperStore(
                location.where, access, session_timeout_ms=timeout_ms, connection_timeout_ms=timeout_ms
            )
        from sordini.coordination_store.store_migration import StoreTree  # Late: a broker migrates nothing.

        try:
            session = await store.open_session()
            yield StoreTree(session, location.root, str(location), location.kind == EMBEDDED)
        finally:
            await store.close()

    def refuse(self, source: StoreLocation, target: StoreLocation) -> None:
        """Raise MigrationRefused for a migration that is invalid whatever the trees hold."""
        from sordini.coordination_store.store_migration import MigrationRefused  # Late: as above.

        if self._is_same(source, target):
            raise MigrationRefused(f"{source} and {target} are the same store")
        if not self.may_exist(source):
            raise MigrationRefused(f"{source} holds no cluster: there is no file {self.file_of(source)}")
        moved = self.moved_to(source)
        if moved is not None and moved != str(target):
            raise MigrationRefused(
                f"{source} was moved to {moved} before, and later changes are there: move it from there, or "
                f"remove {self.file_of(source)}{MOVED} to use it without these changes"
            )

    def rename_former(self, location: StoreLocation) -> str | None:
        """Rename the former file of a tree that is moved back; returns the new name, or None without a file.

        The note stays, so that no broker starts before the new file is complete.
        """
        file = self.file_of(location)
        if not self._disk.exists(file):
            return None
        number = 1
        while self._disk.exists(f"{file}{FORMER}{number}"):
            number += 1
        former = f"{file}{FORMER}{number}"
        self._disk.rename(file, former)
        self._disk.sync_directory(_directory_of(file))
        return former

    def mark(self, location: StoreLocation, target: StoreLocation) -> str | None:
        """Write the note that an embedded tree was moved; returns the note's path, None for an ensemble."""
        if location.kind != EMBEDDED:
            return None
        file = self.file_of(location)
        directory, name = _directory_of(file), f"{file.rpartition('/')[2]}{MOVED}"
        write_whole(self._disk, directory, name, f"{target}\n{_EXPLANATION}")
        return f"{file}{MOVED}"

    def moved_to(self, location: StoreLocation) -> str | None:
        return moved_to(self._disk, self.file_of(location)) if location.kind == EMBEDDED else None

    def unmark(self, location: StoreLocation) -> None:
        """Remove the note beside a file that a tree was moved to."""
        note = f"{self.file_of(location)}{MOVED}"
        if location.kind == EMBEDDED and self._disk.exists(note):
            self._disk.remove(note)
            self._disk.sync_directory(_directory_of(note))


_EXPLANATION: Final = """\
The cluster's tree was moved there by `sordini cluster move`, and brokers refuse the store beside this note.
To move the tree back use the same command. To use the store as it was before the move, remove this file.
"""


def moved_to(disk: Disk, file: str) -> str | None:
    """The location that the tree in an embedded store's file was moved to; None when it was not moved."""
    directory = _directory_of(file)
    try:
        text = read_whole(disk, directory, f"{file.rpartition('/')[2]}{MOVED}")
    except DamagedFile:
        text = ""
    return None if text is None else text.partition("\n")[0] or "another store"


def refuse_moved(disk: Disk, file: str) -> None:
    """Raise StoreUnusable when the tree in an embedded store's file was moved."""
    moved = moved_to(disk, file)
    if moved is not None:
        raise StoreUnusable(
            f"the coordination store {file} was moved to {moved}: start with zookeeper.connect, move it back "
            f"(sordini cluster move --from {moved} --to embedded:{file}), or remove {file}{MOVED} to use it "
            "as it was"
        )


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0] or "."
