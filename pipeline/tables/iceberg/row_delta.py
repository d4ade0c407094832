"""One Iceberg snapshot that adds and removes data files and delete files: pyiceberg writes data files only.

The delete files of a table are listed in manifests of their own. What pyiceberg has for snapshots is used as it is:
file names, summary, manifest list, requirements of the commit; the manifests are written here. They are merged as
Java's writers do, so that their number does not grow with that of the batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import TableProperties, Transaction
from pyiceberg.table.snapshots import Operation, SnapshotSummaryCollector, Summary, update_snapshot_summaries
from pyiceberg.table.update.snapshot import _SnapshotProducer

MANIFESTS_MIN = 100
"""So many small manifests are merged; as Java's default of `commit.manifest.min-count-to-merge`."""
MANIFEST_BYTES = 8 * 1024 * 1024
"""A manifest of this size is not merged any more; as Java's default of `commit.manifest.target-size-bytes`."""


@dataclass
class FileChanges:
    """What a snapshot adds and removes: data files and delete files, told apart by their `content`."""

    added: list[DataFile] = field(default_factory=list)
    removed: list[DataFile] = field(default_factory=list)


class DeletesWriter(ManifestWriterV2):
    """Writes a manifest of delete files."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class RowDelta(_SnapshotProducer["RowDelta"]):
    """The snapshot, see above. Raises CommitFailedException if a file to remove is not in the table any more."""

    def __init__(self, change: Transaction, files: FileChanges, properties: dict[str, str]) -> None:
        is_append = not files.removed and all(each.content == DataFileContent.DATA for each in files.added)
        super().__init__(
            operation=Operation.APPEND if is_append else Operation.OVERWRITE,
            transaction=change,
            io=change._table.io,  # noqa: SLF001 - as pyiceberg's own producers are given it
            snapshot_properties=properties,
        )
        self._files = files

    def _manifests(self) -> list[ManifestFile]:
        added: dict[tuple[ManifestContent, int], list[ManifestEntry]] = defaultdict(list)
        for file in self._files.added:
            content = ManifestContent.DATA if file.content == DataFileContent.DATA else ManifestContent.DELETES
            added[content, file.spec_id].append(self._entry(ManifestEntryStatus.ADDED, file))
        new = [self._written(content, spec_id, entries) for (content, spec_id), entries in added.items()]
        kept, rewritten = self._without_removed()
        return [*new, *rewritten, *self._merged(kept)]

    def _without_removed(self) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """The manifests of the parent, unchanged; and those written anew without the files that are removed."""
        removed = {each.file_path for each in self._files.removed}
        kept, rewritten = [], []
        for manifest in self._inherited():
            entries = self.fetch_manifest_entry(manifest) if removed else []
            if all(entry.data_file.file_path not in removed for entry in entries):
                kept.append(manifest)
                continue
            changed = []
            for entry in entries:
                is_removed = entry.data_file.file_path in removed
                status = ManifestEntryStatus.DELETED if is_removed else ManifestEntryStatus.EXISTING
                changed.append(self._entry(status, entry.data_file, entry))
                removed.discard(entry.data_file.file_path)
            rewritten.append(self._written(manifest.content, manifest.partition_spec_id, changed))
        if removed:
            raise CommitFailedException(f"{', '.join(sorted(removed))} was removed by another commit")
        return kept, rewritten

    def _inherited(self) -> list[ManifestFile]:
        """The parent's manifests that list anything."""
        metadata = self._transaction.table_metadata
        parent = metadata.snapshot_by_id(self._parent_snapshot_id) if self._parent_snapshot_id is not None else None
        listed = parent.manifests(self._io) if parent else []
        return [each for each in listed if each.has_added_files() or each.has_existing_files()]

    def _merged(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        """With small manifests of one kind merged, if there are many."""
        properties = self._transaction.table_metadata.properties
        enough = int(properties.get(TableProperties.MANIFEST_MIN_MERGE_COUNT, MANIFESTS_MIN))
        size = int(properties.get(TableProperties.MANIFEST_TARGET_SIZE_BYTES, MANIFEST_BYTES))
        groups: dict[tuple[ManifestContent, int], list[ManifestFile]] = defaultdict(list)
        result = []
        for manifest in manifests:
            if manifest.manifest_length >= size:
                result.append(manifest)
            else:
                groups[manifest.content, manifest.partition_spec_id].append(manifest)
        for (content, spec_id), small in groups.items():
            if len(small) < enough:
                result.extend(small)
                continue
            entries = [entry for each in small for entry in self.fetch_manifest_entry(each)]
            merged = [self._entry(ManifestEntryStatus.EXISTING, each.data_file, each) for each in entries]
            result.append(self._written(content, spec_id, merged))
        return result

    def _entry(self, status: ManifestEntryStatus, file: DataFile, former: ManifestEntry | None = None) -> ManifestEntry:
        """An entry has the snapshot in which its file was added or deleted, and the sequence number of the former."""
        is_existing = former is not None and status == ManifestEntryStatus.EXISTING
        return ManifestEntry.from_args(
            status=status,
            snapshot_id=former.snapshot_id if is_existing and former else self._snapshot_id,
            sequence_number=former.sequence_number if former else None,
            file_sequence_number=former.file_sequence_number if former else None,
            data_file=file,
        )

    def _written(self, content: ManifestContent, spec_id: int, entries: Iterable[ManifestEntry]) -> ManifestFile:
        with self._writer(content, self.spec(spec_id)) as writer:
            for entry in entries:
                writer.add_entry(entry)
        return writer.to_manifest_file()

    def _writer(self, content: ManifestContent, spec: PartitionSpec) -> ManifestWriter:
        if content == ManifestContent.DATA:
            return self.new_manifest_writer(spec)
        return DeletesWriter(spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression)

    def _summary(self, snapshot_properties: dict[str, str] | None = None) -> Summary:
        metadata = self._transaction.table_metadata
        specs, schema = metadata.specs(), metadata.schema()
        counts = SnapshotSummaryCollector()
        for file in self._files.added:
            counts.add_file(file, schema, specs[file.spec_id])
        for file in self._files.removed:
            counts.remove_file(file, schema, specs[file.spec_id])
        parent = metadata.snapshot_by_id(self._parent_snapshot_id) if self._parent_snapshot_id is not None else None
        summary = Summary(operation=self._operation, **counts.build(), **(snapshot_properties or {}))
        return update_snapshot_summaries(summary, parent.summary if parent else None)

    def _existing_manifests(self) -> list[ManifestFile]:
        return self._without_removed()[0]

    def _deleted_entries(self) -> list[ManifestEntry]:
        return []
