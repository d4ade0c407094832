"""Opening a partition's directory as the last process, or the power failure, left it.

After a clean stop the files are what they should be, and only the end of the last segment is looked at. Otherwise
everything from the segment around the recovery point on is checked byte by byte: length, magic, CRC, offsets that
rise. The log ends before the first batch that fails; its indexes, aborted transactions and producers' state are made
anew. A clean marker over damage - a torn last batch, untrimmed indexes, no snapshot - is not believed.

Opening is repeatable: it may die anywhere and be begun again, and opening twice leaves the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sordini.protocol.records.batch import crc_is_right
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition
from sordini.storage import batch_scan, names
from sordini.storage.checkpoints import DamagedFile, read_epochs, read_topic_id, write_epochs
from sordini.storage.disk import Disk
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.log import Log
from sordini.storage.log_config import NEVER, LogConfig
from sordini.storage.log_dir_handle import Home
from sordini.storage.log_state import LogContents
from sordini.storage.producer_replay import refill_windows, replay
from sordini.storage.producer_snapshots import keep_snapshot, newest_snapshot, snapshot_offsets
from sordini.storage.producer_state import ProducerState
from sordini.storage.segment import Segment
from sordini.storage.temporary_files import clear_leftovers


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
    first_dirty_offset: int | None = None
    """Below it records are missing because the log was compacted once, whatever its topic's policy is now."""

    def note(self, finding: str) -> None:
        self.findings.append(f"{self.directory}: {finding}")


def open_log(home: Home, opening: Opening, now_ms: int) -> Log:
    """Open an existing partition. Raises OSError, DamagedFile."""
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
        # Its epochs are read from its batches: the file may tell of others, that were lost or cut.
        epochs.truncate_from_end(segments[recovered_from].base)
        end_offset = _recover_segments(home, segments, recovered_from, epochs, opening)
    start_offset = max(opening.log_start_offset or 0, segments[0].base)
    if start_offset > end_offset:
        segments = [_start_again(home, segments, start_offset, opening, now_ms)]
        end_offset = start_offset
    # In this order, so that of an empty log nothing is left, however often it is opened.
    epochs.truncate_from_start(start_offset)
    epochs.truncate_from_end(end_offset)
    snapshots = snapshot_offsets(file_names)
    producers = _producers(disk, opening, segments, snapshots, end_offset, recovered_from)
    producers.expire(now_ms, opening.config.producer_expiration_ms)
    producers.trim(opening.config.producers_max)
    refill_windows(producers, segments, opening.config.index_interval_bytes)
    recovery_point = end_offset if recovered_from is None else min(opening.recovery_point, end_offset)
    if recovered_from is not None and opening.config.flush_messages != NEVER:
        _sync(home, directory, segments, recovery_point)
        if epochs.changed:
            # Below the recovery point nobody reads them in the batches again.
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
    return Log(opening.topic_partition, directory, home, opening.config, contents)


def _sync(home: Home, directory: str, segments: list[Segment], recovery_point: int) -> None:
    """Put recovered segments on the disk before their records count as committed again, where that was promised."""
    for number, segment in enumerate(segments):
        if number + 1 == len(segments) or segments[number + 1].base > recovery_point:
            for handle in segment.handles():
                handle.reopen(create=True).sync()
            if segment.transactions.exists:
                segment.transactions.handle.reopen().sync()
    home.disk.sync_directory(directory)
    home.disk.sync_directory(home.path)


def _topic_id(disk: Disk, opening: Opening) -> TopicId:
    try:
        return read_topic_id(disk, opening.directory)
    except DamagedFile:
        # Written without a sync, so a power failure may have torn it; a clean stop leaves it whole.
        if opening.is_clean:
            raise
        opening.note(f"{names.PARTITION_METADATA} was torn and is removed")
        # Left there it would be believed, and refused, after the next clean stop.
        disk.remove(f"{opening.directory}/{names.PARTITION_METADATA}")
        return NO_TOPIC_ID


def _listed_segments(home: Home, directory: str, file_names: list[str]) -> list[Segment]:
    present = set(file_names)
    segments = []
    for name in file_names:
        base = names.offset_of(name, names.LOG) if name.endswith(names.LOG) else None
        if base is not None:
            size = home.disk.file_size(f"{directory}/{name}")
            aborts = names.file_name(base, names.TRANSACTION_INDEX) in present
            segments.append(Segment(home.files, directory, base, size, aborts=aborts))
    return segments


def _clean_end(active: Segment, opening: Opening) -> int | None:
    """The end of a cleanly stopped log; None when the file does not end with a whole batch.

    Looked for from the last index entry on; in a short file, as the thousands of a large broker are, without opening
    its indexes, which are looked at when they are first used.
    """
    start = 0
    if active.size > batch_scan.WALK_WINDOW:
        active.load(opening.config.index_interval_bytes)
        start = active.index.last_position
    end_offset, end = active.base, 0
    for position, header in batch_scan.headers(active.handle, start, active.size):
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
        end_offset, end = _recover_segment(segment, epochs, opening)
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
    if number + 1 == len(segments) or segments[number + 1].base == end_offset or opening.config.cleanup_compact:
        return False
    return segments[number + 1].base > (opening.first_dirty_offset or 0)


def _recover_segment(segment: Segment, epochs: EpochCache, opening: Opening) -> tuple[int, int]:
    """Check one segment and make its indexes anew: (offset, position) at which what is good ends.

    Messages of the old formats carry no epoch, and of a wrapper only the whole is checked, as Apache Kafka does it.
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
    disk: Disk,
    opening: Opening,
    segments: list[Segment],
    snapshots: list[int],
    end_offset: int,
    recovered_from: int | None,
) -> ProducerState:
    """The producers' state at the log's end: a good snapshot, and the batches after it.

    A recovered segment's aborts are indexed again, so the replay has to begin at or before it.
    """
    directory = opening.directory
    recovered_base = None if recovered_from is None else segments[min(recovered_from, len(segments) - 1)].base
    at_most = end_offset if recovered_base is None else min(recovered_base, end_offset)
    snapshot = newest_snapshot(disk, directory, snapshots, at_most)
    if snapshot is not None and snapshot[0] < segments[0].base:
        # What lay between was deleted. Half a history would refuse a producer's next batch, or hold a transaction
        # open for ever; a producer that is not known begins anew.
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
        # A newer one may be of records that were cut and written anew since.
        _remove_snapshots(disk, directory, snapshots, above=recovered_base, but=end_offset)
        keep_snapshot(disk, directory, end_offset, producers)
    elif len(producers):
        opening.note("had no snapshot at its end: producers were read from the log")
    return producers


def _remove_snapshots(disk: Disk, directory: str, snapshots: list[int], *, above: int, but: int) -> None:
    for offset in snapshots:
        if offset > above and offset != but:
            path = f"{directory}/{names.file_name(offset, names.SNAPSHOT)}"
            if disk.exists(path):  # A damaged one is gone by now.
                disk.remove(path)
