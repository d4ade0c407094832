"""Stores each writer's last batch and its offsets in a Delta table, so that checkpoints and log clean-up keep them.

Both are `txn` actions of Delta's protocol (an appId and a number): the newest of each appId is part of every
checkpoint. The commit of a batch has all of these:

    appId                                 version
    views                                 17       the last batch
    sordini.batch/views                   17       the batch that the offsets below belong to
    sordini.offsets/views/page_views/0    1042     the next offset to read of a partition
    sordini.offsets/views/clicks/3        -1       the partition is no longer part of the position

The commit's commitInfo has the same once more, for all writers: earlier versions wrote only that, and reading the
newest commits finds it. But checkpoints lack commitInfo, so it is lost when the log is cleaned up.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import pyarrow.fs
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction
from deltalake.exceptions import DeltaError

from sordini.pipeline.tables.delta.commit_infos import LOG, NEAR, STEPS, CommitInfo, CommitInfos
from sordini.pipeline.tables.table import LostPosition, TableError
from sordini.pipeline.tables.writer_positions import WriterPosition, from_json

NOTES_KEY = "sordini.writers"
"""In commitInfo: app_id to the note of its last batch, of every app_id."""
WRITER_KEY = "sordini.writer"
"""In commitInfo: the app_id whose batch the commit is. Commits of earlier versions lack it."""

_BATCH: Final = "sordini.batch/"
_OFFSETS: Final = "sordini.offsets/"
_GONE: Final = -1
LOG_FILE: Final = re.compile(r"(\d{20})(?:\.checkpoint(?:\.\d{10}\.(\d{10})|\.[0-9a-f-]{36})?)?\.(?:json|parquet)")
"""A commit, or a checkpoint: in one file, in several (the second group is their number), or with a UUID."""


def transactions(app_id: str, note: WriterPosition, before: WriterPosition | None) -> list[Transaction]:
    """The `txn` actions of a batch's commit; `before` is the writer's last note.

    They have a time: a table with `delta.setTransactionRetentionDuration` drops those without.
    """
    now_ms = int(time.time() * 1000)
    offsets = {(topic, number): end for topic, ends in note.offsets.items() for number, end in ends.items()}
    known = {(topic, number) for topic, ends in (before.offsets if before else {}).items() for number in ends}
    kept = {**dict.fromkeys(sorted(known - offsets.keys()), _GONE), **offsets}
    return [
        Transaction(app_id, note.batch_id, now_ms),
        Transaction(f"{_BATCH}{app_id}", note.batch_id, now_ms),
        *(Transaction(f"{_OFFSETS}{app_id}/{topic}/{number}", end, now_ms) for (topic, number), end in kept.items()),
    ]


def last_position(
    table: DeltaTable,
    app_id: str,
    files: pyarrow.fs.FileSystem,
    storage_options: Mapping[str, str] = MappingProxyType({}),
    commits: CommitInfos | None = None,
) -> WriterPosition | None:
    """A writer's last batch in this version of the table; None where it has written none.

    `files` is the table's folder, `commits` are those of this version, if they were read before. A table that was
    restored to an earlier version has that version's rows, so it has its position, too. Raises LostPosition if the
    batch is known and its offsets are not, TableError if the log of the restored version is gone.
    """
    batch_id = table.transaction_version(app_id)
    if batch_id is None:
        return None
    commits = commits or CommitInfos(table, files, storage_options)
    restore = _restored_after(islice(commits, STEPS[0]), app_id, batch_id)
    if restore is not None:
        where = _restored_to(restore)
        if where is None:
            raise TableError(
                f"{table.table_uri} was restored to a time after batch {batch_id} of '{app_id}', and its log does not "
                "say to which version: restore it once more, to a version"
            )
        try:
            earlier = DeltaTable(table.table_uri, storage_options=dict(storage_options))
            earlier.load_as_version(where)
        except DeltaError as error:
            to = f"version {where}" if isinstance(where, int) else f"{where:%Y-%m-%d %H:%M:%S} UTC"
            raise TableError(
                f"{table.table_uri} was restored to {to} after batch {batch_id} of '{app_id}', and the "
                "log of that version is gone: load the topic into another table"
            ) from error
        return last_position(earlier, app_id, files, storage_options)
    note = _noted(islice(commits, NEAR), app_id, batch_id) or _kept(table, app_id, batch_id, files)
    note = note or _noted(islice(commits, NEAR, None), app_id, batch_id)
    if note is None:
        raise LostPosition(table.table_uri, app_id, batch_id)
    return note


def _restored_after(commits: Iterable[CommitInfo], app_id: str, batch_id: int) -> CommitInfo | None:
    """The commit that restored the table after this batch; None if there is none, as far as is searched.

    `txn` actions outlive a RESTORE, and other writers' commits repeat the notes, also after one. The batch itself is
    the newest commit that says so; of an earlier version, it is the oldest commit that has its note, in the newest run
    of those.
    """
    restored: CommitInfo | None = None
    found: CommitInfo | None = None
    for commit in commits:
        batch = _batch_of(commit, app_id)
        if batch == batch_id:
            found = restored
            if commit.get(WRITER_KEY) == app_id:
                break  # After a RESTORE the log also has the former batch of this number.
        elif batch is not None:
            break  # An earlier batch; after a RESTORE there may be one of this number before it, too.
        if restored is None and commit.get("operation") == "RESTORE":
            restored = commit
    return found


def _batch_of(commit: CommitInfo, app_id: str) -> int | None:
    """The batch in a commit's note of this writer."""
    note = dict(commit.get(NOTES_KEY) or {}).get(app_id)
    return None if note is None else int(note["batch"])


def _restored_to(commit: CommitInfo) -> int | dt.datetime | None:
    """The version, or deltalake's time, that a table was restored to.

    None for Spark's time: that is a text in the time zone of its session.
    """
    to = dict(commit.get("operationParameters") or {})
    version, milliseconds = str(to.get("version")), str(to.get("datetime"))
    if version.isdecimal():
        return int(version)
    if milliseconds.isdecimal():
        return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=int(milliseconds))
    return None


def all_positions(commits: CommitInfos) -> dict[str, Any]:
    """The notes of all writers in the newest commit that has any."""
    return next((dict(commit[NOTES_KEY]) for commit in commits if NOTES_KEY in commit), {})


def _noted(commits: Iterable[CommitInfo], app_id: str, batch_id: int) -> WriterPosition | None:
    """The note in the commitInfo of this batch, or of a commit after it."""
    for commit in commits:
        note = dict(commit.get(NOTES_KEY) or {}).get(app_id)
        if note is not None and note["batch"] == batch_id:
            return from_json(note)
    return None


def _kept(table: DeltaTable, app_id: str, batch_id: int, files: pyarrow.fs.FileSystem) -> WriterPosition | None:
    """The note in the `txn` actions; None if they are of another batch: an earlier version wrote this one."""
    found: dict[str, int] = {}
    for path in log_files(files, table.version()):
        found |= _versions(path, files)
    if found.get(f"{_BATCH}{app_id}") != batch_id:
        return None
    offsets: dict[str, dict[int, int]] = {}
    prefix = f"{_OFFSETS}{app_id}/"
    for name, end in found.items():
        topic, _, number = name.removeprefix(prefix).rpartition("/")
        # A further slash means another writer, whose name begins with this one's.
        if name.startswith(prefix) and "/" not in topic and end != _GONE:
            offsets.setdefault(topic, {})[int(number)] = end
    return WriterPosition(batch_id, offsets)


def log_files(files: pyarrow.fs.FileSystem, version: int) -> list[str]:
    """The newest whole checkpoint up to a version, and the commits after it, in order."""
    commits: dict[int, str] = {}
    checkpoints: dict[tuple[int, int], list[str]] = {}  # By version and number of parts.
    for info in files.get_file_info(pyarrow.fs.FileSelector(LOG)):
        named = LOG_FILE.fullmatch(info.base_name)
        if named is None or int(named[1]) > version:
            continue
        if ".checkpoint" in info.base_name:
            checkpoints.setdefault((int(named[1]), int(named[2] or 1)), []).append(info.path)
        else:
            commits[int(named[1])] = info.path
    whole = [kind for kind, paths in checkpoints.items() if len(paths) >= kind[1]]
    newest = max(whole, default=(-1, 0))
    return checkpoints.get(newest, []) + [commits[at] for at in sorted(commits) if at > newest[0]]


def _versions(path: str, files: pyarrow.fs.FileSystem) -> dict[str, int]:
    """The number of each appId of the `txn` actions in one file of the log."""
    with files.open_input_file(path) as file:
        if path.endswith(".json"):
            # Most lines are other actions, and long; the name of the action is at the beginning of its line.
            lines = (line for line in bytes(file.read()).splitlines() if b'"txn"' in line[:16])
            actions = [json.loads(line)["txn"] for line in lines]
        else:
            actions = [each for each in pq.read_table(file, columns=["txn"])["txn"].to_pylist() if each]
    return {each["appId"]: int(each["version"]) for each in actions}
