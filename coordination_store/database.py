"""The embedded store's file: persistent znodes and the last transaction id, in one SQLite database.

    node(path, data, czxid, mzxid, created_ms, modified_ms, version, creations)     meta('zxid', n)

Durability: write-ahead log with `synchronous=FULL`, so `save` returns after the fsync of the batch; an acknowledged
write survives kill -9 and loss of power. (With NORMAL the last batches would be lost with the power.)
A new file is made beside its name and linked to it once it is whole and on the disk: one sync in place of seven. Its
name becomes durable with the first `save`: SQLite syncs the directory when it begins the write-ahead log beside it.
Exclusion: `locking_mode=EXCLUSIVE` and a write transaction at open, which writes nothing, hold SQLite's own file locks
until `close`, so a second opener, in this process or another, is refused at once.

Every method waits for the disk: call them through the store's `offload`, all from one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterable

from sordini.coordination_store.znode_tree import Znode
from sordini.replication.ports import StoreUnusable
from sordini.storage.disk import make_private_file, publish_private_file

IN_MEMORY = ":memory:"
FORMAT = 1
"""Also written into the schema below; another format is refused."""

_FRESH = ".new"
_SCHEMA = """
CREATE TABLE node (
    path TEXT PRIMARY KEY, data BLOB NOT NULL, czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL,
    created_ms INTEGER NOT NULL, modified_ms INTEGER NOT NULL, version INTEGER NOT NULL, creations INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('zxid', 0);
INSERT INTO node VALUES ('/', x'', 0, 0, 0, 0, 0, 0);
PRAGMA user_version = 1;
"""


class Database:
    """The open file. Make it with `open_database`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def load(self) -> tuple[dict[str, Znode], int]:
        """All znodes, and the id of the last transaction that was saved."""
        rows = self._connection.execute(
            "SELECT path, data, czxid, mzxid, created_ms, modified_ms, version, creations FROM node"
        )
        nodes = {path: Znode(*values) for path, *values in rows}
        ((zxid,),) = self._connection.execute("SELECT value FROM meta WHERE name = 'zxid'")
        return nodes, zxid

    def save(self, dirty: Iterable[tuple[str, Znode | None]], zxid: int) -> None:
        """Make one batch durable, all of it or nothing. Raises sqlite3.Error; then nothing was written."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for path, node in dirty:
                if node is None or node.owner:
                    connection.execute("DELETE FROM node WHERE path = ?", (path,))
                else:
                    connection.execute("REPLACE INTO node VALUES (?,?,?,?,?,?,?,?)", (path, *node[:-1]))
            connection.execute("UPDATE meta SET value = ? WHERE name = 'zxid'", (zxid,))
            connection.execute("COMMIT")
        except sqlite3.Error:
            # A failed COMMIT may have rolled back already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()


def open_database(path: str) -> Database:
    """Open or create the file (IN_MEMORY for one that is never stored) and lock it for this process.

    Raises StoreUnusable, with the path and the reason: in use, not such a file, of a later format, or an I/O error.
    """
    try:
        if path != IN_MEMORY:
            _create_missing(path)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreUnusable(f"cannot open the coordination store {path}: {reason}") from error
    try:
        # Used by one thread at a time, but not always by the same one.
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise StoreUnusable(f"cannot open the coordination store {path}: {error}") from error
    try:
        _prepare(connection, path)
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorname.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise StoreUnusable(f"the coordination store {path} is in use by another broker") from error
        raise StoreUnusable(f"cannot open the coordination store {path}: {error}") from error
    except sqlite3.DatabaseError as error:
        connection.close()
        raise StoreUnusable(f"{path} is not a coordination store: {error}") from error
    except StoreUnusable:
        connection.close()
        raise
    return Database(connection)


def _create_missing(path: str) -> None:
    """Make a file with an empty tree where there is none. Raises OSError and sqlite3.Error.

    Where another process makes one at the same time, the first one stays.
    """
    links = 0
    with contextlib.suppress(FileNotFoundError):
        links = os.stat(path).st_nlink  # noqa: PTH116 - a text, as everywhere here.
    if links == 1:
        return
    # None, or one whose start was killed before the other name was gone.
    directory, name = os.path.split(path)
    for other in os.listdir(directory or "."):  # noqa: PTH208 - as above.
        if other.startswith(f"{name}.") and other.endswith(_FRESH):
            os.unlink(os.path.join(directory, other))  # noqa: PTH108, PTH118 - as above.
    if links:
        return
    fresh = f"{path}.{os.getpid()}{_FRESH}"
    make_private_file(fresh)  # SQLite gives its -wal and -shm files the same mode.
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")  # It is synced as a whole.
        connection.executescript(f"BEGIN; {_SCHEMA} COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
    with contextlib.suppress(FileExistsError):
        publish_private_file(fresh, path)


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL would not sync the write-ahead log at a commit: a power failure could take back what was acknowledged.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")  # macOS: its fsync stops at the drive's cache. No effect elsewhere.
    ((version,),) = connection.execute("PRAGMA user_version")
    if version not in (0, FORMAT):
        raise StoreUnusable(f"the coordination store {path} has format {version}; this broker knows {FORMAT}")
    # In exclusive mode the locks that the first write takes stay until the connection is closed.
    connection.execute("BEGIN IMMEDIATE")
    try:
        if version == 0:
            # In memory, or left empty by a start of an older version that was killed.
            for statement in filter(str.strip, _SCHEMA.split(";")):
                connection.execute(statement)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
