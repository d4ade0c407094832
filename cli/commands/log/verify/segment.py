"""Verifies one segment: every batch is checked, indexes are compared with it, its producers are tracked.

The walk ends where nothing more can be read. A batch with a wrong CRC is a finding and is skipped, so that the report
has all damage, not only the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sordini.cli.commands.log.files.old_messages import messages_in, read_old
from sordini.cli.commands.log.files.segment_walk import LogEntry, SegmentWalk, is_zeros
from sordini.cli.commands.log.verify.findings import Collector, Finding
from sordini.cli.commands.log.verify.indexes import (
    IndexedBatch,
    IndexFacts,
    OffsetIndexCheck,
    TimeIndexCheck,
    index_path,
)
from sordini.protocol.errors import BrokerError
from sordini.protocol.records import record_scan
from sordini.protocol.records.batch import (
    CURRENT_MAGIC,
    HEADER_SIZE,
    BatchHeader,
    crc_is_right,
    read_header,
    read_records,
)
from sordini.protocol.records.compression import CODEC_NAMES, NO_CODEC
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.storage import names
from sordini.storage.disk import Disk, File
from sordini.storage.segment_roll import OFFSETS_MAX
from sordini.system.named_tuple import NamedTuple

INTERVAL_BYTES: Final = 4096
"""The default of `log.index.interval.bytes`: how sparse an index may be."""

_ENDS: Final = {"torn-batch", "zeros", "nonsense"}


@dataclass
class SegmentReport:
    """The report of one segment. `good_end` is the position up to which a broker's recovery would keep it.

    `findings` are complete once the segment has been read.
    """

    path: str
    base: int
    size: int
    findings: list[Finding] = field(default_factory=list)
    batches: int = 0
    records: int = 0
    end_offset: int = 0
    claimed_end: int = 0
    """The end offset if the torn batch at the end were complete."""
    good_end: int = 0
    gap_at: int | None = None
    has_torn_end: bool = False
    """Whether the file ends with anything but a complete batch."""
    count: int = 0
    found: Collector = field(default_factory=Collector)

    def find(self, kind: str, explanation: str, position: int, offset: int | None = None) -> None:
        self.count += 1
        self.has_torn_end = self.has_torn_end or kind in _ENDS
        self.found.add(Finding(kind, self.path, explanation, position, offset))
        self.good_end = min(self.good_end, position)
        if kind == "offsets-fall" and self.gap_at is not None:
            # The offsets rise and fall again: the first of these batches is the wrong one.
            self.good_end = min(self.good_end, self.gap_at)


class SegmentState(NamedTuple):
    """What is valid in a segment, by its position in the log and how its broker stopped."""

    is_closed: bool
    """It is not appended to any more, so its time index has its last entry."""
    may_be_padded: bool
    """Zeros may follow the entries of its indexes."""
    may_lack_records: bool
    """Compaction may have removed records."""


class SegmentCheck:
    """Checks one segment; `batches` yields its valid version 2 batches for the producer check."""

    def __init__(self, disk: Disk, directory: str, base: int, state: SegmentState) -> None:
        self._disk = disk
        self._directory = directory
        self._state = state
        self._is_certain = True
        path = index_path(directory, base, names.LOG)
        self.report = SegmentReport(path, base, disk.file_size(path), end_offset=base)

    def batches(self) -> Iterator[tuple[LogEntry, BatchHeader]]:
        """Read the segment; after the last batch the report is complete. Raises OSError."""
        report = self.report
        report.good_end = report.size
        file = self._disk.open(report.path, writable=False)
        offsets = OffsetIndexCheck(self._disk, self._facts(names.OFFSET_INDEX))
        times = TimeIndexCheck(self._disk, self._facts(names.TIME_INDEX))
        try:
            walk = SegmentWalk(file)
            for entry in walk:
                header = read_header(entry.data) if entry.is_batch else None
                is_sound = self._check(entry, header)
                batch = _index_view(entry, header, is_sound=is_sound)
                self._check_gap(batch)
                if is_sound or _has_expected_offsets(entry, batch, report.end_offset):
                    report.end_offset = max(report.end_offset, batch.last_offset + 1)
                offsets.batch(batch)
                times.batch(batch)
                if is_sound and header is not None:
                    yield entry, header
            if walk.position < walk.end:
                self._report_unreadable_end(file, walk)
            offsets.end(walk.position, INTERVAL_BYTES)
            times.end(is_closed=self._state.is_closed and not report.has_torn_end)
            report.findings = report.found.listed() + offsets.findings() + times.findings()
        finally:
            file.close()
            offsets.close()
            times.close()

    def _check_gap(self, batch: IndexedBatch) -> None:
        report = self.report
        # Of an old wrapper message only the last offset is known.
        is_gap = batch.is_sound and batch.is_whole and batch.base_offset > report.end_offset
        if is_gap and self._is_certain and not self._state.may_lack_records:
            what = f"offset {batch.base_offset} comes where {report.end_offset} is due"
            report.found.add(Finding("gap", report.path, what, batch.position, report.end_offset))
            report.gap_at = batch.position
        self._is_certain = batch.is_sound

    def _facts(self, suffix: str) -> IndexFacts:
        base = self.report.base
        return IndexFacts(index_path(self._directory, base, suffix), base, self._state.may_be_padded)

    def _report_unreadable_end(self, file: File, walk: SegmentWalk) -> None:
        left = walk.end - walk.position
        offset = self.report.end_offset
        if is_zeros(file, walk.position, walk.end):
            self.report.find("zeros", f"{left} bytes of zeros up to the end of the file", walk.position, offset)
        elif walk.is_torn:
            self.report.find("torn-batch", walk.fault or "", walk.position, offset)
            prefix = file.read_at(walk.position, HEADER_SIZE)
            header = read_header(prefix) if len(prefix) == HEADER_SIZE else None
            if header is not None and header.base_offset == offset and 0 <= header.last_offset_delta < header.size:
                self.report.claimed_end = header.next_offset
        else:
            self.report.find("nonsense", walk.fault or "no batch begins here", walk.position, offset)

    def _check(self, entry: LogEntry, header: BatchHeader | None) -> bool:
        """Whether a batch is valid; what is wrong becomes a finding."""
        report = self.report
        report.batches += 1
        if header is None:
            return self._check_old(entry)
        at, base = entry.position, header.base_offset
        before = report.count
        if header.magic != CURRENT_MAGIC:
            report.find("unknown-format", f"format {header.magic}", at, base)
        elif not crc_is_right(entry.data, 0, header):
            report.find("wrong-crc", f"the batch at offset {base} of {header.size} bytes", at, base)
        elif header.codec not in CODEC_NAMES:
            report.find("unknown-codec", f"codec {header.codec} in the batch at offset {base}", at, base)
        else:
            self._check_records(entry, header)
        if header.last_offset - report.base > OFFSETS_MAX:
            report.find("offset-too-far", f"offset {header.last_offset} in the segment of {report.base}", at, base)
        elif base < report.end_offset or header.last_offset_delta < 0:
            report.find("offsets-fall", f"offset {base} comes where at least {report.end_offset} is due", at, base)
        return report.count == before

    def _check_records(self, entry: LogEntry, header: BatchHeader) -> None:
        report = self.report
        try:
            if not _is_plain(entry, header):
                _check_sparse(entry, header)
            report.records += header.record_count
        except BrokerError as error:
            report.find(
                "unreadable-records", f"offset {header.base_offset}: {error}", entry.position, header.base_offset
            )
        except _Mismatch as mismatch:
            report.find("wrong-count", str(mismatch), entry.position, header.base_offset)

    def _check_old(self, entry: LogEntry) -> bool:
        report = self.report
        message = read_old(entry.data)
        at, offset = entry.position, message.offset
        before = report.count
        if not message.is_valid:
            report.find("wrong-crc", f"the message of format {entry.magic} at offset {offset}", at, offset)
            return False
        first = offset
        try:
            inner = list(messages_in(entry))
            report.records += len(inner)
            first = inner[0].offset
            if not all(one.is_valid and one.key_size >= -1 and one.value_size >= -1 for one in inner):
                report.find("unreadable-records", f"a message in the one at offset {offset} is damaged", at, offset)
        except BrokerError as error:
            report.find("unreadable-records", f"offset {offset}: {error}", at, offset)
        if offset - report.base > OFFSETS_MAX:
            report.find("offset-too-far", f"offset {offset} in the segment of {report.base}", at, offset)
        elif min(first, offset) < report.end_offset:
            report.find("offsets-fall", f"offset {first} comes where at least {report.end_offset} is due", at, first)
        return report.count == before


class _Mismatch(Exception):
    """A batch's header and its records do not agree."""


def _is_plain(entry: LogEntry, header: BatchHeader) -> bool:
    """Whether a batch is valid and has a record for every offset, as producers write it. The fast check."""
    if header.record_count != header.last_offset_delta + 1:
        return False
    body = bytes(entry.data[HEADER_SIZE : header.size])
    if header.codec != NO_CODEC:
        body = decompress(header.codec, body, EXPANDED_BYTES_MAX)
    try:
        record_scan.scan(body, header.record_count)
    except BrokerError:
        return False  # The slow check finds what is wrong.
    return True


def _check_sparse(entry: LogEntry, header: BatchHeader) -> None:
    """Check a batch with fewer records than offsets, compacted or damaged. Raises BrokerError, _Mismatch."""
    previous = header.base_offset - 1
    for record in read_records(entry.data, header):
        if not previous < record.offset <= header.last_offset:
            raise _Mismatch(
                f"a record has offset {record.offset} after {previous} in the batch of {header.base_offset} to "
                f"{header.last_offset}"
            )
        previous = record.offset


def _index_view(entry: LogEntry, header: BatchHeader | None, *, is_sound: bool) -> IndexedBatch:
    if header is not None:
        return IndexedBatch(entry.position, header.base_offset, header.last_offset, header.max_timestamp, is_sound)
    message = read_old(entry.data)
    return IndexedBatch(
        entry.position, message.offset, message.offset, message.timestamp, is_sound, message.codec == NO_CODEC
    )


def _has_expected_offsets(entry: LogEntry, batch: IndexedBatch, due: int) -> bool:
    """Whether a damaged batch has the expected offsets, so that the damage is elsewhere in it."""
    return batch.base_offset == due and 0 <= batch.last_offset - batch.base_offset < entry.size
