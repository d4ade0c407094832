"""Opening a partition's directory after a clean shutdown, a crash or a power failure.

After a clean shutdown only the end of the last segment is checked. Otherwise everything from the segment that holds
the recovery point on is checked byte by byte: length, magic, CRC, rising offsets. The log ends before the first batch
that fails; its indexes, aborted transactions and producers' state are rebuilt. A clean shutdown marker beside damage -
a torn last batch, untrimmed indexes, no snapshot - is not trusted.

Opening is idempotent: after a crash anywhere it can be repeated, and opening twice leaves the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sordini.protocol.records.batch import BatchHeader, crc_is_right
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.storage import batch_scan, names
from sordini.storage.checkpoints import DamagedFile, read_epochs, read_topic_id, write_epochs
from sordini.storage.disk import Disk
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.log import Log
from sordini.storage.log_config import NEVER, LogConfig
from sordini.storage.log_dir_handle import LogDirHandle
from sordini.storage.log_state import LogContents
from sordini.storage.producer_replay import refill_windows, replay
from sordini.storage.producer_snapshots import keep_snapshot, newest_snapshot, snapshot_offsets
from sordini.storage.producer_state import ProducerState
from sordini.storage.segment import Segment
from sordini.storage.temporary_files import complete_interrupted


@dataclass
class Opening:
    """One partition that is being opened: what the checkpoints say of it, and what was found and repaired."""

    topic_partition: TopicPartition
    directory: str
    config: LogConfig
    is_clean: bool
    recovery_point: int = 0
    log_start_offset: int | None = None
    findings: list[str] = field(default_factory=list)
    first_dirty_offset: int | None = None
    """Below it compaction may have left gaps, whatever the topic's policy is now."""

    def note(self, finding: str) -> None:
        self.findings.append(f"{self.directory}: {finding}")


def open_log(log_dir: LogDirHandle, opening: Opening, now_ms: int) -> Log:
    """Open an existing partition. Raises OSError, DamagedFile."""
    disk, directory = log_dir.disk, opening.directory
    topic_id = _topic_id(disk, opening)
    epochs = EpochCache(read_epochs(disk, directory))
    file_names = complete_interrupted(disk, directory)
    segments = _listed_segments(log_dir, directory, file_names)
    if not segments:
        segments = [Segment.create(log_dir.files, directory, opening.log_start_offset or 0, now_ms)]
    end_offset = None
    if opening.is_clean:
        end_offset = _clean_end(segments[-1], opening)
    recovered_from: int | None = None
    if end_offset is None:
        recovered_from = _first_to_recover(segments, opening)
        # Its epochs are read from its batches: the file may hold others, of records lost or truncated.
        epochs.truncate_from_end(segments[recovered_from].base)
        end_offset = _recover_segments(log_dir, segments, recovered_from, epochs, opening)
    start_offset = max(opening.log_start_offset or 0, segments[0].base)
    if start_offset > end_offset:
        segments = [_start_empty(log_dir, segments, start_offset, opening, now_ms)]
        end_offset = start_offset
    # In this order, so that an empty log keeps no epoch, however often it is opened.
    epochs.truncate_from_start(start_offset)
    epochs.truncate_from_end(end_offset)
    snapshots = snapshot_offsets(file_names)
    producers = _producers(disk, opening, segments, snapshots, end_offset, recovered_from)
    if len(producers):
        producers.expire(now_ms, opening.config.producer_expiration_ms)
        producers.trim(opening.config.producers_max)
        refill_windows(producers, segments, opening.config.index_interval_bytes)
    recovery_point = end_offset if recovered_from is None else min(opening.recovery_point, end_offset)
    if recovered_from is not None and opening.config.flush_messages != NEVER:
        _sync(log_dir, directory, segments, recovery_point)
        if epochs.changed:
            # Below the recovery point no start reads them in the batches again.
            write_epochs(disk, directory, epochs.entries)
            epochs.saved()
        recovery_point = end_offset
    contents = LogContents(
        topic_id=topic_id,
        segments=segments,
        producers=producers,
        epochs=epochs,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        recovery_point=recovery_point,
        is_new=recovered_from is not None,
        names_are_synced=recovered_from is None,
    )
    return Log(opening.topic_partition, directory, log_dir, opening.config, contents)


def _sync(log_dir: LogDirHandle, directory: str, segments: list[Segment], recovery_point: int) -> None:
    """Sync recovered segments before their records may be committed again, where `flush.messages` promises that."""
    for number, segment in enumerate(segments):
        if number + 1 == len(segments) or segments[number + 1].base > recovery_point:
            for handle in segment.handles():
                handle.reopen(create=True).sync()
            if segment.transactions.exists:
                segment.transactions.handle.reopen().sync()
    log_dir.disk.sync_directory(directory)
    log_dir.disk.sync_directory(log_dir.path)


def _topic_id(disk: Disk, opening: Opening) -> TopicId:
    try:
        return read_topic_id(disk, opening.directory)
    except DamagedFile:
        # Written without a sync, so a power failure may have torn it; after a clean shutdown it is whole.
        if opening.is_clean:
            raise
        opening.note(f"{names.PARTITION_METADATA} was torn and is removed")
        # After the next clean shutdown it would be trusted, and refuse the start.
        disk.remove(f"{opening.directory}/{names.PARTITION_METADATA}")
        return NO_TOPIC_ID


def _listed_segments(log_dir: LogDirHandle, directory: str, file_names: list[str]) -> list[Segment]:
    present = set(file_names)
    segments = []
    for name in file_names:
        base = names.offset_of(name, names.LOG) if name.endswith(names.LOG) else None
        if base is not None:
            size = log_dir.disk.file_size(f"{directory}/{name}")
            has_aborts = names.file_name(base, names.TRANSACTION_INDEX) in present
            segments.append(Segment(log_dir.files, directory, base, size, aborts=has_aborts))
    return segments


def _clean_end(active: Segment, opening: Opening) -> int | None:
    """The end of a cleanly closed log; None when the file does not end with a whole batch.

    The search starts at the last index entry. A short file is read whole, so that the start of a broker with thousands
    of partitions opens no indexes, and leaves no files open.
    """
    end_offset, end = active.base, 0
    for position, header in _last_headers(active, opening):
        end_offset, end = header.next_offset, position + header.size
    if end == active.size and end_offset >= active.base:
        return end_offset
    opening.note("the last batch is torn although the shutdown was clean: recovering")
    return None


def _last_headers(active: Segment, opening: Opening) -> Iterator[tuple[int, BatchHeader]]:
    if active.size > batch_scan.WALK_WINDOW:
        active.load(opening.config.index_interval_bytes)
        return batch_scan.headers(active.handle, active.index.last_position, active.size)
    data = active.handle.files.disk.read(active.handle.path) if active.size else b""
    return batch_scan.headers_of(data)


def _first_to_recover(segments: list[Segment], opening: Opening) -> int:
    """The number of the segment that holds the recovery point; the last one when the marker said clean."""
    if opening.is_clean:
        opening.recovery_point = segments[-1].base
    number = len(segments) - 1
    while number > 0 and segments[number].base > opening.recovery_point:
        number -= 1
    return number


def _recover_segments(
    log_dir: LogDirHandle, segments: list[Segment], first: int, epochs: EpochCache, opening: Opening
) -> int:
    """Check the segments from number `first` on and truncate the log at the first damage; its end offset."""
    # Below the recovery point indexes are rebuilt at their first use, if need be.
    end_offset = segments[first].base
    for number in range(first, len(segments)):
        segment = segments[number]
        end_offset, end = _recover_segment(segment, epochs, opening)
        if end == segment.size and not _is_gap(segments, number, end_offset, opening):
            continue
        opening.note(f"{segment.size - end} damaged bytes truncated from {segment.handle.path} at offset {end_offset}")
        segment.file().truncate(end)
        # Else a power failure could undo the truncation below what is appended next.
        segment.file().sync()
        segment.size = end
        for dropped in segments[number + 1 :]:
            opening.note(f"{dropped.handle.path} follows damage and is removed")
            _remove(log_dir.disk, dropped)
        del segments[number + 1 :]
        log_dir.disk.sync_directory(opening.directory)
        break
    return end_offset


def _is_gap(segments: list[Segment], number: int, end_offset: int, opening: Opening) -> bool:
    """Whether unsynced records at a segment's end were lost while those of the next segment were kept."""
    if number + 1 == len(segments) or segments[number + 1].base == end_offset or opening.config.cleanup_compact:
        return False
    return segments[number + 1].base > (opening.first_dirty_offset or 0)


def _recover_segment(segment: Segment, epochs: EpochCache, opening: Opening) -> tuple[int, int]:
    """Check one segment and rebuild its indexes: (offset, position) of the end of its valid part.

    Messages of the old formats carry no epoch, and a wrapper is checked as a whole only, as in Apache Kafka.
    """
    segment.start_rebuild()
    segment.transactions.clear()
    interval_bytes = opening.config.index_interval_bytes
    next_offset, end = segment.base, 0
    for position, header, batch in batch_scan.batches(segment.handle, 0, segment.size):
        if header.base_offset < next_offset or not crc_is_right(batch, 0, header):
            break
        if header.partition_leader_epoch > epochs.latest:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        segment.index_batch(position, header.size, header.last_offset, header.max_timestamp, interval_bytes)
        next_offset, end = header.next_offset, position + header.size
    segment.add_last_time()
    segment.trim_indexes()
    return next_offset, end


def _start_empty(
    log_dir: LogDirHandle, segments: list[Segment], start_offset: int, opening: Opening, now_ms: int
) -> Segment:
    """The log start offset is past all records (as DeleteRecords may leave a follower): begin an empty log there."""
    opening.note(f"starts at {start_offset}, past its end: all segments are removed")
    for segment in segments:
        _remove(log_dir.disk, segment)
    return Segment.create(log_dir.files, opening.directory, start_offset, now_ms)


def _remove(disk: Disk, segment: Segment) -> None:
    # The indexes first: the next start removes an index without a log, but opens a log without indexes.
    segment.close()
    for handle in [segment.transactions.handle, segment.times.handle, segment.index.handle, segment.handle]:
        if disk.exists(handle.path):
            disk.remove(handle.path)


def _producers(
    disk: Disk,
    opening: Opening,
    segments: list[Segment],
    snapshots: list[int],
    end_offset: int,
    recovered_from: int | None,
) -> ProducerState:
    """The producers' state at the log end: a valid snapshot, and the batches after it.

    The aborted transactions of a recovered segment are indexed again, so the replay begins at or before it.
    """
    directory = opening.directory
    recovered_base = None if recovered_from is None else segments[min(recovered_from, len(segments) - 1)].base
    at_most = end_offset if recovered_base is None else min(recovered_base, end_offset)
    snapshot = newest_snapshot(disk, directory, snapshots, at_most)
    if snapshot is not None and snapshot[0] < segments[0].base:
        # The batches in between were deleted. A partial history would refuse a producer's next batch, or leave a
        # transaction open; an unknown producer may start with any sequence.
        snapshot = None
    start, producers = snapshot if snapshot is not None else (segments[0].base, ProducerState())
    if start == end_offset:
        _remove_snapshots(disk, directory, snapshots, above=end_offset, but=end_offset)
        return producers
    following = [
        segment
        for number, segment in enumerate(segments)
        if number + 1 == len(segments) or segments[number + 1].base > start
    ]
    replay(producers, following, start, index_aborts_from=recovered_base)
    if recovered_base is not None:
        # A newer one may be of records that were truncated and overwritten since.
        _remove_snapshots(disk, directory, snapshots, above=recovered_base, but=end_offset)
        keep_snapshot(disk, directory, end_offset, producers)
    elif len(producers):
        opening.note("had no snapshot at its end: producers were replayed from the log")
    return producers


def _remove_snapshots(disk: Disk, directory: str, snapshots: list[int], *, above: int, but: int) -> None:
    for offset in snapshots:
        if offset > above and offset != but:
            path = f"{directory}/{names.file_name(offset, names.SNAPSHOT)}"
            if disk.exists(path):  # A damaged one has been removed.
                disk.remove(path)
