"""What a cleaning counts while it works."""

from __future__ import annotations

from sordini.storage.compaction.task import CleaningFigures


class Tally:
    """Running figures; `figures` gives them as the answer has them."""

    __slots__ = CleaningFigures._fields

    def __init__(self) -> None:
        self.bytes_mapped = 0
        self.records_mapped = 0
        self.map_entries = 0
        self.map_fullness = 0.0
        self.bytes_read = 0
        self.bytes_written = 0
        self.records_read = 0
        self.records_kept = 0
        self.tombstones_dropped = 0
        self.keyless_dropped = 0
        self.markers_dropped = 0
        self.map_seconds = 0.0
        self.copy_seconds = 0.0

    def figures(self) -> CleaningFigures:
        return CleaningFigures(*(getattr(self, name) for name in CleaningFigures._fields))
