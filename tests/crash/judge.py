"""Holding a log, and the files it lies in, against the truth."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE, crc_is_right, read_header
from sordini.storage.log import Log
from sordini.storage.producer_state import ProducerEntry
from sordini.storage.segment import Segment
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.crash.expected_log import Batch, Truth, fold, require

LOOKUPS = 6
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


class Placed(NamedTuple):
    """A batch and where it lies in its segment's file."""

    position: int
    batch: Batch


def judge(truth: Truth, log: Log, disk: ForgetfulDisk, chance: random.Random, *, at_least: int) -> list[Batch]:
    """Check all invariants of one open log; returns its batches. Raises Violation."""
    name = f"{truth.partition}:"
    known = truth.by_base()
    placed = {segment.base: list(_placed(known, segment, disk)) for segment in log.segments.all()}
    found = [one.batch for base in placed for one in placed[base]]
    first = log.segments.all()[0].base
    _check_order(truth, log, placed)
    end = found[-1].end if found else log.segments.active.base
    require(log.log_end_offset == end, name, f"says it ends at {log.log_end_offset}, its files end at {end}")
    restarted = not found and log.log_start_offset == end and end <= truth.start
    require(end >= at_least or restarted, name, f"ends at {end}, up to {at_least} was promised")
    lowest, highest = truth.start_saved, max(truth.start, truth.start_may_be)
    start = log.log_start_offset
    require(lowest <= start <= highest, name, f"starts at {start}, {lowest} to {highest} is right")
    require(first <= start <= end, name, f"starts at {start}, its files hold {first} to {end}")
    require(start <= log.high_watermark <= end, name, f"has the high watermark {log.high_watermark} in {start}-{end}")
    _check_epochs(truth, log, found)
    if not (restarted or truth.restarted):
        _check_producers(truth, log, found)
    for segment in log.segments.all():
        _check_indexes(segment, log, disk, placed[segment.base])
    _check_lookups(log, found, chance)
    return found


def _placed(known: dict[int, list[Batch]], segment: Segment, disk: ForgetfulDisk) -> Iterator[Placed]:
    """The batches of one segment, each of which must be one that was written there, to the byte."""
    path = segment.handle.path
    data = disk.contents(path)
    require(len(data) == segment.size, path, f"has {len(data)} bytes, {segment.size} are the segment's")
    position = 0
    while position < len(data):
        require(len(data) - position >= HEADER_SIZE, path, f"ends inside a header at {position}")
        header = read_header(data, position)
        image = data[position : position + header.size]
        batch = next((one for one in known.get(header.base_offset, ()) if one.data == image), None)
        if batch is None:
            is_right = len(image) == header.size >= HEADER_SIZE and crc_is_right(image, 0, header)
            was = [(one.base, one.end) for one in known.get(header.base_offset, ())]
            require(False, path, f"at {position}: {header}, CRC right: {is_right}, is not what was written: {was}")
            return
        yield Placed(position, batch)
        position += header.size


def _check_order(truth: Truth, log: Log, placed: dict[int, list[Placed]]) -> None:
    segments = log.segments.all()
    expected = segments[0].base
    for segment in segments:
        require(segment.base == expected, truth.partition, f"has a segment {segment.base}, {expected} was to come")
        for one in placed[segment.base]:
            require(one.batch.base == expected, truth.partition, f"has {one.batch.base} where {expected} belongs")
            expected = one.batch.end


def _check_epochs(truth: Truth, log: Log, found: Sequence[Batch]) -> None:
    start = log.log_start_offset
    entries = log.epochs.entries
    for batch in found:
        if batch.end > start:
            at = max(batch.base, start)
            epoch = log.epochs.epoch_at(at)
            right = batch.header.partition_leader_epoch
            # Deleted records that reappear may have lost their epoch, which is not read any more.
            require(
                epoch == right or (epoch == -1 and at < truth.start_highest),
                truth.partition,
                f"has epoch {epoch} for {at}, {right} wrote it: {entries}",
            )
    assigned = {*truth.epochs, *((batch.header.partition_leader_epoch, batch.base) for batch in found)}
    for epoch, offset in entries:
        known = (epoch, offset) in assigned or offset <= max(start, truth.start_highest)
        require(known and offset <= log.log_end_offset, truth.partition, f"has epoch {epoch} begin at {offset}")


def _check_producers(truth: Truth, log: Log, found: Sequence[Batch]) -> None:
    """The producer state matches the whole history; after a lost snapshot, the history from there."""
    first = found[0].base if found else log.log_end_offset
    history = [*(batch for batch in truth.batches if batch.end <= first), *found]
    begins = sorted({0, first, *(begin for begin in truth.first_offsets if begin < first)})
    folds = [fold(batch for batch in history if batch.base >= begin) for begin in begins]
    known = [{entry.producer_id: entry for entry in one.producers.entries()} for one in folds]
    has = {entry.producer_id: entry for entry in log.producers.entries()}
    for producer_id, entry in has.items():
        may_be = [entries.get(producer_id) for entries in known]
        require(entry in may_be, truth.partition, f"knows {entry}, should know one of {may_be}")
    missing = known[-1].keys() - has.keys()
    require(not missing, truth.partition, f"forgot the producers {sorted(missing)}")
    aborted = log.aborted_transactions(0, log.log_end_offset)
    may_be_aborted = {transaction for one in folds for transaction in one.aborted}
    wrong = [transaction for transaction in aborted if transaction not in may_be_aborted]
    require(not wrong, truth.partition, f"indexed {wrong}, right are {may_be_aborted}")
    left = {transaction.last_offset for transaction in folds[-1].aborted}
    missed = left - {transaction.last_offset for transaction in aborted}
    require(not missed, truth.partition, f"indexed {aborted}, not the aborts at {missed}")
    end = log.log_end_offset
    stable = log.last_stable_offset(end)
    right = {max(min(_open(entries.values()), default=end), log.log_start_offset) for entries in known}
    require(stable in right, truth.partition, f"is stable to {stable}, right is one of {right}")


def _open(entries: Iterable[ProducerEntry]) -> list[int]:
    """Where the transactions that are open began."""
    return [entry.transaction_first_offset for entry in entries if entry.transaction_first_offset >= 0]


def _check_indexes(segment: Segment, log: Log, disk: ForgetfulDisk, placed: Sequence[Placed]) -> None:
    """Each entry of both indexes points at an existing batch, and a closed segment's last time is its largest."""
    segment.load(log.config.index_interval_bytes)
    ends = {one.batch.header.last_offset: one for one in placed}
    data = segment.index._entries(0, segment.index.count)
    path = segment.index.handle.path
    require(len(data) == segment.index.count * _OFFSET_ENTRY.size, path, "is shorter than its entries")
    before = (-1, -1)
    for relative, position in _OFFSET_ENTRY.iter_unpack(data):
        one = ends.get(segment.base + relative)
        is_right = one is not None and one.position == position
        require(is_right and (relative, position) > before, path, f"says {segment.base + relative} is at {position}")
        before = (relative, position)
    newest = -1
    newest_by_end: dict[int, int] = {}
    for one in placed:
        newest = max(newest, one.batch.header.max_timestamp)
        newest_by_end[one.batch.header.last_offset] = newest
    require(segment.max_timestamp == newest, path, f"{segment.max_timestamp} is called the newest, {newest} is")
    path = segment.times.handle.path
    data = segment.times._entries(0, segment.times.count)
    before = (-1, -1)
    for timestamp, relative in _TIME_ENTRY.iter_unpack(data):
        reported = newest_by_end.get(segment.base + relative)
        is_right = reported == timestamp and timestamp > before[0] and relative > before[1]
        require(is_right, path, f"says {timestamp} is the newest up to {segment.base + relative}, {reported} is")
        before = (timestamp, relative)
    is_closed = segment is not log.segments.active
    if is_closed and placed:
        require(before[0] == newest, path, f"ends with {before[0]}, the newest is {newest}")
        sizes = len(disk.contents(path)), len(disk.contents(segment.index.handle.path))
        right = segment.times.count * _TIME_ENTRY.size, segment.index.count * _OFFSET_ENTRY.size
        require(sizes == right, path, f"and its like have {sizes} bytes, {right} are entries")


def _check_lookups(log: Log, found: Sequence[Batch], chance: random.Random) -> None:
    """Offsets and times are found where a linear search finds them."""
    start, end = log.log_start_offset, log.log_end_offset
    records = [record for batch in found for record in batch.records if record.offset >= start]
    if not records:
        require(log.find_timestamp(0, end) is None, "a time is found in an empty log")
        return
    for offset in [start, end - 1, *(chance.randrange(start, end) for _ in range(LOOKUPS))]:
        batch = next(one for one in found if one.end > offset)
        try:
            piece = log.read(offset, 1, end, whole_first=True)
        except BrokerError as error:
            require(False, f"{log.topic_partition}: {offset} cannot be read: {error}")
            return
        require(piece is not None, f"{log.topic_partition}: nothing is read at {offset}, the end is {end}")
        assert piece is not None
        data = piece.read()
        piece.release()
        require(data[: len(batch.data)] == batch.data, f"{log.topic_partition}: a read at {offset} gives another batch")
    times = sorted({record.timestamp for record in records})
    for timestamp in [times[-1] + 1, times[-1], *(chance.choice(times) for _ in range(LOOKUPS // 2))]:
        right = next((record for record in records if record.timestamp >= timestamp), None)
        reported = log.find_timestamp(timestamp, end)
        same = (
            reported is None
            if right is None
            else reported is not None and reported[:2] == (right.timestamp, right.offset)
        )
        require(same, f"{log.topic_partition}: time {timestamp} is found at {reported}, right is {right}")
