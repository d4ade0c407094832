"""Verifies one partition's directory: its segments in order, and the other files about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sordini.cli.commands.log.verify.findings import Finding
from sordini.cli.commands.log.verify.producers import ProducerCheck
from sordini.cli.commands.log.verify.segment import SegmentCheck, SegmentReport, SegmentState
from sordini.protocol.printable import counted
from sordini.protocol.records.batch import BatchHeader
from sordini.protocol.types import NO_TOPIC_ID, TopicId
from sordini.storage import names
from sordini.storage.checkpoints import DamagedFile, read_epochs, read_topic_id
from sordini.storage.disk import Disk
from sordini.system.named_tuple import NamedTuple

_SMALL_FILES: Final = (names.LEADER_EPOCHS, names.PARTITION_METADATA)
_LEFTOVERS: Final = (names.DELETED, names.CLEANED)


class PartitionContext(NamedTuple):
    """What the log directory's checkpoints say of a partition; None without an entry."""

    is_clean: bool = False
    """Whether the log directory has the clean shutdown marker."""
    log_start: int | None = None
    high_watermark: int | None = None
    recovery_point: int | None = None
    is_compacted: bool = False
    """Whether offsets may be missing between others."""


@dataclass
class PartitionReport:
    """The findings of one partition's directory."""

    path: str
    findings: list[Finding] = field(default_factory=list)
    segments: list[SegmentReport] = field(default_factory=list)
    topic_id: TopicId = NO_TOPIC_ID
    start_offset: int = 0
    end_offset: int = 0

    @property
    def is_damaged(self) -> bool:
        return any(finding.is_damage for finding in self.findings)

    def total(self, name: str) -> int:
        return sum(getattr(segment, name) for segment in self.segments)


class PartitionCheck:
    """Checks one directory. `run` may raise OSError."""

    def __init__(self, disk: Disk, directory: str, context: PartitionContext) -> None:
        self._disk = disk
        self._directory = directory
        self._context = context
        self._names = disk.list_directory(directory)
        self._bases = [base for name in self._names if (base := names.offset_of(name, names.LOG)) is not None]
        self._epochs: list[tuple[int, int]] | None = None
        self.report = PartitionReport(directory)

    def run(self) -> PartitionReport:
        report = self.report
        self._epochs = self._read_epochs()
        self._read_topic_id()
        self._check_names()
        start = self._bases[0] if self._bases else 0
        producers = ProducerCheck(self._disk, self._directory, start, may_lack_records=self._context.is_compacted)
        report.start_offset = max(start, self._context.log_start or 0)
        report.end_offset = start
        epoch_check = _EpochCheck(self._epochs, f"{self._directory}/{names.LEADER_EPOCHS}")
        snapshots = producers.snapshot_offsets
        for number, base in enumerate(self._bases):
            self._segment(number, base, producers, epoch_check)
        report.findings += epoch_check.findings
        if self._bases:
            producers.end(report.end_offset)
        report.findings += producers.findings
        self._end_of_epochs()
        if self._context.is_clean:
            self._hazards(snapshots, producers)
        return report

    def _segment(self, number: int, base: int, producers: ProducerCheck, epochs: _EpochCheck) -> None:
        report = self.report
        is_last = number + 1 == len(self._bases)
        state = SegmentState(
            is_closed=not is_last or self._context.is_clean,
            may_be_padded=is_last and not self._context.is_clean,
            may_lack_records=self._context.is_compacted,
        )
        check = SegmentCheck(self._disk, self._directory, base, state)
        found = check.report
        if number and base != report.end_offset:
            self._between_segments(found, base)
        for entry, header in check.batches():
            producers.batch(entry, header)
            epochs.batch(header)
            if found.good_end < found.size:
                producers.lose_track()
        if found.good_end < found.size:
            producers.lose_track()
        producers.segment_ended(base)
        report.segments.append(found)
        report.findings += found.findings
        report.end_offset = max(report.end_offset, found.end_offset)

    def _between_segments(self, segment: SegmentReport, base: int) -> None:
        end = self.report.end_offset
        if base < end:
            self.report.findings.append(
                Finding(
                    "segments-overlap",
                    segment.path,
                    f"begins at {base}, and offsets up to {end - 1} came before",
                    0,
                    base,
                )
            )
        elif not self._context.is_compacted and self.report.segments[-1].good_end == self.report.segments[-1].size:
            # If the segment before is damaged, its end is unknown.
            self.report.findings.append(
                Finding("gap", segment.path, f"begins at {base}, and the one before ends at {end}", 0, end)
            )

    def _check_names(self) -> None:
        logs = set(self._bases)
        find = self.report.findings.append
        for name in self._names:
            path = f"{self._directory}/{name}"
            indexed = [names.offset_of(name, suffix) for suffix in names.SEGMENT_SUFFIXES[1:]]
            base = next((offset for offset in indexed if offset is not None), None)
            if base is not None:
                if base not in logs:
                    find(Finding("orphan", path, "there is no log beside it", None, base))
            elif not name.endswith((*_LEFTOVERS, names.SWAP)) and not self._is_known(name):
                find(Finding("other-file", path, "no file of a partition has this name"))

        for kind, suffix in (("leftover", names.DELETED), ("leftover", names.CLEANED), ("unfinished-swap", names.SWAP)):
            count = sum(name.endswith(suffix) for name in self._names)
            if count:
                find(Finding(kind, f"{self._directory}/*{suffix}", counted(count, "file")))

    def _is_known(self, name: str) -> bool:
        if name in _SMALL_FILES:
            return True
        if any(name == f"{known}.tmp" for known in _SMALL_FILES):
            return True
        return any(names.offset_of(name, suffix) is not None for suffix in (names.LOG, names.SNAPSHOT))

    def _read_topic_id(self) -> None:
        try:
            self.report.topic_id = read_topic_id(self._disk, self._directory)
        except DamagedFile as error:
            path = f"{self._directory}/{names.PARTITION_METADATA}"
            self.report.findings.append(Finding("metadata-damaged", path, _without_path(error), 0))

    def _read_epochs(self) -> list[tuple[int, int]] | None:
        try:
            return read_epochs(self._disk, self._directory)
        except DamagedFile as error:
            path = f"{self._directory}/{names.LEADER_EPOCHS}"
            self.report.findings.append(Finding("epochs-damaged", path, _without_path(error), 0))
            return None

    def _end_of_epochs(self) -> None:
        path = f"{self._directory}/{names.LEADER_EPOCHS}"
        previous = (-1, -1)
        for epoch, start in self._epochs or []:
            if epoch <= previous[0] or start < previous[1]:
                what = f"epoch {epoch} from {start} comes after epoch {previous[0]} from {previous[1]}"
                self.report.findings.append(Finding("epochs-disorder", path, what, None, start))
            # The epoch of a leader that has written nothing yet begins at the log's end.
            if start > self.report.end_offset:
                what = f"epoch {epoch} begins at {start}, and the log ends at {self.report.end_offset}"
                self.report.findings.append(Finding("epochs-beyond", path, what, None, start))
            previous = (epoch, start)

    def _hazards(self, snapshots: list[int], producers: ProducerCheck) -> None:
        """Damage that must not occur together with a clean shutdown marker."""
        report = self.report
        last = report.segments[-1] if report.segments else None
        if last is not None and last.has_torn_end:
            report.findings.append(
                Finding(
                    "hazard-torn",
                    last.path,
                    "the last batch is torn although there is a clean shutdown marker",
                    last.good_end,
                )
            )
        padded = [finding for finding in report.findings if finding.kind in {"index-padded", "time-index-padded"}]
        for finding in padded:
            report.findings.append(Finding("hazard-padded", finding.path, finding.what, finding.position))
        if report.end_offset not in snapshots and len(producers.state):
            what = f"there is no snapshot at the log's end, {report.end_offset}"
            path = f"{self._directory}/{names.file_name(report.end_offset, names.SNAPSHOT)}"
            report.findings.append(Finding("hazard-snapshot", path, what, None, report.end_offset))


class _EpochCheck:
    """Compares the leader epoch in each batch with that in the checkpoint."""

    def __init__(self, entries: list[tuple[int, int]] | None, path: str) -> None:
        self.findings: list[Finding] = []
        self._entries = entries or []
        self._path = path
        self._at = -1

    def batch(self, header: BatchHeader) -> None:
        epoch = header.partition_leader_epoch
        if epoch < 0 or not self._entries or self.findings:
            return
        while self._at + 1 < len(self._entries) and self._entries[self._at + 1][1] <= header.base_offset:
            self._at += 1
        noted = self._entries[self._at][0] if self._at >= 0 else None
        if noted != epoch:
            in_file = "no epoch" if noted is None else f"epoch {noted}"
            what = f"the batch at offset {header.base_offset} has epoch {epoch}, the file has {in_file}"
            self.findings.append(Finding("epochs-wrong", self._path, what, None, header.base_offset))


def _without_path(error: DamagedFile) -> str:
    return str(error).partition(" ")[2] or str(error)
