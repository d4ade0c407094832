"""Finding records by time: ListOffsets for a time, and for the latest time there is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader
from sordini.protocol.records.timestamp_search import first_at_or_after
from sordini.protocol.records.work_budget import UNBOUNDED, WorkBudget
from sordini.storage import batch_scan
from sordini.storage.segment import Segment

if TYPE_CHECKING:
    from sordini.storage.log import Log


OFFSET_MAX: Final = 2**63 - 1


class TimestampOffset(NamedTuple):
    """A record found by its time (ms)."""

    timestamp: int
    offset: int
    leader_epoch: int


HEADERS_PER_SLICE: Final = 500
"""Looked at before the loop serves others."""
Search = Callable[[bytes, int, int], Awaitable[tuple[int, int] | None]]
"""As `first_at_or_after` without a header, done elsewhere."""


class Late(NamedTuple):
    """A batch that has a record of the time, or says so."""

    segment: Segment
    position: int
    header: BatchHeader

    def read(self) -> bytes:
        """Its bytes; raises OSError."""
        return self.segment.file().read_at(self.position, self.header.size)


def find_timestamp(
    segments: Sequence[Segment],
    timestamp: int,
    start: int,
    below: int,
    interval_bytes: int,
    budget: WorkBudget = UNBOUNDED,
) -> TimestampOffset | None:
    """The first record from `start` on and below `below` whose time is `timestamp` or later.

    Exact: the time index and the batches' headers lead to one batch, and its records are read. Raises OSError, and
    BudgetExceeded when `budget` is spent.
    """
    for late in _late(segments, timestamp, start, below, interval_bytes):
        if late is None:
            budget.spend(HEADERS_PER_SLICE)
            continue
        found = first_at_or_after(late.read(), late.header, timestamp, start, budget)
        if found is not None:
            return _told(found, late, below)
    return None


async def search_log(log: Log, timestamp: int | None, below: int, search: Search) -> TimestampOffset | None:
    """As `find_timestamp`, or `max_timestamp` where no time is given, however long it takes.

    Batches are read by `search`, and the loop serves others on the way. Raises BrokerError NOT_LEADER_OR_FOLLOWER when
    the log is closed meanwhile, and StorageError.
    """
    while True:
        log.home.check()
        segments = log.segments.all()
        try:
            return await _search(log, segments, timestamp, below, search)
        except OSError as error:
            if not log.is_closed and segments is log.segments.all():
                raise log.home.wrong(error) from error
            _check_open(log)  # A segment was deleted while it was read: what is left is searched anew.


async def _search(
    log: Log, segments: Sequence[Segment], timestamp: int | None, below: int, search: Search
) -> TimestampOffset | None:
    interval_bytes, start = log.config.index_interval_bytes, log.log_start_offset
    if timestamp is None:
        newest = _newest(segments, interval_bytes)
        if newest is None:
            return None
        segments, timestamp, start, below = [newest], newest.max_timestamp, 0, OFFSET_MAX
    for late in _late(segments, timestamp, start, below, interval_bytes):
        if late is None:
            await asyncio.sleep(0)
        else:
            found = await search(late.read(), timestamp, start)
            if found is not None:
                return _told(found, late, below)
        _check_open(log)
    return None


def _check_open(log: Log) -> None:
    if log.is_closed:
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {log.topic_partition} was closed")


def _told(found: tuple[int, int], late: Late, below: int) -> TimestampOffset | None:
    return TimestampOffset(*found, late.header.partition_leader_epoch) if found[1] < below else None


def _late(
    segments: Sequence[Segment], timestamp: int, start: int, below: int, interval_bytes: int
) -> Iterator[Late | None]:
    """The batches from `start` on that have a record of this time or later; None after some that have none."""
    walked = 0
    for segment in segments:
        segment.load(interval_bytes)
        if segment.max_timestamp < timestamp:
            continue
        position = segment.position_of_time(timestamp, interval_bytes)
        for at, header in batch_scan.headers(segment.handle, position, segment.size):
            if header.base_offset >= below:
                return
            if header.max_timestamp >= timestamp and header.last_offset >= start:
                yield Late(segment, at, header)
            walked += 1
            if walked % HEADERS_PER_SLICE == 0:
                yield None


def max_timestamp(
    segments: Sequence[Segment], interval_bytes: int, budget: WorkBudget = UNBOUNDED
) -> TimestampOffset | None:
    """The first record that has the largest time of all (KIP-734); None without records.

    Raises OSError, and BudgetExceeded when `budget` is spent.
    """
    newest = _newest(segments, interval_bytes)
    if newest is None:
        return None
    for late in _late([newest], newest.max_timestamp, 0, OFFSET_MAX, interval_bytes):
        if late is None:
            budget.spend(HEADERS_PER_SLICE)
            continue
        found = first_at_or_after(late.read(), late.header, newest.max_timestamp, 0, budget)
        if found is not None:
            return _told(found, late, OFFSET_MAX)
    return None


def _newest(segments: Sequence[Segment], interval_bytes: int) -> Segment | None:
    """The first segment with the largest time of all; None where no record has one. Raises OSError."""
    while True:
        for segment in segments:
            segment.load(interval_bytes)
        newest = max(segments, key=lambda segment: segment.max_timestamp)
        claimed = newest.max_timestamp
        if claimed < 0:
            return None
        newest.position_of_time(claimed, interval_bytes)
        if newest.max_timestamp == claimed:
            return newest  # Else its index lied and was rebuilt, which happens once to each.
