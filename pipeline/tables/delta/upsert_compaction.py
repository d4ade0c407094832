"""Compaction and clean-up of Delta tables of upserts, of which deltalake's compaction would forget the deletions.

Small files are merged, and files with many deleted rows are written again without them. Files of deletions are merged
by the day on which they were committed, so that each is still removed at its time. A file that a batch has changed
meanwhile is left out: the next compaction finds it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.fs
from pyroaring import BitMap64

from sordini.pipeline.tables.batch_append import COMMIT_TRIES
from sordini.pipeline.tables.compaction import Small, bins, rewrite
from sordini.pipeline.tables.delta import deletion_vectors
from sordini.pipeline.tables.delta.log import Action, LiveFile, Snapshot
from sordini.pipeline.tables.delta.upsert import DeltaUpserts, add_of, remove_of
from sordini.pipeline.tables.staging import Staged, StagingPlan
from sordini.pipeline.tables.table import DAY_SECONDS, Compacted

DELETED_SHARE: Final = 0.25
"""A file of which this share of the rows is deleted is written again, also alone."""


class Commits(Protocol):
    """The table whose files are compacted."""

    def live_files(self) -> Mapping[str, LiveFile]:
        """Of the newest version, by their paths."""
        ...

    def commit_actions(self, operation: str, actions: list[Action], note: None) -> bool:
        """Commit on top of the version that was read last; False if there is a newer one."""
        ...


def compact(
    table: Commits, upserts: DeltaUpserts, staging: Callable[[], StagingPlan], target_bytes: int, by: Sequence[str]
) -> Compacted:
    """Merge and write again what `groups` finds, each group in a commit; rows are ordered by the columns `by`."""
    done = Compacted(0, 0, 0, 0)
    for group in groups(table.live_files(), target_bytes):
        removes, adds, gained = rewritten(upserts, group, staging(), by)
        for _ in range(COMMIT_TRIES):
            if not is_there(table.live_files(), group):
                break
            if table.commit_actions("OPTIMIZE", [*removes, *adds], None):
                done = Compacted(*map(sum, zip(done, gained, strict=True)))
                break
    return done


def groups(files: Mapping[str, LiveFile], target_bytes: int) -> list[list[LiveFile]]:
    """The files to be merged or written again, by the file that each group becomes."""
    data = {path: file for path, file in files.items() if not file.has_deletions_only}
    small = [
        # Of a file whose rows are deleted in part, what will be left counts.
        Small(path, _live_bytes(file), tuple(file.add["partitionValues"].items()))
        for path, file in sorted(data.items())
    ]
    found = [[data[each.path] for each in group] for group in bins(small, target_bytes)]
    taken = {file.path for group in found for file in group}
    found += [[file] for path, file in data.items() if path not in taken and _deleted_share(file) >= DELETED_SHARE]
    return found + _deletions_by_day(files)


def rewritten(
    upserts: DeltaUpserts, group: list[LiveFile], plan: StagingPlan, cluster_by: Sequence[str]
) -> tuple[list[Action], list[Action], Compacted]:
    """Write a group's rows, ordered by `cluster_by`; the `remove` and the `add` actions, and what was gained.

    Raises FileNotFoundError.
    """
    now_ms = int(time.time() * 1000)
    removes = [remove_of(file, now_ms, is_change=False) for file in group]
    partition = group[0].add["partitionValues"]
    if group[0].has_deletions_only:
        staged, adds = _deletions(upserts, group, plan, partition)
    else:
        inside = pa.schema([field for field in plan.schema if field.name not in partition])
        rows = (batch for file in group for batch in upserts.live_rows(file, inside.names))
        columns = [name for name in cluster_by if name not in partition]
        staged = rewrite(rows, replace(plan, schema=inside, partition_by=()), columns)
        adds = [{"add": {**add_of(file._replace(partition=partition), now_ms), "dataChange": False}} for file in staged]
    before, after = sum(file.add["size"] for file in group), sum(file.bytes for file in staged)
    return removes, adds, Compacted(len(group), len(staged), before, after)


def all_rewritten(
    upserts: DeltaUpserts, files: Iterable[LiveFile], staging: Callable[[], StagingPlan]
) -> tuple[list[Action], set[str]]:
    """Write each file again, as plans have its columns; the actions, and the attempts that wrote."""
    actions: list[Action] = []
    attempts = set()
    for file in files:
        plan = staging()
        attempts.add(plan.attempt)
        removes, adds, _ = rewritten(upserts, [file], plan, ())
        actions += [*removes, *adds]
    return actions, attempts


def is_there(files: Mapping[str, LiveFile], group: list[LiveFile]) -> bool:
    """Whether the files of a group are what they were."""
    return all(
        file.path in files and files[file.path].add.get("deletionVector") == file.add.get("deletionVector")
        for file in group
    )


def unused_vectors(
    snapshot: Snapshot, system: pyarrow.fs.FileSystem, kept_ms: float, is_old: Callable[[str], bool]
) -> list[str]:
    """Files of vectors, in the table's folder, that no version needs that is younger than `kept_ms`.

    Those of which the log knows nothing are left by writers that crashed: `is_old` says whether no writer can
    still commit one.
    """
    live = {
        deletion_vectors.vector_path(file.add["deletionVector"])
        for file in snapshot.files.values()
        if "deletionVector" in file.add
    }
    since = time.time() * 1000 - kept_ms
    young = {path for path, replaced_ms in snapshot.replaced_vectors.items() if replaced_ms >= since}
    found = [info.path for info in system.get_file_info(pyarrow.fs.FileSelector("")) if _is_vector(info.base_name)]
    return [path for path in found if path not in live and path not in young and is_old(path)]


def _deletions(
    upserts: DeltaUpserts, group: list[LiveFile], plan: StagingPlan, partition: Mapping[str, str | None]
) -> tuple[list[Staged], list[Action]]:
    """One file of the deletions of several, as old as the newest of them."""
    tables = [upserts.all_rows(file) for file in group]
    merged = pa.concat_tables(tables, promote_options="default")
    schema = pa.schema([field for field in plan.schema if field.name in merged.schema.names])
    staged = rewrite(merged.to_batches(), replace(plan, schema=schema, partition_by=()))
    newest_ms = max(int(file.add["modificationTime"]) for file in group)
    adds = {
        file.path: {**add_of(file._replace(partition=dict(partition)), newest_ms), "dataChange": False}
        for file in staged
    }
    vectors = {file.path: BitMap64(range(file.rows)) for file in staged}
    return staged, upserts.with_vectors(adds, vectors)


def _deletions_by_day(files: Mapping[str, LiveFile]) -> list[list[LiveFile]]:
    days: dict[int, list[LiveFile]] = {}
    for file in files.values():
        if file.has_deletions_only:
            days.setdefault(int(file.add["modificationTime"]) // (DAY_SECONDS * 1000), []).append(file)
    return [group for group in days.values() if len(group) > 1]


def _deleted_share(file: LiveFile) -> float:
    return file.deleted_rows / file.rows if file.rows else 0.0


def _live_bytes(file: LiveFile) -> int:
    return round(int(file.add["size"]) * (1 - _deleted_share(file)))


def _is_vector(name: str) -> bool:
    return name.startswith("deletion_vector_") and name.endswith(".bin")
