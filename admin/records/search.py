"""Records of some partitions, from a position on or back from the end, within bounds of records, bytes and time.

A search ends when it has as many as asked for, at the end of the log, or at a bound; `SearchResult` says which, and how
much was read, so that a page never seems to say that there is nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.partition_offsets import OffsetRange, offset_ranges, offsets_for_times
from sordini.admin.records.seen_records import RECORD, RecordFilters, SeenRecord, records_of
from sordini.admin.topics.slice_fetches import EMPTY_MAX, SliceFetches
from sordini.client.record_requests import READ_COMMITTED, READ_UNCOMMITTED
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import Record
from sordini.protocol.records.returned_records import SeenBatch, seen_batches
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

T = TypeVar("T")

ANSWER_S: Final = 8.0
WINDOW_MAX: Final = 20_000
"""Offsets that are read at once on the way back from the end."""
AT_ONCE: Final = 8
"""Partitions that are read at the same time."""

COMMITTED, WITH_ABORTED, UNCOMMITTED = "committed", "aborted", "uncommitted"
SHOWS: Final = (COMMITTED, WITH_ABORTED, UNCOMMITTED)
"""What is shown: records of committed transactions; aborted ones and markers as well; all, those of open ones, too."""
END, BEGINNING, OFFSET, TIME = "end", "beginning", "offset", "time"
STARTS: Final = (END, BEGINNING, OFFSET, TIME)


class Bounds(NamedTuple):
    """What one search may cost."""

    records: int
    size: int
    """In bytes."""
    seconds: float


OF_A_PAGE: Final = Bounds(records=200_000, size=128 * 1024 * 1024, seconds=12.0)


class LedPartition(NamedTuple):
    """A partition, and the broker that leads it as far as known; None: it has no leader."""

    name: TopicPartition
    leader: int | None


class SearchRequest(NamedTuple):
    """What is searched for."""

    rows: Sequence[LedPartition]
    start: str
    at: int
    """The offset, or the time in ms."""
    limit: int
    records: RecordFilters
    shows: str

    @property
    def isolation_level(self) -> int:
        return READ_UNCOMMITTED if self.shows == UNCOMMITTED else READ_COMMITTED


@dataclass
class SearchResult:
    """What was found."""

    records: list[SeenRecord] = field(default_factory=list)
    read: int = 0
    """Records that were read, found or not."""
    bytes_read: int = 0
    stopped: str = ""
    """Why not everything was read; empty: it was."""
    ranges: dict[TopicPartition, OffsetRange] = field(default_factory=dict)


class Search:
    """One search, with its bounds."""

    def __init__(self, cluster: ClusterClient, request: SearchRequest, bounds: Bounds = OF_A_PAGE) -> None:
        self._cluster = cluster
        self._request = request
        self._bounds = bounds
        self.result = SearchResult()
        self._deadline_s = asyncio.get_running_loop().time() + bounds.seconds

    async def run(self) -> SearchResult:
        """Raises ClientError."""
        request, result = self._request, self.result
        led = await self._begin()
        starts = await self._starts([row.name for row in led])
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(row: LedPartition) -> list[SeenRecord]:
            async with slots:
                if request.start == END:
                    return await self._backwards(row)
                return await self._forwards(row, starts[row.name], result.ranges[row.name].latest, request.limit)

        tasks = [asyncio.ensure_future(one(row)) for row in led]
        try:
            found = [record for records in await asyncio.gather(*tasks) for record in records]
        finally:
            for task in tasks:
                task.cancel()
        found.sort(key=lambda record: (record.timestamp_ms, record.offset), reverse=request.start == END)
        if len(found) > request.limit:
            found = found[: request.limit]
        result.records = found
        return result

    async def matching(self) -> AsyncIterator[tuple[LedPartition, Record, bool]]:
        """All that is found from the start on, without the request's limit: partition by partition, uncut.

        From the end on back, it is what `run` finds. Raises ClientError.
        """
        if self._request.start == END:
            found = (await self.run()).records
            led = [row for row in self._request.rows if any(one.name == row.name for one in found)]
            starts = {row.name: min(one.offset for one in found if one.name == row.name) for row in led}
        else:
            led = await self._begin()
            starts = await self._starts([row.name for row in led])
        for row in led:
            end = self.result.ranges[row.name].latest
            async for batch in self._batches(row, starts[row.name], end):
                for record, seen in records_of(row.name, batch):
                    if record is not None and seen.offset < end and self._is_found(record, seen):
                        yield row, record, batch.is_log_append_time

    async def _begin(self) -> list[LedPartition]:
        """Partitions with a leader, whose ranges are known then."""
        led = [row for row in self._request.rows if row.leader is not None]
        if len(led) < len(self._request.rows):
            self.result.stopped = f"{len(self._request.rows) - len(led)} partitions have no leader"
        names = [row.name for row in led]
        level = self._request.isolation_level
        self.result.ranges = await in_time(offset_ranges(self._cluster, names, isolation_level=level))
        return led

    async def _starts(self, names: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        ranges, request = self.result.ranges, self._request
        if request.start == TIME:
            found = await in_time(offsets_for_times(self._cluster, dict.fromkeys(names, request.at)))
            return {name: ranges[name].latest if (at := found[name].offset) is None else at for name in names}
        wanted = request.at if request.start == OFFSET else 0
        return {name: max(ranges[name].earliest, wanted) for name in names}

    async def _forwards(self, row: LedPartition, start: int, end: int, limit: int) -> list[SeenRecord]:
        found: list[SeenRecord] = []
        async for batch in self._batches(row, start, end):
            for record, seen in records_of(row.name, batch):
                if seen.offset >= end:
                    return found
                if self._is_found(record, seen):
                    found.append(seen)
                    if len(found) == limit:
                        return found
        return found

    async def _backwards(self, row: LedPartition) -> list[SeenRecord]:
        """The newest records, newest last: windows before the end, each twice as wide as the one before."""
        limit, (earliest, end) = self._request.limit, self.result.ranges[row.name]
        window = max(limit, 100)
        found: list[SeenRecord] = []
        while end > earliest and len(found) < limit and not self._is_over():
            start = max(earliest, end - window)
            found = [*await self._forwards(row, start, end, window), *found]
            end, window = start, min(2 * window, WINDOW_MAX)
        return found[-limit:]

    async def _batches(self, row: LedPartition, start: int, end: int) -> AsyncIterator[SeenBatch]:
        """Batches of one partition, counted, until the end or a bound."""
        fetches = SliceFetches(self._cluster, row.name, self._request.isolation_level, in_time, row.leader)
        offset, empty = start, 0
        while offset < end and empty < EMPTY_MAX and not self._is_over():
            data = await in_time(fetches.fetched(offset))
            before, content = offset, cast("memoryview", data.records or b"")
            self.result.bytes_read += len(content)
            try:
                for batch in seen_batches(content, offset, data.aborted_transactions or ()):
                    offset = max(offset, batch.next_offset)
                    self.result.read += len(batch.records)
                    yield batch
                    await asyncio.sleep(0)  # Other visitors' requests, between two batches.
            except BrokerError as error:
                raise Failure(f"partition {row.name}, from offset {offset} on: {error}") from None
            empty = 0 if offset > before else empty + 1

    def _is_found(self, record: Record | None, seen: SeenRecord) -> bool:
        request = self._request
        if record is None:  # A marker: it has no text to be searched for.
            return request.shows != COMMITTED and not request.records
        if seen.kind != RECORD and request.shows == COMMITTED:
            return False
        return all(one.finds(record) for one in request.records)

    def _is_over(self) -> bool:
        result, bounds = self.result, self._bounds
        if result.read >= bounds.records:
            result.stopped = f"{bounds.records} records were read"
        elif result.bytes_read >= bounds.size:
            result.stopped = f"{bounds.size >> 20} MiB were read"
        elif asyncio.get_running_loop().time() >= self._deadline_s:
            result.stopped = f"{bounds.seconds:g} s were over"
        else:
            return False
        return True


async def in_time(work: Awaitable[T]) -> T:
    """The result within ANSWER_S. Raises Failure."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return await work
    except TimeoutError:
        raise Failure(f"the leader did not answer within {ANSWER_S:g} s") from None
