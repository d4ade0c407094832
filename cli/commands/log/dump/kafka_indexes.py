"""Indexes and snapshots in the text of Apache Kafka 3.9.1's kafka-dump-log, compared with the segment's log."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from sordini.cli.commands.log.dump.kafka_text import DamageAt, DumpOutput, Findings, Line, Pairs, optional_long
from sordini.cli.commands.log.files.old_messages import messages_in, read_old
from sordini.cli.commands.log.files.segment_walk import LogEntry, SegmentWalk
from sordini.cli.commands.log.files.snapshot_file import read_snapshot
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import NO_TIMESTAMP, read_header, read_records
from sordini.storage import names, offset_index, time_index
from sordini.storage.disk import Disk, File
from sordini.storage.producer_state import NO_OFFSET, SEQUENCE_MAX, ProducerEntry
from sordini.system.named_tuple import NamedTuple

MESSAGE_BYTES_MAX: Final = 5 * 1024 * 1024
_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_ABORT_ENTRY: Final = struct.Struct(">hqqqq")
_READ_ENTRIES: Final = 4096


class IndexOptions(NamedTuple):
    """How much of an index is checked and shown."""

    sanity_only: bool = False
    """Only what a broker checks at start-up."""
    verify_only: bool = False
    """Compare, and show no entry."""
    message_bytes_max: int = MESSAGE_BYTES_MAX


class IndexFile(NamedTuple):
    """One index: its path as given, its absolute path, and the base offset of its segment."""

    disk: Disk
    given_path: str
    path: str
    base: int

    def beside(self, suffix: str) -> str:
        """The path of the segment's file with another suffix."""
        return f"{self.path.rpartition('/')[0]}/{names.file_name(self.base, suffix)}"


def dump_offset_index(source: IndexFile, file: File, options: IndexOptions, findings: Findings) -> Iterator[DumpOutput]:
    """A `.index`. Raises FileNotFoundError if the segment has no log."""
    log = source.disk.open(source.beside(names.LOG), writable=False)
    try:
        count = file.size() // offset_index.ENTRY_SIZE
        if count == 0:
            yield Line(f"{source.given_path} is empty.")
        elif options.sanity_only:
            yield from _sane_index(source, file, count)
        else:
            yield from _index_entries(source, file, log, options, findings)
        yield from _half_entry(file, offset_index.ENTRY_SIZE)
    finally:
        log.close()


def _sane_index(source: IndexFile, file: File, count: int) -> Iterator[DumpOutput]:
    at = (count - 1) * offset_index.ENTRY_SIZE
    relative, _ = _INDEX_ENTRY.unpack(file.read_at(at, _INDEX_ENTRY.size))
    if relative < 0:
        yield DamageAt(at, f"the last offset {source.base + relative} is below the segment's first, {source.base}")
    elif file.size() % offset_index.ENTRY_SIZE == 0:
        yield Line(f"{source.given_path} passed sanity check.")


def _index_entries(
    source: IndexFile, file: File, log: File, options: IndexOptions, findings: Findings
) -> Iterator[DumpOutput]:
    for at, (relative, position) in rows(file, _INDEX_ENTRY):
        if relative == 0 and at:
            return  # The preallocated space of an active segment's index.
        walk = SegmentWalk(log, position, position + options.message_bytes_max)
        first = next(iter(walk), None) if 0 <= position < log.size() else None
        offset = source.base + relative
        has_no_entry = (relative, position) == (0, 0)
        if first is None:
            if has_no_entry and log.size() == 0:
                return  # A new segment; the tool fails on it.
            yield DamageAt(at, f"{walk.fault or 'there is no batch'} at byte {position} of the log")
        elif _last_offset(first) != offset:
            findings.index_mismatches.setdefault(source.path, Pairs()).add(offset, _last_offset(first))
            findings.are_damage = findings.are_damage or not has_no_entry
        if not options.verify_only:
            yield Line(f"offset: {offset} position: {position}")


def dump_time_index(source: IndexFile, file: File, options: IndexOptions, findings: Findings) -> Iterator[DumpOutput]:
    """A `.timeindex`. Raises FileNotFoundError if the segment has no log or no offset index."""
    source.disk.file_size(source.beside(names.OFFSET_INDEX))
    log = source.disk.open(source.beside(names.LOG), writable=False)
    try:
        if options.sanity_only:
            yield from _sane_times(source, file)
        else:
            yield from _time_entries(source, file, log, options, findings)
        yield from _half_entry(file, time_index.ENTRY_SIZE)
    finally:
        log.close()


def _sane_times(source: IndexFile, file: File) -> Iterator[DumpOutput]:
    count = file.size() // time_index.ENTRY_SIZE
    if count:
        first, _ = _TIME_ENTRY.unpack(file.read_at(0, _TIME_ENTRY.size))
        at = (count - 1) * time_index.ENTRY_SIZE
        timestamp, relative = _TIME_ENTRY.unpack(file.read_at(at, _TIME_ENTRY.size))
        if timestamp < first:
            yield DamageAt(at, f"the last timestamp {timestamp} is below the first, {first}")
            return
        if relative < 0:
            yield DamageAt(at, f"the last offset {source.base + relative} is below the segment's first, {source.base}")
            return
    if file.size() % time_index.ENTRY_SIZE == 0:
        yield Line(f"{source.given_path} passed sanity check.")


class _Finder:
    """Finds the first batch that ends at an offset or later; fast for rising offsets."""

    def __init__(self, log: File) -> None:
        self._log = log
        self._walk = iter(SegmentWalk(log))
        self._last: LogEntry | None = None

    def find(self, offset: int) -> LogEntry | None:
        if self._last is not None:
            if _last_offset(self._last) == offset:
                return self._last
            if _last_offset(self._last) > offset:
                self._walk = iter(SegmentWalk(self._log))
        for entry in self._walk:
            self._last = entry
            if _last_offset(entry) >= offset:
                return entry
        self._walk, self._last = iter(SegmentWalk(self._log)), None
        return None


def _time_entries(
    source: IndexFile, file: File, log: File, options: IndexOptions, findings: Findings
) -> Iterator[DumpOutput]:
    finder = _Finder(log)
    previous = NO_TIMESTAMP
    for at, (timestamp, relative) in rows(file, _TIME_ENTRY):
        if relative == 0 and at:
            return
        offset = source.base + relative
        has_entry = (timestamp, relative) != (0, 0)
        batch = finder.find(offset)
        if batch is None or _last_offset(batch) != offset:
            found = -1 if batch is None else _last_offset(batch)
            findings.offsets_not_found.setdefault(source.path, Pairs()).add(offset, found)
            findings.are_damage = findings.are_damage or has_entry
        else:
            try:
                greatest = _greatest_timestamp(batch)
            except BrokerError as error:
                yield DamageAt(at, f"the records at offset {offset} cannot be read: {error}")
                greatest = timestamp
            if greatest != timestamp:
                findings.time_mismatches.setdefault(source.path, Pairs()).add(timestamp, greatest)
                findings.are_damage = findings.are_damage or has_entry
            if previous >= timestamp:
                findings.times_out_of_order.setdefault(source.path, Pairs()).add(timestamp, previous)
                findings.are_damage = True
        if not options.verify_only:
            yield Line(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp


def _last_offset(entry: LogEntry) -> int:
    return read_header(entry.data).last_offset if entry.is_batch else read_old(entry.data).offset


def _greatest_timestamp(entry: LogEntry) -> int:
    if entry.is_batch:
        times = (record.timestamp for record in read_records(entry.data, read_header(entry.data)))
    else:
        times = (message.timestamp for message in messages_in(entry))
    return max(times, default=NO_TIMESTAMP)


def dump_transaction_index(_source: IndexFile, file: File) -> Iterator[DumpOutput]:
    """A `.txnindex`."""
    for at, (version, producer_id, first, last, stable) in rows(file, _ABORT_ENTRY):
        if version != 0:
            yield DamageAt(at, f"version {version} is not known")
            return
        yield Line(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )
    yield from _half_entry(file, _ABORT_ENTRY.size)


def dump_snapshot(_source: IndexFile, file: File) -> Iterator[DumpOutput]:
    """A producer `.snapshot`."""
    entries = read_snapshot(file.read_at(0, file.size()))
    if isinstance(entries, str):
        yield DamageAt(0, entries)
        return
    for entry in entries:
        yield Line(_producer(entry))


def _producer(entry: ProducerEntry) -> str:
    first = None if entry.transaction_first_offset == NO_OFFSET else entry.transaction_first_offset
    words = (
        f"producerId: {entry.producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
        f"currentTxnFirstOffset: {optional_long(first)} lastTimestamp: {entry.timestamp} "
    )
    if entry.last_offset < 0:
        return words
    first_sequence = (entry.last_sequence - entry.offset_delta) & SEQUENCE_MAX
    return (
        f"{words}firstSequence: {first_sequence} lastSequence: {entry.last_sequence} "
        f"lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}"
    )


def rows(file: File, entry: struct.Struct) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(position, fields) of every complete entry."""
    step = entry.size * _READ_ENTRIES
    whole = file.size() - file.size() % entry.size
    for start in range(0, whole, step):
        data = file.read_at(start, min(step, whole - start))
        for number, fields in enumerate(entry.iter_unpack(data[: len(data) - len(data) % entry.size])):
            yield start + number * entry.size, fields


def _half_entry(file: File, entry_size: int) -> Iterator[DumpOutput]:
    rest = file.size() % entry_size
    if rest:
        yield DamageAt(file.size() - rest, f"{rest} bytes are left, an entry has {entry_size}")
