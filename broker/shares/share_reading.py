"""One pass over the partitions of a share session: what is available is locked for the member, and leaves as slices.

Records are not decoded. The headers of as many record batches are read as the member may acquire records of; the slice
of the log that is sent begins and ends with the batches of the records that it has acquired.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from sordini.broker.network.ports import release_parts
from sordini.broker.shares.acknowledging import Refused, check_allowed
from sordini.broker.shares.led_share_partition import LedSharePartition, Phase
from sordini.broker.shares.machine.acquisition import Acquired, AcquisitionRequest, Extent
from sordini.broker.shares.machine.sessions import ShareSession, Target, Targeted
from sordini.broker.shares.share_partitions import SharePartitions
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.share_fetch import AcquiredRecords, PartitionData, ShareFetchRequest
from sordini.protocol.records.batch import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader
from sordini.replication.purgatory import WatchedLog
from sordini.storage.batch_scan import headers_in
from sordini.storage.errors import StorageError
from sordini.storage.file_slice import FileSlice
from sordini.storage.log import Log
from sordini.storage.producer_state import AbortedTransaction
from sordini.system.named_tuple import NamedTuple

READS_MAX: Final = 8
"""Of one partition in one pass, while all that is read was aborted."""
BATCHES_MAX: Final = 1_000
"""Record batches in one pass: about ten milliseconds. A response has no more, whatever the request would take."""


class _Batch(NamedTuple):
    """Where a record batch that was read is, and which offsets it has."""

    position: int
    header: BatchHeader

    @property
    def extent(self) -> Extent:
        return Extent(self.header.base_offset, self.header.last_offset + 1)


class ShareReading:
    """What one fetch acquires; read again while it waits."""

    def __init__(
        self, partitions: SharePartitions, session: ShareSession, request: ShareFetchRequest, refused: Refused
    ) -> None:
        """`refused`: topics that it may not read."""
        self._partitions = partitions
        self._session = session
        self._request = request
        self._refused = refused
        self.rows: dict[Target, PartitionData] = {}
        self.watched: list[WatchedLog] = []
        """What a fetch that waits watches."""
        self.has_found = False
        """Whether records were acquired, or so many had to be left out that more are to be read at once."""
        self.errors = 0
        self._size = 0
        self._records_left = request.max_records
        self._batches_left = BATCHES_MAX
        self._opened: dict[Target, LedSharePartition] = {}
        """Of these it is told why they end, instead of loading them again."""

    @property
    def may_wait(self) -> bool:
        """Whether there is a partition that may have records later, and a session that they are for."""
        return not self.has_found and bool(self.watched) and self._session.is_kept

    def readable_bytes(self, bytes_max: int) -> int:
        """How many bytes are behind the first available record of each partition, up to `bytes_max` in all."""
        size = 0
        for target, known in self._session.targets.items():
            if size >= bytes_max:
                break
            try:
                shared = self._open(target, known)
                if shared.phase is Phase.LOADED and (piece := _read(shared, bytes_max)) is not None:
                    segments = shared.partition.log.segments
                    # A slice does not reach past its segment, so more follows than could be counted.
                    is_behind = segments.number_of(piece.base) < segments.number_of(piece.end_offset)
                    size += bytes_max if is_behind else piece.size
                    piece.release()
            except (BrokerError, StorageError):
                return bytes_max
        return size

    def read(self, *, acquires: bool = True) -> None:
        """Acquire what is available, in the order of the session, until the response is full.

        Without `acquires` it finds only what to watch, and errors.
        """
        self.rows.clear()
        self.watched.clear()
        self.errors = self._size = 0
        self._batches_left = BATCHES_MAX
        served = []
        for target, known in self._session.targets.items():
            row = PartitionData(partition_index=target.partition, records=b"")
            try:
                shared = self._open(target, known)
                self.watched += (shared.partition, shared)
                if acquires and shared.phase is not Phase.LOADING and self._session.is_kept:
                    self._read_one(shared, row)
            except BrokerError as error:
                row.error_code = error.code
            except StorageError:
                row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            self.errors += row.error_code != ErrorCode.NONE
            if row.acquired_records:
                served.append(target)
            if known.is_news or row.error_code or row.acquired_records:
                self.rows[target] = row
        for target in served:
            self._session.rotate(target)

    def sent(self) -> None:
        """The rows are sent: a row that says nothing is not sent again."""
        for target, row in self.rows.items():
            if (known := self._session.targets.get(target)) is not None:
                known.is_news = row.error_code != ErrorCode.NONE

    def drop(self) -> None:
        """Release what was read and is not sent."""
        release_parts([row.records for row in self.rows.values() if isinstance(row.records, FileSlice)])
        self.rows.clear()

    def _open(self, target: Target, known: Targeted) -> LedSharePartition:
        """Raises BrokerError, also for one that has ended since this request opened it."""
        check_allowed(target, self._refused)
        known.topic = known.topic or self._partitions.leaders.metadata.name_of(target.topic_id) or ""
        former = self._opened.get(target)
        if former is not None and former.phase is Phase.ENDED:
            raise BrokerError(former.error, f"the share partition {former.key} has ended")
        try:
            opened = self._opened[target] = self._partitions.open(self._session.key.group_id, target)
        except BrokerError as error:
            if error.code == ErrorCode.UNKNOWN_TOPIC_ID and known.topic:  # The topic was deleted since.
                raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {known.topic}") from error
            raise
        return opened

    def _read_one(self, shared: LedSharePartition, row: PartitionData) -> None:
        """Raises BrokerError and StorageError."""
        bytes_max = self._request.max_bytes
        if bytes_max < 0:
            raise BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{bytes_max} bytes cannot be fetched")
        for _ in range(READS_MAX):
            bytes_left = max(bytes_max - self._size, 0)
            if self._records_left <= 0 or self._batches_left <= 0 or (self._size and not bytes_left):
                break
            piece = _read(shared, bytes_left, whole_first=not self._size)
            if piece is None:
                return
            acquired = self._acquire(shared, piece)
            if acquired is None:
                return
            if acquired:
                row.records = piece
                row.acquired_records = [
                    AcquiredRecords(first_offset=first, last_offset=end - 1, delivery_count=deliveries)
                    for first, end, deliveries in acquired
                ]
                return
        self.has_found = True  # More is to be read than there is room or time for.

    def _acquire(self, shared: LedSharePartition, piece: FileSlice) -> list[Acquired] | None:
        """Lock what a slice has, and cut it to that; releases it if there is nothing: None if not even aborted records.

        Whatever is to be read by members only later, or never, is left out of `read` here.
        """
        machine, is_kept = shared.machine, False
        try:
            batches = _batches(piece, machine.reach(self._records_left), self._batches_left)
            if not batches:
                return None
            self._batches_left -= len(batches)
            skipped = _aborted(shared.partition.log, batches) if shared.settings.is_committed_only else []
            request = self._request
            acquired = shared.acquire(
                AcquisitionRequest(
                    self._session.key.member, self._records_left, request.batch_size, request.share_acquire_mode == 1
                ),
                [batch.extent for batch in batches],
                skipped,
            )
            if not acquired:
                return [] if skipped else None
            is_kept = self.has_found = True
            _cut(piece, batches, acquired)
            self._size += piece.size
            self._records_left -= sum(one.end - one.first for one in acquired)
            return acquired
        finally:
            if not is_kept:
                piece.release()


def _read(shared: LedSharePartition, bytes_max: int, *, whole_first: bool = True) -> FileSlice | None:
    """What follows the first available record, up to a number of bytes; raises BrokerError and StorageError."""
    machine, partition = shared.begin_fetch(), shared.partition
    is_committed_only = shared.settings.is_committed_only
    partition.require_leader()
    if not machine.can_acquire(partition.readable_end(committed_only=is_committed_only)):
        return None
    return partition.read(machine.next_offset(), bytes_max, whole_first=whole_first, committed_only=is_committed_only)


def _batches(piece: FileSlice, reach: int, count_max: int) -> list[_Batch]:
    """The first whole record batches of a slice, as far as they are of use. Raises StorageError."""
    found = []
    for position, header in headers_in(piece.file, piece.position, piece.position + piece.size):
        found.append(_Batch(position, header))
        if header.last_offset + 1 >= reach or len(found) == count_max:
            break
    return found


def _aborted(log: Log, batches: Sequence[_Batch]) -> list[Extent]:
    """The batches of transactions that were aborted. Their markers are none: members pass over them as over others."""
    if not any(batch.header.attributes & TRANSACTIONAL_BIT for batch in batches):
        return []
    aborted: dict[int, list[AbortedTransaction]] = defaultdict(list)
    for one in log.aborted_transactions(batches[0].header.base_offset, batches[-1].extent.end):
        aborted[one.producer_id].append(one)
    return [batch.extent for batch in batches if _is_aborted(batch.header, aborted)]


def _is_aborted(header: BatchHeader, aborted: Mapping[int, Sequence[AbortedTransaction]]) -> bool:
    """Of a producer one transaction follows the other, so that the last one which begins before decides."""
    if not header.attributes & TRANSACTIONAL_BIT or header.attributes & CONTROL_BIT:
        return False
    of_producer = aborted.get(header.producer_id, ())
    behind = bisect_right(of_producer, header.base_offset, key=attrgetter("first_offset"))
    return behind > 0 and header.base_offset <= of_producer[behind - 1].last_offset


def _cut(piece: FileSlice, batches: Sequence[_Batch], acquired: Sequence[Acquired]) -> None:
    """Leave the batches of the first to the last acquired record."""
    first, end = acquired[0].first, acquired[-1].end
    kept = [batch for batch in batches if batch.extent.end > first and batch.extent.first < end]
    piece.base, piece.position = kept[0].header.base_offset, kept[0].position
    piece.size = kept[-1].position + kept[-1].header.size - kept[0].position
