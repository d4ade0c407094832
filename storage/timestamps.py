"""Finding records by time: ListOffsets for a time, and for the latest time there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sordini.protocol.records.times import first_from
from sordini.storage import batch_scan
from sordini.storage.segment import Segment


class TimestampOffset(NamedTuple):
    """A record found by its time (ms)."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(
    segments: Sequence[Segment], timestamp: int, start: int, below: int, interval_bytes: int
) -> TimestampOffset | None:
    """The first record from `start` on and below `below` whose time is `timestamp` or later. Raises OSError.

    Exact: the time index and the batches' headers lead to one batch, and its records are read.
    """
    for segment in segments:
        segment.load(interval_bytes)
        if segment.max_timestamp < timestamp:
            continue
        position = segment.position_of_time(timestamp, interval_bytes)
        for at, header in batch_scan.headers(segment.handle, position, segment.size):
            if header.base_offset >= below:
                return None
            if header.max_timestamp < timestamp or header.last_offset < start:
                continue
            found = first_from(segment.file().read_at(at, header.size), header, timestamp, start)
            if found is not None:
                return TimestampOffset(*found, header.partition_leader_epoch) if found[1] < below else None
    return None


def max_timestamp(segments: Sequence[Segment], interval_bytes: int) -> TimestampOffset | None:
    """The first record that has the largest time of all (KIP-734); None without records. Raises OSError."""
    while True:
        for segment in segments:
            segment.load(interval_bytes)
        newest = max(segments, key=lambda segment: segment.max_timestamp)
        claimed = newest.max_timestamp
        if claimed < 0:
            return None
        position = newest.position_of_time(claimed, interval_bytes)
        if newest.max_timestamp == claimed:
            break  # Else its index lied and was rebuilt, which happens once to each.
    for at, header in batch_scan.headers(newest.handle, position, newest.size):
        if header.max_timestamp != newest.max_timestamp:
            continue
        found = first_from(newest.file().read_at(at, header.size), header, newest.max_timestamp, 0)
        if found is not None:
            return TimestampOffset(*found, header.partition_leader_epoch)
    return None
