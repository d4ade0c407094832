"""Finding records by time: ListOffsets for a timestamp, and for the largest timestamp (KIP-734)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.batch import BatchHeader
from sordini.protocol.records.timestamp_search import first_at_or_after
from sordini.protocol.records.work_budget import UNBOUNDED, WorkBudget
from sordini.storage.log_state import LogState
from sordini.storage.segment import Segment
from sordini.system.named_tuple import NamedTuple

OFFSET_MAX: Final = 2**63 - 1


class TimestampOffset(NamedTuple):
    """A record found by its time (ms)."""

    timestamp: int
    offset: int
    leader_epoch: int


HEADERS_PER_SLICE: Final = 500
"""How many headers are read before the loop serves other requests."""
BatchSearch = Callable[[bytes, int, int], Awaitable[tuple[int, int] | None]]
"""As `first_at_or_after` without a header, run off the loop."""


class CandidateBatch(NamedTuple):
    """A batch whose header says that it holds a record of the time or later."""

    segment: Segment
    position: int
    header: BatchHeader

    def read(self) -> bytes:
        """The batch's bytes; raises OSError."""
        return self.segment.file().read_at(self.position, self.header.size)


def find_timestamp(
    segments: Sequence[Segment],
    timestamp: int,
    start: int,
    below: int,
    interval_bytes: int,
    effort: WorkBudget = UNBOUNDED,
) -> TimestampOffset | None:
    """The first record from `start` on and below `below` whose time is `timestamp` or later.

    Exact: the time index and the batches' headers lead to one batch, and its records are read. Raises OSError, and
    BudgetExceeded when `effort` is spent.
    """
    for candidate in _candidates(segments, timestamp, start, below, interval_bytes):
        if candidate is None:
            effort.spend(HEADERS_PER_SLICE)
            continue
        found = first_at_or_after(candidate.read(), candidate.header, timestamp, start, effort)
        if found is not None:
            return _below(found, candidate, below)
    return None


async def search_log(log: LogState, timestamp: int | None, below: int, search: BatchSearch) -> TimestampOffset | None:
    """As `find_timestamp`, or `max_timestamp` where no timestamp is given, without a limit of effort.

    `search` reads the batches, and the loop serves other requests in between. Raises BrokerError NOT_LEADER_OR_FOLLOWER
    when the log is closed meanwhile, and StorageError.
    """
    while True:
        log.log_dir.ensure_online()
        segments = log.segments.all()
        try:
            return await _search(log, segments, timestamp, below, search)
        except OSError as error:
            if not log.is_closed and segments is log.segments.all():
                raise log.log_dir.classify(error) from error
            _check_open(log)  # A segment was deleted while it was read: search the remaining ones.


async def _search(
    log: LogState, segments: Sequence[Segment], timestamp: int | None, below: int, search: BatchSearch
) -> TimestampOffset | None:
    interval_bytes, start = log.config.index_interval_bytes, log.log_start_offset
    if timestamp is None:
        newest = _newest(segments, interval_bytes)
        if newest is None:
            return None
        segments, timestamp, start, below = [newest], newest.max_timestamp, 0, OFFSET_MAX
    for candidate in _candidates(segments, timestamp, start, below, interval_bytes):
        if candidate is None:
            await asyncio.sleep(0)
        else:
            found = await search(candidate.read(), timestamp, start)
            if found is not None:
                return _below(found, candidate, below)
        _check_open(log)
    return None


def _check_open(log: LogState) -> None:
    if log.is_closed:
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the log of {log.topic_partition} was closed")


def _below(found: tuple[int, int], candidate: CandidateBatch, below: int) -> TimestampOffset | None:
    return TimestampOffset(*found, candidate.header.partition_leader_epoch) if found[1] < below else None


def _candidates(
    segments: Sequence[Segment], timestamp: int, start: int, below: int, interval_bytes: int
) -> Iterator[CandidateBatch | None]:
    """The batches from `start` on with a record of this time or later; None once per HEADERS_PER_SLICE headers."""
    walked = 0
    for segment in segments:
        segment.load(interval_bytes)
        if segment.max_timestamp < timestamp:
            continue
        for at, header in segment.headers_from_time(timestamp, interval_bytes):
            if header.base_offset >= below:
                return
            if header.max_timestamp >= timestamp and header.last_offset >= start:
                yield CandidateBatch(segment, at, header)
            walked += 1
            if walked % HEADERS_PER_SLICE == 0:
                yield None


def max_timestamp(
    segments: Sequence[Segment], interval_bytes: int, effort: WorkBudget = UNBOUNDED
) -> TimestampOffset | None:
    """The first record with the largest timestamp of all (KIP-734); None without records.

    Raises OSError, and BudgetExceeded when `effort` is spent.
    """
    newest = _newest(segments, interval_bytes)
    if newest is None:
        return None
    for candidate in _candidates([newest], newest.max_timestamp, 0, OFFSET_MAX, interval_bytes):
        if candidate is None:
            effort.spend(HEADERS_PER_SLICE)
            continue
        found = first_at_or_after(candidate.read(), candidate.header, newest.max_timestamp, 0, effort)
        if found is not None:
            return _below(found, candidate, OFFSET_MAX)
    return None


def _newest(segments: Sequence[Segment], interval_bytes: int) -> Segment | None:
    """The first segment with the largest timestamp of all; None where no record has one. Raises OSError."""
    while True:
        for segment in segments:
            segment.load(interval_bytes)
        newest = max(segments, key=lambda segment: segment.max_timestamp)
        claimed = newest.max_timestamp
        if claimed < 0:
            return None
        next(newest.headers_from_time(claimed, interval_bytes), None)  # Checks its time index.
        if newest.max_timestamp == claimed:
            return newest  # Else its index was wrong and has been rebuilt, once per segment.
