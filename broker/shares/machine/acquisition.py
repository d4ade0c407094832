"""What a member gets of the record batches that were read for it (KIP-932, KIP-1206). Pure.

By batches: whole record batches, so that `records_max` may be exceeded by the last one. By records: never more than
`records_max`. Records that failed often are handed out in smaller portions, so that a record which no member can
process takes few others with it to its end: from half of the deliveries on, half a batch, a quarter, and the last time
each alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from sordini.broker.shares.machine.in_flight import InFlightBatch, Part
from sordini.broker.shares.machine.record_states import RecordState
from sordini.broker.shares.machine.share_partition import SharePartition
from sordini.system.named_tuple import NamedTuple

THROTTLED_FROM_MIN: Final = 2
"""Deliveries after which records come in smaller portions, at the earliest."""


class Extent(NamedTuple):
    """The offsets of a record batch that was read; half-open."""

    first: int
    end: int


_FIRST: Final = itemgetter(0)
_END: Final = itemgetter(1)


class AcquisitionRequest(NamedTuple):
    """What a member asks for."""

    member: str
    records_max: int
    batch_size: int
    """From so many records on, a range of acquired records ends with its record batch."""
    is_by_records: bool


class Acquired(NamedTuple):
    """A range of offsets that the member holds now; half-open."""

    first: int
    end: int
    deliveries: int


class Acquisition:
    """One request on one share partition."""

    def __init__(self, partition: SharePartition, request: AcquisitionRequest, now_ms: int) -> None:
        self._partition = partition
        self._request = request
        self._deadline_ms = now_ms + partition.limits.lock_ms
        self._throttled_from = max(THROTTLED_FROM_MIN, -(-partition.limits.delivery_count_max // 2))
        self._room = 0
        self.acquired: list[Acquired] = []

    def of(self, read: Sequence[Extent]) -> list[Acquired]:
        """Acquire what is available of these record batches, which were read from `next_offset()` on."""
        if not read or self._request.records_max <= 0:
            return []
        offset = self._partition.next_offset()
        self._acquire(read, offset)
        self._fill_holes(read, offset)
        return self.acquired

    def _fill_holes(self, read: Sequence[Extent], offset: int) -> None:
        """Between record batches, and before the first, there may be offsets without records."""
        partition = self._partition
        for extent in read:
            if offset < extent.first < partition.end:
                partition.fill(offset, extent.first)
            offset = max(offset, extent.end)

    def _acquire(self, read: Sequence[Extent], offset: int) -> None:
        partition, end = self._partition, read[-1].end
        self._room = min(self._request.records_max, partition.limits.in_flight_max - partition.in_flight)
        if self._room <= 0:
            self._room, end = min(self._request.records_max, partition.end - offset), min(end, partition.end)
        at = max(read[0].first, partition.start)
        for batch in partition.batches.overlapping(at, end):
            if self._room <= 0:
                return
            if batch.first > at:
                self._acquire_new(read, at, batch.first)
            self._acquire_again(batch, max(batch.first, at), min(batch.end, end))
            at = max(at, batch.end)
        if self._room > 0 and at < end:
            self._acquire_new(read, at, end)

    def _acquire_new(self, read: Sequence[Extent], first: int, end: int) -> None:
        """Records that were never in flight, within a range in which there are no others."""
        extents = read[bisect_right(read, first, key=_END) : bisect_left(read, end, key=_FIRST)]
        if not extents or self._room <= 0:
            return
        first = max(first, extents[0].first)
        end = min(end, extents[-1].end)
        last = first + self._room - 1
        begun = first
        for extent in extents:
            until = min(extent.end, end)
            is_last = extent.end > last or extent is extents[-1]
            is_full = until - begun >= self._request.batch_size and not self._request.is_by_records
            if is_last or is_full:
                self._take(begun, until)
                begun = until
            if is_last:
                return

    def _take(self, first: int, end: int) -> None:
        """A batch that is in flight from now on; what is not acquired of it is the next to be."""
        end_held = min(end, first + self._room) if self._request.is_by_records else end
        held = self._held(first, end_held, 1)
        rest = Part(end_held, end, RecordState.AVAILABLE, 0)
        self._partition.add(InFlightBatch([held, rest] if end_held < end else [held]))
        self._note(held)

    def _acquire_again(self, batch: InFlightBatch, first: int, end: int) -> None:
        """Available records of a batch."""
        available = [part for part in batch.within(first, end) if part.is_available]
        is_throttled = any(self._portion(batch, part) is not None for part in available)
        if is_throttled and self.acquired:
            self._room = 0
            return
        room = self._room if self._request.is_by_records else end - first
        taken, limit = 0, 0
        for part in available:
            limit = self._portion(batch, part) or limit
            if self._is_last_delivery(part) and taken:
                break
            size = min(part.end - part.first, room, limit - taken if limit > taken else room)
            held = self._held(part.first, part.first + size, part.deliveries + 1)
            if size:
                batch.put(held)
                self._note(held)
            taken, room = taken + size, room - size
            if taken == limit:
                break
        if is_throttled:
            self._room = 0

    def _portion(self, batch: InFlightBatch, part: Part) -> int | None:
        """How many records of a batch are handed out at once, after so many deliveries; None for any number."""
        if part.deliveries < self._throttled_from:
            return None
        if self._is_last_delivery(part):
            return 1
        return max(batch.size >> (part.deliveries - self._throttled_from + 1), 1)

    def _is_last_delivery(self, part: Part) -> bool:
        """Whether a record is not handed out again. With a limit of two, records are not throttled for that."""
        return part.deliveries >= max(self._throttled_from, self._partition.limits.delivery_count_max - 1)

    def _held(self, first: int, end: int, count: int) -> Part:
        return Part(first, end, RecordState.ACQUIRED, count, self._request.member, self._deadline_ms)

    def _note(self, part: Part) -> None:
        self._partition.lock(part)
        self._room -= part.end - part.first
        self.acquired.append(Acquired(part.first, part.end, part.deliveries))
