"""Where a cluster's tree can lie, as people write it, and what must be known before one is opened.

    embedded:DIR          the embedded store in a log directory, or embedded:FILE
    zookeeper:HOST:PORT   an ensemble, as in zookeeper.connect: several with commas between, /chroot at the end

A file whose tree has moved away stays as it is, with a note beside it: `coordination.sqlite.moved`. A broker refuses
such a file, because two trees of one cluster would go different ways. To go on with it all the same one removes the
note.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from sordini.broker.coordination.embedded import open_embedded
from sordini.broker.coordination.store_migration import MigrationRefused, StoreTree
from sordini.broker.coordination.znode_tree import check_path
from sordini.replication.ports import Clock, CoordinationStore, StoreUnusable
from sordini.storage.checkpoints import DamagedFile, read_whole, write_whole
from sordini.storage.disk import Disk

STORE_FILE: Final = "coordination.sqlite"
"""In the first log directory, where Apache Kafka passes over files whose names it does not know."""

MOVED: Final = ".moved"
FORMER: Final = ".former-"
EMBEDDED, ZOOKEEPER = "embedded", "zookeeper"
ZOOKEEPER_PORT: Final = 2181


class StoreLocation(NamedTuple):
    """A place by name."""

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
        raise ValueError("a place is embedded:DIR or zookeeper:HOST:PORT/CHROOT")
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
    """Opens places, on one disk and one clock."""

    def __init__(self, disk: Disk, clock: Clock, *, connection_timeout_ms: int) -> None:
        self._disk = disk
        self._clock = clock
        self._connection_timeout_ms = connection_timeout_ms

    def file_of(self, location: StoreLocation) -> str:
        """The embedded store's file."""
        return f"{location.where}/{STORE_FILE}" if self._disk.is_directory(location.where) else location.where

    def _is_same(self, one: StoreLocation, other: StoreLocation) -> bool:
        if one.kind == EMBEDDED == other.kind:
            return self.file_of(one) == self.file_of(other)
        return one == other

    def is_there(self, location: StoreLocation) -> bool:
        """Whether there is a file; of an ensemble only opening it tells."""
        return location.kind != EMBEDDED or self._disk.exists(self.file_of(location))

    @asynccontextmanager
    async def open(self, location: StoreLocation) -> AsyncIterator[StoreTree]:
        """A place for as long as it is needed; nobody else can use an embedded one meanwhile. Raises StoreUnusable."""
        store: CoordinationStore
        if location.kind == EMBEDDED:
            store = await open_embedded(self.file_of(location), self._clock)
        else:
            from sordini.broker.coordination.zookeeper import ZooKeeperStore  # Late: kazoo takes its time to import.

            timeout_ms = self._connection_timeout_ms
            # Without the chroot: connecting to one makes it, and a look must change nothing.
            store = ZooKeeperStore(location.where, session_timeout_ms=timeout_ms, connection_timeout_ms=timeout_ms)
        try:
            session = await store.open_session()
            yield StoreTree(session, location.root, str(location), location.kind == EMBEDDED)
        finally:
            await store.close()

    def refuse(self, source: StoreLocation, target: StoreLocation) -> None:
        """Raise MigrationRefused for a move that makes no sense whatever the trees hold."""
        if self._is_same(source, target):
            raise MigrationRefused(f"{source} is where it is already")
        if not self.is_there(source):
            raise MigrationRefused(f"{source} holds no cluster: there is no file {self.file_of(source)}")
        place = self.moved_to(source)
        if place is not None and place != str(target):
            raise MigrationRefused(
                f"{source} was moved to {place} before, and what happened since is there: move it from there, or "
                f"remove {self.file_of(source)}{MOVED} to take it as it was"
            )

    def rename_former(self, location: StoreLocation) -> str | None:
        """Make room for a tree that comes back: its former file gets another name, which is returned.

        The note stays, so that no broker starts before the new file is whole.
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
        """Leave the note that an embedded tree has moved; the note's path, None for a place that takes none."""
        if location.kind != EMBEDDED:
            return None
        file = self.file_of(location)
        directory, name = _directory_of(file), f"{file.rpartition('/')[2]}{MOVED}"
        write_whole(self._disk, directory, name, f"{target}\n{_EXPLANATION}")
        return f"{file}{MOVED}"

    def moved_to(self, location: StoreLocation) -> str | None:
        return moved_to(self._disk, self.file_of(location)) if location.kind == EMBEDDED else None

    def unmark(self, location: StoreLocation) -> None:
        """Take the note away from where a tree has arrived."""
        note = f"{self.file_of(location)}{MOVED}"
        if location.kind == EMBEDDED and self._disk.exists(note):
            self._disk.remove(note)
            self._disk.sync_directory(_directory_of(note))


_EXPLANATION: Final = """\
The cluster's tree was moved there by `sordini cluster move`, and brokers refuse the store beside this note.
Move the tree back with the same command. To use the store as it was before the move, remove this file.
"""


def moved_to(disk: Disk, file: str) -> str | None:
    """Where the tree in an embedded store's file was moved to; None when it was not."""
    directory = _directory_of(file)
    try:
        text = read_whole(disk, directory, f"{file.rpartition('/')[2]}{MOVED}")
    except DamagedFile:
        text = ""
    return None if text is None else text.partition("\n")[0] or "another place"


def refuse_moved(disk: Disk, file: str) -> None:
    """Raise StoreUnusable when the tree in an embedded store's file was moved away."""
    place = moved_to(disk, file)
    if place is not None:
        raise StoreUnusable(
            f"the coordination store {file} was moved to {place}: start with zookeeper.connect, move it back "
            f"(sordini cluster move --from {place} --to embedded:{file}), or remove {file}{MOVED} to go on with it "
            "as it was"
        )


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0] or "."
