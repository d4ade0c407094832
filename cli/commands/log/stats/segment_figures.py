"""Statistics of segments, for `sordini log stats`: one pass over each segment; statistics can be added up."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sordini.cli.commands.log.dump.kafka_log import DELETE_HORIZON_BIT, codec_name
from sordini.cli.commands.log.files.old_messages import messages_in, read_old
from sordini.cli.commands.log.files.segment_walk import LogEntry, SegmentWalk
from sordini.cli.commands.log.stats.distinct_keys import DistinctKeys
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    HEADER_SIZE,
    BatchHeader,
    crc_is_right,
    read_header,
)
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.protocol.records.key_values import KeyValue, read_key_values
from sordini.storage import names, offset_index, time_index
from sordini.storage.disk import Disk, File

PRODUCERS_MAX: Final = 100_000
ABORT_BYTES: Final = 34
"""The size of an entry of a transaction index."""
_HEADER_ROOM: Final = bytes(HEADER_SIZE)


@dataclass
class CodecFigures:
    """Batches of one codec: their bytes in the file, and what they would take without compression."""

    batches: int = 0
    stored: int = 0
    expanded: int = 0

    def add(self, other: CodecFigures) -> None:
        self.batches += other.batches
        self.stored += other.stored
        self.expanded += other.expanded


@dataclass
class Figures:
    """Of one segment, or of several together. Times in ms, -1 for none; offsets -1 where there is no record."""

    segments: int = 0
    files: dict[str, int] = field(default_factory=dict)
    """Bytes by suffix."""
    batches: int = 0
    records: int = 0
    tombstones: int = 0
    keyless: int = 0
    key_bytes: int = 0
    value_bytes: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    aborted: int = 0
    index_entries: int = 0
    time_index_entries: int = 0
    first_offset: int = -1
    last_offset: int = -1
    first_timestamp: int = -1
    last_timestamp: int = -1
    damaged_batches: int = 0
    """Counted here only; `sordini log verify` explains the damage."""
    unread_bytes: int = 0
    """After the last batch that could be read."""
    codecs: dict[str, CodecFigures] = field(default_factory=dict)
    formats: dict[int, int] = field(default_factory=dict)
    keys: DistinctKeys = field(default_factory=DistinctKeys)
    producers: set[int] = field(default_factory=set)

    @property
    def log_bytes(self) -> int:
        return self.files.get(names.LOG, 0)

    @property
    def total_bytes(self) -> int:
        return sum(self.files.values())

    @property
    def bytes_per_record(self) -> float | None:
        return self.log_bytes / self.records if self.records else None

    @property
    def compression_ratio(self) -> float | None:
        """Uncompressed size divided by stored size."""
        stored = sum(codec.stored for codec in self.codecs.values())
        return sum(codec.expanded for codec in self.codecs.values()) / stored if stored else None

    @property
    def bytes_per_index_entry(self) -> float | None:
        return self.log_bytes / self.index_entries if self.index_entries else None

    def add(self, other: Figures) -> None:
        """Add the figures of another segment or partition."""
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for suffix, size in other.files.items():
            self.files[suffix] = self.files.get(suffix, 0) + size
        for magic, count in other.formats.items():
            self.formats[magic] = self.formats.get(magic, 0) + count
        for codec, figures in other.codecs.items():
            self.codecs.setdefault(codec, CodecFigures()).add(figures)
        self.keys.join(other.keys)
        if len(self.producers) < PRODUCERS_MAX:
            self.producers |= other.producers
        if other.last_offset >= 0:
            self.first_offset = (
                other.first_offset if self.first_offset < 0 else min(self.first_offset, other.first_offset)
            )
            self.last_offset = max(self.last_offset, other.last_offset)
        self.note_times(other.first_timestamp, other.last_timestamp)

    def note_times(self, first: int, last: int) -> None:
        if first >= 0 and (self.first_timestamp < 0 or first < self.first_timestamp):
            self.first_timestamp = first
        self.last_timestamp = max(self.last_timestamp, last)


_SUMMED: Final = (
    "segments",
    "batches",
    "records",
    "tombstones",
    "keyless",
    "key_bytes",
    "value_bytes",
    "control_batches",
    "transactional_batches",
    "aborted",
    "index_entries",
    "time_index_entries",
    "damaged_batches",
    "unread_bytes",
)


def segment_figures(disk: Disk, directory: str, base: int) -> Figures:
    """Read a segment and its statistics. Raises OSError."""
    figures = Figures(segments=1)
    for suffix in names.SEGMENT_SUFFIXES:
        path = f"{directory}/{names.file_name(base, suffix)}"
        if disk.exists(path):
            figures.files[suffix] = disk.file_size(path)
    figures.aborted = figures.files.get(names.TRANSACTION_INDEX, 0) // ABORT_BYTES
    for suffix, size in ((names.OFFSET_INDEX, offset_index.ENTRY_SIZE), (names.TIME_INDEX, time_index.ENTRY_SIZE)):
        if suffix in figures.files:
            entries = _entries(disk, f"{directory}/{names.file_name(base, suffix)}", size)
            if suffix == names.OFFSET_INDEX:
                figures.index_entries = entries
            else:
                figures.time_index_entries = entries
    file = disk.open(f"{directory}/{names.file_name(base, names.LOG)}", writable=False)
    try:
        walk = SegmentWalk(file)
        for entry in walk:
            _count(figures, entry)
        figures.unread_bytes = walk.end - walk.position
    finally:
        file.close()
    return figures


def _entries(disk: Disk, path: str, size: int) -> int:
    """The number of index entries, without the zeros that pad the index of an active segment."""
    file = disk.open(path, writable=False)
    try:
        count = file.size() // size
        if count == 0 or any(file.read_at((count - 1) * size, size)):
            return count
        # Zeros are only at the end, so a binary search finds where they begin.
        return _first_zero(file, size, count)
    finally:
        file.close()


def _first_zero(file: File, size: int, count: int) -> int:
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if any(file.read_at(middle * size, size)):
            low = middle + 1
        else:
            high = middle
    return low


def _count(figures: Figures, entry: LogEntry) -> None:
    figures.batches += 1
    figures.formats[entry.magic] = figures.formats.get(entry.magic, 0) + 1
    try:
        if entry.is_batch:
            _count_batch(figures, entry, read_header(entry.data))
        else:
            _count_messages(figures, entry)
    except BrokerError:
        figures.damaged_batches += 1


def _count_batch(figures: Figures, entry: LogEntry, header: BatchHeader) -> None:
    if header.magic != CURRENT_MAGIC or not crc_is_right(entry.data, 0, header):
        figures.damaged_batches += 1
        return
    body = bytes(entry.data[HEADER_SIZE : header.size])
    if header.codec != NO_CODEC:
        body = decompress(header.codec, body, EXPANDED_BYTES_MAX)
    plain = header._replace(attributes=header.attributes & ~CODEC_MASK, size=HEADER_SIZE + len(body))
    pairs = read_key_values(memoryview(_HEADER_ROOM + body), plain)
    _note(figures, entry, header.codec, HEADER_SIZE + len(body), header.base_offset, header.last_offset)
    # A compacted batch's base timestamp may be its delete horizon: when its tombstones may be removed.
    first = header.max_timestamp if header.attributes & DELETE_HORIZON_BIT else header.base_timestamp
    figures.note_times(header.max_timestamp if header.is_log_append_time else first, header.max_timestamp)
    figures.transactional_batches += header.is_transactional
    if header.producer_id >= 0 and len(figures.producers) < PRODUCERS_MAX:
        figures.producers.add(header.producer_id)
    if header.is_control:
        figures.control_batches += 1
        return
    _note_pairs(figures, pairs)


def _count_messages(figures: Figures, entry: LogEntry) -> None:
    outer = read_old(entry.data)
    messages = list(messages_in(entry))
    if not outer.is_valid:
        figures.damaged_batches += 1
        return
    pairs = [(message.key, message.value) for message in messages]
    expanded = sum(len(message.data) for message in messages)
    _note(figures, entry, outer.codec, expanded, messages[0].offset, outer.offset)
    figures.note_times(messages[0].timestamp, max(message.timestamp for message in messages))
    _note_pairs(figures, pairs)


def _note(figures: Figures, entry: LogEntry, codec: int, expanded: int, first: int, last: int) -> None:
    of_codec = figures.codecs.setdefault(codec_name(codec), CodecFigures())
    of_codec.add(CodecFigures(1, entry.size, expanded))
    figures.first_offset = first if figures.first_offset < 0 else figures.first_offset
    figures.last_offset = max(figures.last_offset, last)


def _note_pairs(figures: Figures, pairs: list[KeyValue]) -> None:
    """Count column by column: a loop over millions of records would take twice as long."""
    figures.records += len(pairs)
    keys = [key for key, _ in pairs if key is not None]
    figures.keyless += len(pairs) - len(keys)
    figures.key_bytes += sum(map(len, keys))
    figures.keys.add_all(keys)
    figures.value_bytes += sum(len(value) for _, value in pairs if value is not None)
    figures.tombstones += sum(value is None and key is not None for key, value in pairs)
