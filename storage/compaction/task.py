"""What a cleaning is asked to do and what it answers: plain values, so that a child process can do the work.

Everything goes through JSON (`as_json`, `from_json`): no class of the broker is pickled across the process boundary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from sordini.system.named_tuple import NamedTuple


class CleanerClock(Protocol):
    """The port for the clock of a cleaning."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def sleep(self, seconds: float) -> None: ...


class SegmentSpan(NamedTuple):
    """One closed segment of the log."""

    base: int
    size: int
    end_offset: int
    """The first offset of the next segment."""
    modified_ms: int
    """When the `.log` was last written; carried over to what replaces it."""
    largest_timestamp: int
    """ms, of the records; -1 when they have none."""


class CleaningTask(NamedTuple):
    """Everything that one cleaning of one partition needs."""

    directory: str
    """The partition's directory."""
    segments: tuple[SegmentSpan, ...]
    """All closed segments from the log's start up to the first that may not be cleaned, oldest first."""
    first_dirty_offset: int
    """Everything below it has been cleaned before."""
    uncleanable_offset: int
    """Nothing at or above it may be cleaned."""
    log_start_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    """This cleaning's share of `log.cleaner.dedupe.buffer.size`."""
    map_load_factor: float
    io_buffer_bytes: int
    io_bytes_per_second: float
    """Reads and writes together; infinite for no throttle."""
    producers: tuple[tuple[int, int, int], ...]
    """(producer id, epoch, last offset of its last data batch or -1) of live producers: their last batch is retained,
    because the next start reads their last sequence from it."""

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values; an infinite rate becomes null, as JSON has no infinity."""
        fields = self._asdict()
        fields["segments"] = [list(span) for span in self.segments]
        fields["producers"] = [list(producer) for producer in self.producers]
        if self.io_bytes_per_second == float("inf"):
            fields["io_bytes_per_second"] = None
        return fields

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> CleaningTask:
        """What `as_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        known = {name: fields[name] for name in cls._fields}
        known["segments"] = tuple(SegmentSpan(*span) for span in known["segments"])
        known["producers"] = tuple(
            (int(producer_id), int(epoch), int(last)) for producer_id, epoch, last in known["producers"]
        )
        rate = known["io_bytes_per_second"]
        known["io_bytes_per_second"] = float("inf") if rate is None else float(rate)
        return cls(**known)


class Replacement(NamedTuple):
    """A finished segment: `<base:020d>.log.cleaned` and its indexes `.cleaned` beside it, synced.

    The files are there even when nothing is left (`size` 0): the empty segment then stands for those it replaces, as
    it does in Apache Kafka, so that the log's first segment and the offsets between segments stay accounted for.
    `.txnindex.cleaned` exists only when an aborted transaction still has batches.
    """

    base: int
    size: int
    replaces: tuple[int, ...]
    """Bases of the segments it stands for, oldest first; its own base is the first of them."""


class CleaningFigures(NamedTuple):
    """The figures of one cleaning, for the log lines and the metrics."""

    bytes_mapped: int
    """Of the dirty part, read to build the offset map."""
    records_mapped: int
    map_entries: int
    map_fullness: float
    """Of what the map may hold: 1.0 means that it ended the round early."""
    bytes_read: int
    """Of the segments that were copied."""
    bytes_written: int
    records_read: int
    records_kept: int
    tombstones_dropped: int
    keyless_dropped: int
    """Records without a key, which cannot stay in a compacted log."""
    markers_dropped: int
    map_seconds: float
    copy_seconds: float


class CleaningResult(NamedTuple):
    """The result of a cleaning: the log is unchanged until the replacements are swapped in."""

    replacements: tuple[Replacement, ...]
    cleaned_to: int
    """The new first dirty offset."""
    figures: CleaningFigures

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "replacements": [[made.base, made.size, list(made.replaces)] for made in self.replacements],
            "cleaned_to": self.cleaned_to,
            "figures": self.figures._asdict(),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> CleaningResult:
        """What `as_json` wrote; raises KeyError, TypeError or ValueError for anything else."""
        made = tuple(Replacement(base, size, tuple(replaces)) for base, size, replaces in fields["replacements"])
        return cls(made, int(fields["cleaned_to"]), CleaningFigures(**fields["figures"]))
