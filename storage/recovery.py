"""Opening a partition's directory as the last process, or the power failure, left it.

After a clean stop the files are what they should be, and only the end of the last segment is looked at. Otherwise
everything from the segment around the recovery point on is checked byte by byte: length, magic, CRC, offsets that
rise. The log ends before the first batch that fails; its indexes, aborted transactions and producers' state are made
anew. A clean marker over damage - a torn last batch, untrimmed indexes, no snapshot - is not believed.

Opening is repeatable: it may die anywhere and be begun again, and opening twice leaves the same bytes.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field

from sordini.protocol.records.batch import HEADER_SIZE, crc_is_right
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.storage import batch_scan, names
from sordini.storage.checkpoints import DamagedFile, read_epochs, read_topic_id
from sordini.storage.disk import Disk, File
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.errors import StorageError
from sordini.storage.home import Home
from sordini.storage.leftovers import clear_leftovers
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_values import LogContents
from sordini.storage.producer_replay import refill_windows, replay
from sordini.storage.producer_state import ProducerState
from sordini.storage.segment import Segment
from sordini.storage.snapshots import newest_snapshot, remove_snapshots, write_snapshot


@dataclass
class Opening:
    """One partition that is being opened: what is known beforehand, and what was found and mended."""

    topic_partition: TopicPartition
    directory: str
    config: LogConfig
    is_clean: bool
    recovery_point: int = 0
    log_start_offset: int | None = None
    findings: list[str] = field(default_factory=list)

    def note(self, finding: str) -> None:
        self.findings.append(f"{self.directory}: {finding}")


def open_log(home: Home, opening: Opening, now_ms: int) -> Log:
    """Open an existing partition. Raises StorageError for what must not be touched, OSError, DamagedFile."""
    disk, directory = home.disk, opening.directory
    topic_id = _topic_id(disk, opening)
    epochs = EpochCache(read_epochs(disk, directory))
    file_names = clear_leftovers(disk, directory)
    segments = _listed_segments(home, directory, file_names)
    if not segments:
        segments = [Segment.create(home.files, directory, opening.log_start_offset or 0, now_ms)]
    end_offset = None
    if opening.is_clean:
        end_offset = _clean_end(segments[-1], opening)
    recovered_from: int | None = None
    if end_offset is None:
        recovered_from = _first_to_recover(segments, opening)
        end_offset = _recover_segments(home, segments, recovered_from, epochs, opening)
    start_offset = max(opening.log_start_offset or 0, segments[0].base)
    if start_offset > end_offset:
        segments = [_start_again(home, segments, start_offset, opening, now_ms)]
        end_offset = start_offset
    epochs.truncate_from_end(end_offset)
    epochs.truncate_from_start(start_offset)
    producers = _producers(disk, opening, segments, end_offset, recovered_from)
    producers.expire(now_ms, opening.config.producer_expiration_ms)
    refill_windows(producers, segments, opening.config.index_interval_bytes)
    contents = LogContents(
        topic_id=topic_id,
        segments=segments,
        producers=producers,
        epochs=epochs,
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        recovery_point=end_offset if recovered_from is None else min(opening.recovery_point, end_offset),
        is_new=recovered_from is not None,
        names_are_synced=recovered_from is None,
    )
    return Log(opening.topic_partition, directory, home, opening.config, contents)


def _topic_id(disk: Disk, opening: Opening) -> TopicId:
    try:
        return read_topic_id(disk, opening.directory)
    except DamagedFile:
        # Written without a sync, so a power failure may have torn it; a clean stop leaves it whole.
        if opening.is_clean:
            raise
        opening.note(f"{names.PARTITION_METADATA} was torn and is ignored")
        return NO_TOPIC_ID


def _listed_segments(home: Home, directory: str, file_names: list[str]) -> list[Segment]:
    present = set(file_names)
    segments = []
    for name in file_names:
        base = names.offset_of(name, names.LOG)
        if base is not None:
            size = home.disk.file_size(f"{directory}/{name}")
            aborts = names.file_name(base, names.TRANSACTION_INDEX) in present
            segments.append(Segment(home.files, directory, base, size, aborts=aborts))
    return segments


def _clean_end(active: Segment, opening: Opening) -> int | None:
    """The end of a cleanly stopped log, from the last index entry on; None when the file does not end so."""
    active.load(opening.config.index_interval_bytes)
    end_offset, end = active.base, 0
    for position, header in batch_scan.headers(active.handle, active.index.last_position, active.size):
        end_offset, end = header.next_offset, position + header.size
    if end == active.size and end_offset >= active.base:
        return end_offset
    opening.note("the last batch is torn although the stop was clean: recovering")
    return None


def _first_to_recover(segments: list[Segment], opening: Opening) -> int:
    """The number of the segment around the recovery point; the last one when the stop claimed to be clean."""
    if opening.is_clean:
        opening.recovery_point = segments[-1].base
    number = len(segments) - 1
    while number > 0 and segments[number].base > opening.recovery_point:
        number -= 1
    return number


def _recover_segments(home: Home, segments: list[Segment], first: int, epochs: EpochCache, opening: Opening) -> int:
    """Check the segments from number `first` on and cut the log at the first damage; its end offset."""
    # Below the recovery point only what is missing is made anew, when it is first needed.
    end_offset = segments[first].base
    for number in range(first, len(segments)):
        segment = segments[number]
        end_offset, end = _recover_segment(home, segment, epochs, opening)
        if end == segment.size and not _is_gap(segments, number, end_offset, opening):
            continue
        opening.note(f"{segment.size - end} damaged bytes cut from {segment.handle.path} at offset {end_offset}")
        segment.file().truncate(end)
        # Else a power failure could bring back the damage below what is appended next.
        segment.file().sync()
        segment.size = end
        for dropped in segments[number + 1 :]:
            opening.note(f"{dropped.handle.path} follows damage and is dropped")
            _remove(home.disk, dropped)
        del segments[number + 1 :]
        home.disk.sync_directory(opening.directory)
        break
    return end_offset


def _is_gap(segments: list[Segment], number: int, end_offset: int, opening: Opening) -> bool:
    """Whether unsynced records at a segment's end were lost while those of the next segment were kept."""
    is_last = number + 1 == len(segments)
    return not is_last and segments[number + 1].base != end_offset and not opening.config.cleanup_compact


def _recover_segment(home: Home, segment: Segment, epochs: EpochCache, opening: Opening) -> tuple[int, int]:
    """Check one segment and make its indexes anew: (offset, position) at which what is good ends."""
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
    if end < segment.size:
        _refuse_old_format(home, segment.file(), end)
    segment.add_last_time()
    segment.trim_indexes()
    return next_offset, end


def _refuse_old_format(home: Home, file: File, position: int) -> None:
    """Raise StorageError when what stops the walk is a good message of format 0 or 1: cutting would destroy data."""
    head = file.read_at(position, HEADER_SIZE)
    if len(head) < 17 or head[16] not in (0, 1):
        return
    length, crc = struct.unpack_from(">iI", head, 8)
    if length < 14 or position + 12 + length > file.size():
        return
    if zlib.crc32(file.read_at(position + 16, length - 4)) == crc:
        raise StorageError(home.path, f"{file.path} holds messages of format {head[16]}, which is not read here")


def _start_again(home: Home, segments: list[Segment], start_offset: int, opening: Opening, now_ms: int) -> Segment:
    """The log start lies past all records (as DeleteRecords leaves a follower): begin an empty log there."""
    opening.note(f"starts at {start_offset}, past its end: all segments are dropped")
    for segment in segments:
        _remove(home.disk, segment)
    return Segment.create(home.files, opening.directory, start_offset, now_ms)


def _remove(disk: Disk, segment: Segment) -> None:
    # The indexes first: an index without a log is cleared away at the next start, a log is believed.
    segment.release()
    for handle in [segment.transactions.handle, segment.times.handle, segment.index.handle, segment.handle]:
        if disk.exists(handle.path):
            disk.remove(handle.path)


def _producers(
    disk: Disk, opening: Opening, segments: list[Segment], end_offset: int, recovered_from: int | None
) -> ProducerState:
    """The producers' state at the log's end: a good snapshot, and the batches after it.

    A recovered segment's aborts are indexed again, so the replay has to begin at or before it.
    """
    directory = opening.directory
    file_names = disk.list_directory(directory)
    recovered_base = None if recovered_from is None else segments[min(recovered_from, len(segments) - 1)].base
    at_most = end_offset if recovered_base is None else min(recovered_base, end_offset)
    snapshot = newest_snapshot(disk, directory, file_names, at_most)
    start, producers = snapshot if snapshot is not None else (segments[0].base, ProducerState())
    if start == end_offset:
        remove_snapshots(disk, directory, above=end_offset)
        return producers
    following = [
        segment
        for number, segment in enumerate(segments)
        if number + 1 == len(segments) or segments[number + 1].base > start
    ]
    replay(producers, following, start, index_aborts_from=recovered_base)
    if recovered_base is not None:
        # A newer one may be of records that were cut and written anew since.
        remove_snapshots(disk, directory, above=recovered_base)
        write_snapshot(disk, directory, end_offset, producers, sync=False)
    elif len(producers):
        opening.note("had no snapshot at its end: producers were read from the log")
    return producers
