"""A log full of keys on a forgetful disk, compacted in this process as the cleaner's child and the broker do it."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from sordini.protocol.records.batch import Record, build_batch, crc_is_right, read_header, read_records
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.segment_replacement import swap_in
from sordini.storage.compaction.task import CleaningResult, CleaningTask, SegmentSpan
from sordini.storage.log import Log
from sordini.storage.log_config import LogConfig
from sordini.storage.log_manager import LogManager
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.crash.expected_log import require
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager

COMPACTED = SMALL._replace(cleanup_delete=False, cleanup_compact=True)
MIB = 1 << 20


class Line(NamedTuple):
    """One record as a reader sees it."""

    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int
    is_control: bool


class NoWait:
    """A clock for the cleaning that never passes: nothing is throttled."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        require(False, f"waits {seconds} s without a throttle")


class Keyed:
    """The store under test. Everything below `synced` was flushed; the last segment never is compacted."""

    def __init__(self, disk: ForgetfulDisk | None = None, config: LogConfig = COMPACTED) -> None:
        self.disk = a_disk() if disk is None else disk
        self.config = config
        self.manager: LogManager = a_manager(self.disk, config)
        self.now_ms = 1_000

    @property
    def log(self) -> Log:
        log = self.manager.get(PARTITION)
        assert log is not None
        return log

    async def fill(self) -> None:
        """Keys written again and again, tombstones, a transaction that commits and one that aborts; then a flush."""
        self.manager.open(0)
        self.manager.create(PARTITION, TOPIC_ID, self.config).assign_epoch(1)
        for number in range(12):
            value = None if number % 5 == 4 else b"%d" % number + b"v" * 40
            self.put([(b"k%d" % (number % 4), value)], sequence=number)
            if number in (3, 7):
                self.put([(b"k1", b"in a transaction"), (b"t", b"%d" % number)], number, 21, transactional=True)
                self.end(21, ABORT if number == 3 else COMMIT)
        self.put([(None, b"without a key")], sequence=0, producer_id=-1)
        await self.log.flush()
        self.log.roll(self.now_ms)
        await self.log.flush()
        self.put([(b"k0", b"the newest")], sequence=12)
        await self.log.flush()
        for _ in range(2):
            self.now_ms += 1_000
            await self.manager.tick(self.now_ms)
        await self.manager.close()

    def put(
        self,
        pairs: list[tuple[bytes | None, bytes | None]],
        sequence: int,
        producer_id: int = 9,
        *,
        transactional: bool = False,
    ) -> None:
        records = [Record(at, self.now_ms, key, value) for at, (key, value) in enumerate(pairs)]
        if transactional:
            sequence = 0 if sequence == 3 else 2
        who = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence} if producer_id >= 0 else {}
        self._append(build_batch(records, transactional=transactional, **who))  # type: ignore[arg-type]

    def end(self, producer_id: int, kind: int) -> None:
        self._append(build_marker(Marker(kind, 1), producer_id=producer_id, producer_epoch=0, timestamp_ms=self.now_ms))

    def _append(self, data: bytes) -> None:
        buffer = memoryview(bytearray(data))
        self.log.append(buffer, [(0, read_header(buffer))], 1, self.now_ms)
        self.log.high_watermark = self.log.log_end_offset

    def again(self) -> Keyed:
        """A new process on a copy of this one's disk."""
        other = Keyed(self.disk.killed(), self.config)
        other.now_ms = self.now_ms
        other.manager.open(self.now_ms)
        return other

    def clean(self) -> CleaningResult:
        """The child's part: new segments beside the old ones."""
        log = self.log
        spans = tuple(
            SegmentSpan(one.base, one.size, following.base, self.now_ms, one.largest_timestamp(150, self.disk))
            for one, following in pairwise(log.segments.all())
        )
        producers = tuple((entry.producer_id, entry.epoch, entry.last_offset) for entry in log.producers.entries())
        task = CleaningTask(
            directory=log.directory,
            segments=spans,
            first_dirty_offset=0,
            uncleanable_offset=log.segments.active.base,
            log_start_offset=log.log_start_offset,
            now_ms=self.now_ms,
            delete_retention_ms=10**9,
            segment_bytes=self.config.segment_bytes,
            segment_index_bytes=self.config.segment_index_bytes,
            index_interval_bytes=self.config.index_interval_bytes,
            map_bytes=MIB,
            map_load_factor=0.9,
            io_buffer_bytes=MIB,
            io_bytes_per_second=float("inf"),
            producers=producers,
        )
        return clean(self.disk, task, NoWait())

    async def compact(self) -> None:
        """A whole cleaning, and the ticks after it that remove what was replaced."""
        await swap_in(self.log, self.clean(), self.log.truncations, lambda: self.now_ms)
        for _ in range(3):
            self.now_ms += 1_000
            await self.manager.tick(self.now_ms)


def lines(log: Log, disk: ForgetfulDisk) -> list[Line]:
    """Every record of a log out of its files; each batch's CRC is right and the offsets rise."""
    found: list[Line] = []
    end = 0
    for segment in log.segments.all():
        data = disk.contents(segment.handle.path)
        require(len(data) == segment.size and segment.base >= end, f"segment {segment.base} comes after {end}")
        position, end = 0, segment.base
        while position < len(data):
            header = read_header(data, position)
            batch = memoryview(data)[position : position + header.size]
            require(crc_is_right(batch, 0, header) and header.base_offset >= end, f"damaged at {header}")
            found += [
                Line(record.offset, record.key, record.value, header.producer_id, header.is_control)
                for record in read_records(batch, header)
            ]
            end, position = header.next_offset, position + header.size
    require(log.log_end_offset >= end, f"{end} is past the log's end {log.log_end_offset}")
    return found


def newest_values(found: list[Line]) -> dict[bytes, bytes | None]:
    """What a reader knows of each key in the end, transactions aside."""
    return {line.key: line.value for line in found if line.key is not None and line.producer_id != 21}
