"""A Parquet table for plain readers: a folder that contains committed files only, and a manifest of them.

For folders only: commits need atomic renames. Delta and Iceberg work in object stores, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from sordini.pipeline.tables import batch_append
from sordini.pipeline.tables.columns import spark_schema
from sordini.pipeline.tables.compaction import Small, bins, parquet_rows, rewrite
from sordini.pipeline.tables.file_names import attempt_of, new_attempt
from sordini.pipeline.tables.local_files import LocalOutputs, local_path
from sordini.pipeline.tables.manifest import Commit, Listed, Manifest
from sordini.pipeline.tables.manifest_store import STAGED_SUFFIX, ManifestStore
from sordini.pipeline.tables.staging import FileSettings, Staged, StagingPlan
from sordini.pipeline.tables.table import DAY_SECONDS, Compacted, Offsets, TableError, Written
from sordini.pipeline.tables.write_attempts import WriteAttempts
from sordini.pipeline.tables.writer_positions import WriterPosition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ParquetWithManifest:
    """A folder of Parquet files, see `Table`."""

    def __init__(self, location: str, app_id: str, partition_by: tuple[str, ...], settings: FileSettings) -> None:
        folder = local_path(location)
        assert folder is not None, "`open_table` looks first"
        self.location = location
        self.app_id = app_id
        self.partition_by = partition_by
        self._settings = settings
        self.attempts = WriteAttempts(folder, app_id)
        self._store = ManifestStore(folder)
        self._seen: Manifest | None = None

    def append(
        self,
        frame: DataFrame,
        batch_id: int,
        offsets: Offsets | None = None,
        before_commit: Callable[[], object] | None = None,
    ) -> Written:
        return batch_append.append(self, frame, WriterPosition(batch_id, offsets or {}), before_commit)

    def last(self) -> tuple[int, Offsets] | None:
        return self.read_state().note

    def schema(self) -> pa.Schema | None:
        return self.read_state().schema

    def files(self) -> list[str]:
        manifest = self._store.current()
        return sorted(str(self._store.folder / each.path) for each in manifest.files) if manifest else []

    def read(self, spark: SparkSession) -> DataFrame:
        manifest = self._store.current()
        if manifest is None:
            raise TableError(f"there is no Parquet table at {self.location}")
        columns = spark_schema(manifest.schema)
        paths = [str(self._store.folder / each.path) for each in manifest.files]
        if not paths:
            return spark.createDataFrame([], columns)
        rows = spark.read.schema(columns).option("basePath", str(self._store.folder)).parquet(*paths)
        return rows.select(*(rows[f"`{name}`"] for name in columns.names))

    def compact(self, target_bytes: int) -> Compacted:
        manifest = self._store.current()
        done = Compacted(0, 0, 0, 0)
        if manifest is None:
            return done
        small = [Small(each.path, each.bytes, each.path.rpartition("/")[0]) for each in manifest.files]
        for group in bins(small, target_bytes):
            staged = self._put_together(manifest, group)
            # Else another compaction was faster, and has merged these.
            if staged:
                before = sum(each.bytes for each in group)
                after = sum(each.bytes for each in staged)
                done = Compacted(*map(sum, zip(done, (len(group), len(staged), before, after), strict=True)))
        return done

    def clean_up(self, older_than_seconds: float = DAY_SECONDS) -> list[str]:
        if self._store.current() is None and not self._store.staging.exists():
            return []
        paths = self._store.given_up(older_than_seconds)
        for path in paths:
            path.unlink(missing_ok=True)
        for attempt in {path.relative_to(self._store.staging).parts[0] for path in paths}:
            self._store.forget_attempt(attempt)
        return [str(path) for path in paths]

    def read_state(self) -> batch_append.TableState:
        self._seen = self._store.current()
        if self._seen is None:
            return batch_append.TableState(None, (), None)
        return batch_append.TableState(self._seen.schema, self._seen.partition_by, self._seen.writers.get(self.app_id))

    def plan(self, schema: pa.Schema, partition_by: tuple[str, ...]) -> StagingPlan:
        attempt = new_attempt()
        outputs = LocalOutputs(str(self._store.staging / attempt), STAGED_SUFFIX, synced=True)
        return StagingPlan(outputs, attempt, schema, partition_by, hive=True, settings=self._settings)

    def commit(self, staged: list[Staged], schema: pa.Schema, note: WriterPosition) -> bool:
        def decide(manifest: Manifest | None) -> Commit | None:
            if (manifest and manifest.version) != (self._seen and self._seen.version):
                return None
            before = manifest or Manifest(0, schema, self.partition_by, (), {})
            return Commit(before.appended(_listed(staged), schema, self.app_id, note), _moves(staged))

        done = self._store.commit(decide)
        if done:
            self.discard({attempt_of(each.path) for each in staged})  # Also files of task attempts that failed.
        return done

    def discard(self, attempts: set[str]) -> None:
        for attempt in attempts:
            self._store.forget_attempt(attempt)

    def _put_together(self, manifest: Manifest, group: list[Small]) -> list[Staged]:
        """Replace the files by one; empty if one of them was replaced meanwhile."""
        inside = pa.schema([each for each in manifest.schema if each.name not in manifest.partition_by])
        plan = self.plan(inside, ())
        below = str(group[0].partition)
        try:
            rows = parquet_rows(str(self._store.folder / each.path) for each in group)
            written = rewrite(rows, plan)
        except FileNotFoundError:
            self._store.forget_attempt(plan.attempt)
            return []
        old = frozenset(each.path for each in group)

        def decide(now: Manifest | None) -> Commit | None:
            new = [each._replace(path=f"{below}/{each.path}".lstrip("/")) for each in _listed(written)]
            then = now.replaced(old, new) if now else None
            if then is None:
                return None
            moves = zip((source for source, _ in _moves(written)), (each.path for each in new), strict=True)
            return Commit(then, tuple(moves), tuple(sorted(old)))

        done = self._store.commit(decide)
        self._store.forget_attempt(plan.attempt)
        return written if done else []


def _listed(staged: list[Staged]) -> list[Listed]:
    return [Listed(each.path, each.rows, each.bytes) for each in staged]


def _moves(staged: list[Staged]) -> tuple[tuple[str, str], ...]:
    """From below `staging` to below the table's folder."""
    return tuple((f"{attempt_of(each.path)}/{each.path}{STAGED_SUFFIX}", each.path) for each in staged)
