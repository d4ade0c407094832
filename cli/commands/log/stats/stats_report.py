"""The output of `sordini log stats`: a table of each partition's segments, and totals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordini.admin.failure import Failure
from sordini.cli.commands.log.stats.segment_figures import Figures, segment_figures
from sordini.cli.commands.log.verify.directory import existing, is_partition
from sordini.cli.common.output import size_text, table
from sordini.protocol.printable import counted
from sordini.storage import names
from sordini.storage.disk import Disk
from sordini.system.clock import utc_text

HEAD = (
    "SEGMENT",
    "LOG",
    "INDEXES",
    "BATCHES",
    "RECORDS",
    "B/RECORD",
    "KEYS",
    "TOMBSTONES",
    "CODECS",
    "RATIO",
    "FIRST",
    "LAST",
)


class Statistics:
    """Reads directories, and prints each partition when it has been read."""

    def __init__(self, disk: Disk, print_line: Callable[[str], None]) -> None:
        self._disk = disk
        self._print = print_line
        self._partitions: list[dict[str, Any]] = []
        self._total = Figures()

    def check_path(self, path: str) -> None:
        """Read a log directory, or the directory of one partition. Raises Failure."""
        path = existing(self._disk, path)
        try:
            if is_partition(self._disk, path):
                self._partition(path)
            else:
                for name in sorted(self._disk.directories(path), key=_by_partition):
                    if names.partition_of(name) is not None:
                        self._partition(f"{path}/{name}")
        except OSError as error:
            raise Failure(f"{error.filename or path}: {(error.strerror or str(error)).lower()}") from None

    def finish(self) -> None:
        """Print the totals if there is more than one partition."""
        count = len(self._partitions)
        if count != 1:
            self._print(f"{counted(count, 'partition')}\n{_summary(self._total)}")

    def as_json(self) -> dict[str, Any]:
        return {"partitions": self._partitions, "total": _json(self._total)}

    def _partition(self, path: str) -> None:
        file_names = self._disk.list_directory(path)
        bases = [base for name in file_names if (base := names.offset_of(name, names.LOG)) is not None]
        total = Figures()
        segments = []
        for base in bases:
            figures = segment_figures(self._disk, path, base)
            segments.append((base, figures))
            total.add(figures)
        for name in file_names:
            if names.offset_of(name, names.SNAPSHOT) is not None:
                size = self._disk.file_size(f"{path}/{name}")
                total.files[names.SNAPSHOT] = total.files.get(names.SNAPSHOT, 0) + size
        self._total.add(total)
        listed = [{"base_offset": base} | _json(figures) for base, figures in segments]
        self._partitions.append({"directory": path, "segments": listed, "total": _json(total)})
        rows = [_row(str(base), figures) for base, figures in segments]
        self._print("\n".join([path, table(HEAD, rows), _summary(total), ""]))


def _by_partition(name: str) -> tuple[str, int]:
    """Partition 10 comes after partition 9."""
    partition = names.partition_of(name)
    return (name, 0) if partition is None else partition


def _row(name: str, figures: Figures) -> list[object]:
    indexes = sum(size for suffix, size in figures.files.items() if suffix != names.LOG)
    return [
        name,
        size_text(figures.log_bytes),
        size_text(indexes),
        figures.batches,
        figures.records,
        None if figures.bytes_per_record is None else f"{figures.bytes_per_record:.1f}",
        _keys(figures),
        figures.tombstones,
        "+".join(sorted(figures.codecs)) or None,
        None if figures.compression_ratio is None else f"{figures.compression_ratio:.2f}",
        _time(figures.first_timestamp),
        _time(figures.last_timestamp),
    ]


def _summary(figures: Figures) -> str:
    """The statistics that do not fit in the table, in a few lines."""
    offsets = f", offsets {figures.first_offset}-{figures.last_offset}" if figures.last_offset >= 0 else ""
    records = f"{figures.records} records in {figures.batches} batches{offsets}"
    sizes = f"{size_text(figures.key_bytes)} of keys, {size_text(figures.value_bytes)} of values"
    lines = [
        f"  {size_text(figures.total_bytes)} in the files of {counted(figures.segments, 'segment')}; {records}",
        f"  keys: {_keys(figures)}, {figures.keyless} records without a key, {figures.tombstones} tombstones; {sizes}",
    ]
    for codec, of_codec in sorted(figures.codecs.items()):
        ratio = f", {of_codec.expanded / of_codec.stored:.2f} times smaller" if codec != "none" else ""
        lines.append(f"  compression {codec}: {of_codec.batches} batches of {size_text(of_codec.stored)}{ratio}")
    if figures.producers:
        share = figures.transactional_batches / figures.batches
        lines.append(
            f"  producers: {len(figures.producers)}; {share:.1%} of the batches transactional, "
            f"{figures.control_batches} of them markers; {figures.aborted} transactions aborted"
        )
    if figures.bytes_per_index_entry is not None:
        density = f"one for every {size_text(round(figures.bytes_per_index_entry))} of log"
        lines.append(f"  index: {figures.index_entries} entries, {density}; time index: {figures.time_index_entries}")
    old = {magic: count for magic, count in sorted(figures.formats.items()) if magic != 2}
    if old:
        lines.append("  old formats: " + ", ".join(f"{count} of format {magic}" for magic, count in old.items()))
    if figures.damaged_batches or figures.unread_bytes:
        lines.append(
            f"  DAMAGED: {figures.damaged_batches} batches, {figures.unread_bytes} bytes at the ends of segments; "
            "see sordini log verify"
        )
    return "\n".join(lines)


def _keys(figures: Figures) -> str:
    return f"{'about ' if figures.keys.is_estimate else ''}{figures.keys.count()}"


def _time(timestamp: int) -> str | None:
    return None if timestamp < 0 else utc_text(timestamp)


def _json(figures: Figures) -> dict[str, Any]:
    plain = {
        name: getattr(figures, name)
        for name in figures.__dataclass_fields__
        if name not in {"keys", "producers", "codecs", "formats", "files"}
    }
    return plain | {
        "files": {suffix.removeprefix("."): size for suffix, size in figures.files.items()},
        "formats": {str(magic): count for magic, count in sorted(figures.formats.items())},
        "codecs": {name: vars(codec) for name, codec in sorted(figures.codecs.items())},
        "keys": figures.keys.count(),
        "keys_are_estimated": figures.keys.is_estimate,
        "producers": len(figures.producers),
        "bytes_per_record": figures.bytes_per_record,
        "compression_ratio": figures.compression_ratio,
        "bytes_per_index_entry": figures.bytes_per_index_entry,
    }
