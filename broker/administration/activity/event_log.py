"""The last events of a broker: a bounded list. Pure: the time comes in.

Events of one kind in one topic within MERGED_MS are one row with their sums: retention of a thousand partitions at once
leaves the events before it in the list.
"""

from __future__ import annotations

from collections import deque
from enum import IntEnum
from typing import Final

from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

EVENTS_MAX: Final = 200
MERGED_MS: Final = 60_000


class EventKind(IntEnum):
    """As DescribeBrokerActivity has them."""

    STARTED = 1
    SEGMENTS_DELETED = 2
    """By retention, or below a log start offset that DeleteRecords has moved."""
    COMPACTED = 3
    UNCLEANABLE = 4
    """Compaction of a partition has failed for good."""


class BrokerEvent(NamedTuple):
    """One row."""

    kind: EventKind
    began_at_ms: int
    """ms since the epoch."""
    ended_at_ms: int
    topic: str | None = None
    partitions: int = 0
    segments: int = 0
    """Deleted, or written anew."""
    bytes_removed: int = 0


class EventLog:
    """The rows, oldest first by their begin."""

    def __init__(self) -> None:
        self._events: deque[BrokerEvent] = deque()
        self._newest: dict[tuple[EventKind, str], tuple[int, set[int]]] = {}
        """Of the newest row of a kind in a topic: its number, counted from the first row ever, and its partitions."""
        self._dropped = 0

    def started(self, at_ms: int) -> None:
        """The broker is ready."""
        self._append(BrokerEvent(EventKind.STARTED, at_ms, at_ms))

    def add(self, kind: EventKind, at_ms: int, name: TopicPartition, segments: int, bytes_removed: int) -> None:
        """Something happened to a partition: its own row, or part of the last one of this kind in the topic."""
        key = kind, name.topic
        number, partitions = self._newest.get(key, (-1, set()))
        row = self._events[number - self._dropped] if number >= 0 else None
        if row is not None and 0 <= at_ms - row.began_at_ms <= MERGED_MS:
            partitions.add(name.partition)
            self._events[number - self._dropped] = row._replace(
                ended_at_ms=at_ms,
                partitions=len(partitions),
                segments=row.segments + segments,
                bytes_removed=row.bytes_removed + bytes_removed,
            )
            return
        self._newest[key] = self._dropped + len(self._events), {name.partition}
        self._append(BrokerEvent(kind, at_ms, at_ms, name.topic, 1, segments, bytes_removed))

    def newest(self, since_ms: int, count: int | None) -> list[BrokerEvent]:
        """Those that ended then or later, the newest `count` of them (None: all), oldest first."""
        found = [event for event in self._events if event.ended_at_ms >= since_ms]
        return found if count is None else found[len(found) - min(count, len(found)) :]

    def _append(self, event: BrokerEvent) -> None:
        self._events.append(event)
        if len(self._events) <= EVENTS_MAX:
            return
        dropped = self._events.popleft()
        if dropped.topic is not None and self._newest[dropped.kind, dropped.topic][0] == self._dropped:
            del self._newest[dropped.kind, dropped.topic]
        self._dropped += 1
