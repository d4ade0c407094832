"""The log of a Delta table, for what deltalake does not give: files with their deletion vectors, and commits of those.

A commit is one file of JSON lines, `_delta_log/<version>.json`. It is made under another name and appears whole, if
no other writer has made that version: a hard link in a folder, a conditional put in an object store.

A snapshot is read from the newest checkpoint and the commits after it; the next one only reads the newer commits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote
from uuid import uuid4

import pyarrow.fs
import pyarrow.parquet as pq

from sordini.pipeline.tables.delta.deletion_vectors import vector_path
from sordini.pipeline.tables.delta.positions import log_files
from sordini.pipeline.tables.file_names import deletions_time
from sordini.pipeline.tables.local_files import sync_folder
from sordini.pipeline.tables.store_client import open_store

Action = dict[str, Any]
"""An action of Delta's protocol, such as {"add": {...}}."""

CHECKPOINT_COMMITS: Final = 50
"""After so many commits a checkpoint is made, so that readers need not read all of them."""
_LOG: Final = "_delta_log"
_CHECKPOINT: Final = ".checkpoint."
_RESTORE: Final = "RESTORE"


@dataclass(frozen=True)
class LiveFile:
    """A data file of a version of the table."""

    add: Action
    """Its `add` action, without its outer name."""

    @property
    def path(self) -> str:
        """Below the table's folder, as the log has it: percent-encoded."""
        return str(self.add["path"])

    @property
    def rows(self) -> int | None:
        """Physical rows, if the log has their number."""
        return self.statistics.get("numRecords")

    @cached_property
    def statistics(self) -> dict[str, Any]:
        return dict(json.loads(self.add.get("stats") or "{}"))

    @property
    def deleted_rows(self) -> int:
        vector = self.add.get("deletionVector")
        return int(vector["cardinality"]) if vector else 0

    @property
    def has_deletions_only(self) -> bool:
        """Whether no row of it is the table's: the file remembers deletions."""
        if self.rows is None:  # A checkpoint may leave statistics out.
            return self.deleted_rows > 0 and deletions_time(self.name) is not None
        return self.deleted_rows > 0 and self.deleted_rows == self.rows

    @property
    def name(self) -> str:
        """The path without encoding."""
        return unquote(self.path)


class LogPuts(Protocol):
    """Makes files of the log."""

    def create(self, path: str, contents: bytes) -> bool:
        """Make a file below the table's folder, whole; False if one of this name exists."""
        ...


class LocalPuts:
    """In a folder: written beside, synced, and linked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, path: str, contents: bytes) -> bool:
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{uuid4().hex}.tmp")
        try:
            with beside.open("xb") as file:
                file.write(contents)
                file.flush()
                os.fsync(file.fileno())
            os.link(beside, target)
        except FileExistsError:
            return False
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(target.parent)
        return True


class StorePuts:
    """In an object store: a put that is refused where the name exists; through obstore, with deltalake's options."""

    def __init__(self, location: str, storage_options: Mapping[str, str]) -> None:
        self._store = open_store(location, storage_options)

    def create(self, path: str, contents: bytes) -> bool:
        from obstore.exceptions import AlreadyExistsError

        try:
            self._store.put(path, contents, mode="create")
        except AlreadyExistsError:
            return False
        return True


@dataclass
class Snapshot:
    """A version of the table."""

    files: dict[str, LiveFile] = field(default_factory=dict)
    """By their paths."""
    replaced_vectors: dict[str, int] = field(default_factory=dict)
    """Files of vectors that a version before had, and when that was replaced, in milliseconds since 1970."""


class DeltaLog:
    """The log of one table; remembers the snapshot that was read last."""

    def __init__(self, files: pyarrow.fs.FileSystem, puts: LogPuts) -> None:
        """`files` is the table's folder."""
        self._files = files
        self._puts = puts
        self._version = -1
        self._snapshot = Snapshot()
        self.breaks = 0
        """How often a snapshot was not what commits of rows made of the one before: after a RESTORE, or read anew."""

    def continue_from(self, former: DeltaLog) -> None:
        """Take what the log of the same table has read by other credentials."""
        self._version, self._snapshot, self.breaks = former._version, former._snapshot, former.breaks

    def snapshot(self, version: int) -> Snapshot:
        """The files of a version, not to be changed by the caller. Raises TableError."""
        if version < self._version or not self._read_commits(version):
            # What a failure interrupts is no snapshot of any version.
            self._snapshot, self._version = Snapshot(), -1
            self.breaks += 1
            paths = log_files(self._files, version)
            checkpoint = [path for path in paths if _CHECKPOINT in path]
            # A file can be in one part, and what replaced it in another.
            self._apply([action for path in checkpoint for action in self._actions(path)])
            for path in paths[len(checkpoint) :]:
                self._apply(self._actions(path))
        self._version = version
        return self._snapshot

    def commit(self, version: int, actions: Sequence[Action]) -> bool:
        """Make this version; False if another writer made it. What follows the last snapshot becomes part of it."""
        lines = "".join(f"{json.dumps(action)}\n" for action in actions).encode()
        if not self._puts.create(f"{_LOG}/{version:020d}.json", lines):
            return False
        if version == self._version + 1:
            self._apply(_in_json(lines))
            self._version = version
        return True

    def create(self, path: str, contents: bytes) -> None:
        """Make a file of a new name beside the data files."""
        made = self._puts.create(path, contents)
        assert made, "its name is unique"

    def _read_commits(self, version: int) -> bool:
        """Read the commits after the last snapshot; False if there is none, or one of them is gone."""
        if self._version < 0:
            return False
        try:
            for each in range(self._version + 1, version + 1):
                self._apply(self._actions(f"{_LOG}/{each:020d}.json"))
        except FileNotFoundError:
            return False
        return True

    def _apply(self, actions: Sequence[Action]) -> None:
        for action in actions:
            # The removal of a file's former vector stands beside the `add` with its new one, in any order.
            if remove := action.get("remove"):
                self._snapshot.files.pop(remove["path"], None)
                self._note_replaced(remove)
        for action in actions:
            if action.get("commitInfo", {}).get("operation") == _RESTORE:
                self.breaks += 1
            if "add" in action:
                file = LiveFile(action["add"])
                self._snapshot.files[file.path] = file

    def _note_replaced(self, remove: Action) -> None:
        path = vector_path(remove["deletionVector"]) if remove.get("deletionVector") else None
        if path:
            self._snapshot.replaced_vectors[path] = int(remove.get("deletionTimestamp") or 0)

    def _actions(self, path: str) -> list[Action]:
        """The actions of files, and RESTOREs, in a file of the log and in the sidecars of a checkpoint."""
        with self._files.open_input_file(path) as file:
            actions = _in_json(bytes(file.read())) if path.endswith(".json") else _in_parquet(file)
        sidecars = [action["sidecar"]["path"] for action in actions if "sidecar" in action]
        return actions + [action for name in sidecars for action in self._actions(f"{_LOG}/_sidecars/{name}")]


def _in_json(text: bytes) -> list[Action]:
    return [json.loads(line) for line in text.splitlines() if _is_needed(line)]


def _is_needed(line: bytes) -> bool:
    name = line[:20].lstrip(b'{ "')
    # What else commitInfo says is long, and for others.
    return name.startswith((b"add", b"remove", b"sidecar")) or (name.startswith(b"commitInfo") and b"RESTORE" in line)


def _in_parquet(file: pyarrow.NativeFile) -> list[Action]:
    names = [name for name in ("remove", "add", "sidecar") if name in pq.read_schema(file).names]
    rows = pq.read_table(file, columns=names)
    return [{name: _without_nulls(row)} for name in names for row in rows[name].drop_null().to_pylist()]


def _without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    """The action as it is in JSON: maps are pairs in Parquet, and missing fields null."""
    found = {name: value for name, value in row.items() if value is not None and not name.endswith("_parsed")}
    parsed = row.get("stats_parsed") or {}
    if "stats" not in found and parsed.get("numRecords") is not None:
        # Of `delta.checkpoint.writeStatsAsJson` = false. Bounds only serve to skip files.
        found["stats"] = json.dumps({"numRecords": parsed["numRecords"]})
    for name in ("partitionValues", "tags"):
        if name in found:
            found[name] = dict(found[name])
    if vector := found.get("deletionVector"):
        found["deletionVector"] = {name: value for name, value in vector.items() if value is not None}
    return found
