"""Upkeep of Delta tables that deltalake does not have: clustered compaction at a bounded cost, and a bounded log.

deltalake's z-order rewrites whole partitions each time. Here only small files are merged, and the rows of each new file
are ordered: the cost is that of the rows that are new.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, WriterProperties
from deltalake.transaction import AddAction, RemoveAction

from sordini.pipeline.tables.arrow_reading import FILE_FORMAT
from sordini.pipeline.tables.compaction import Small, bins, is_small, rewrite
from sordini.pipeline.tables.delta.commit_infos import LOG
from sordini.pipeline.tables.delta.positions import LOG_FILE
from sordini.pipeline.tables.file_names import text_of
from sordini.pipeline.tables.staging import Staged, StagingPlan
from sordini.pipeline.tables.table import Compacted, TableError

VERSIONS_KEPT: Final = 2_000
"""By default. Other programs may follow the table version by version and fall behind, but a folder is listed as a whole
by each commit."""
EXPIRY_COMMITS: Final = 20
"""Expired commits are looked for after one of so many commits: deltalake lists the whole log for it."""
RETENTION: Final = "delta.logRetentionDuration"
NO_CLEANUP: Final = "delta.enableExpiredLogCleanup"


def small_files(table: DeltaTable, target_bytes: int) -> int:
    """See `Table.small_files`."""
    sizes = pa.table(table.get_add_actions())["size_bytes"].to_pylist()
    return sum(is_small(size, target_bytes) for size in sizes)


def compact(table: DeltaTable, compression: str, target_bytes: int) -> Compacted:
    """Deltalake's own compaction. Raises CommitFailedError if another writer replaced one of the files."""
    properties = WriterProperties(compression=_compression(compression))
    done = table.optimize.compact(target_size=target_bytes, writer_properties=properties)
    before, after = _details(done["filesRemoved"]), _details(done["filesAdded"])
    return Compacted(before["totalFiles"], after["totalFiles"], before["totalSize"], after["totalSize"])


def cluster(
    table: DeltaTable, files: pyarrow.fs.FileSystem, plan: StagingPlan, target_bytes: int, cluster_by: Sequence[str]
) -> Compacted:
    """Merge small files, with the rows of each new file ordered, in one commit. `files` is the table's folder.

    Files with deletion vectors are skipped. Raises CommitFailedError if another writer replaced one of the files.
    """
    partition_by = table.metadata().partition_columns
    columns = [name for name in cluster_by if name not in partition_by]
    actions = _mergeable(table)
    groups = bins((Small(path, size, tuple(values.items())) for path, (size, values) in actions.items()), target_bytes)
    done = Compacted(0, 0, 0, 0)
    commit: list[AddAction | RemoveAction] = []
    for group in groups:
        values = actions[group[0].path][1]
        inside = replace(plan, schema=plan.file_schema, partition_by=())
        rows = _rows(files, [unquote(each.path) for each in group], inside.schema)
        new = rewrite(rows, inside, columns)
        commit += _actions(group, new, values)
        before, after = sum(each.bytes for each in group), sum(each.bytes for each in new)
        done = Compacted(*map(sum, zip(done, (len(group), len(new), before, after), strict=True)))
    if commit:
        table.create_write_transaction(
            commit,
            "append",
            Schema.from_arrow(plan.schema),
            partition_by,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    return done


def hooks_after(version: int) -> PostCommitHookProperties:
    """What deltalake does after the commit that follows a version."""
    is_due = (version + 1) % EXPIRY_COMMITS == 0
    return PostCommitHookProperties(cleanup_expired_logs=None if is_due else False)


def keeps_log(table: DeltaTable) -> bool:
    """Whether the table's own settings say that nothing of its log is deleted."""
    return bool(table.metadata().configuration.get(NO_CLEANUP, "true").lower() == "false")


def drop_versions(table: DeltaTable, files: pyarrow.fs.FileSystem, keep: int | None) -> int:
    """See `Table.drop_versions`: commits before a checkpoint that the `keep` newest versions begin with or after."""
    if keeps_log(table):
        return 0
    if RETENTION in table.metadata().configuration:
        table.cleanup_metadata()
        return 0
    first_kept = table.version() - (VERSIONS_KEPT if keep is None else keep) + 1
    listed = [(info.path, LOG_FILE.fullmatch(info.base_name)) for info in files.get_file_info(_selector())]
    named = [(path, int(found[1]), ".checkpoint" in path) for path, found in listed if found]
    # One in several parts may lack a part, so only those in one file begin what is kept.
    checkpoints = [
        version
        for path, version, is_checkpoint in named
        if is_checkpoint and version <= first_kept and path.endswith(f"/{version:020}.checkpoint.parquet")
    ]
    if not checkpoints:
        return 0
    start = max(checkpoints)
    old = sorted((path, is_checkpoint) for path, version, is_checkpoint in named if version < start)
    for path, _ in old:
        files.delete_file(path)
    return sum(not is_checkpoint for _, is_checkpoint in old)


def _details(text: Any) -> dict[str, int]:
    """The counts of a compaction, which deltalake gives as JSON inside JSON."""
    return dict(json.loads(text)) if isinstance(text, str) else dict(text)


def _compression(name: str) -> Any:
    return {"none": "UNCOMPRESSED", "lz4": "LZ4_RAW"}.get(name, name.upper())


def _selector() -> pyarrow.fs.FileSelector:
    return pyarrow.fs.FileSelector(LOG)


def _mergeable(table: DeltaTable) -> dict[str, tuple[int, dict[str, str | None]]]:
    """Size and partition values of the files without deletion vectors, by path, in the order of the log."""
    features = set(table.protocol().reader_features or ())
    if "columnMapping" in features or table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        raise TableError(f"{table.table_uri} uses column mapping: its files cannot be clustered")
    masked = set()
    if "deletionVectors" in features:
        vectors = pa.table(table.deletion_vectors())
        masked = {path.rpartition("/")[2] for path in vectors["filepath"].to_pylist()}
    rows = pa.table(table.get_add_actions()).to_pylist()
    return {
        row["path"]: (
            row["size_bytes"],
            {name: text_of(value) for name, value in (row.get("partition") or {}).items()},
        )
        for row in rows
        if row["path"].rpartition("/")[2] not in masked
    }


def _rows(files: pyarrow.fs.FileSystem, paths: Iterable[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for path in paths:
        yield from FILE_FORMAT.make_fragment(path, files).to_batches(schema=schema)


def _actions(
    old: Sequence[Small], new: Sequence[Staged], values: dict[str, str | None]
) -> list[AddAction | RemoveAction]:
    now_ms = int(time.time() * 1000)
    added = [AddAction(each.path, each.bytes, values, now_ms, False, each.statistics) for each in new]
    return [*added, *(RemoveAction(each.path, False, now_ms, each.bytes, values) for each in old)]
