"""Which log lines changes of in-sync sets get: one each for few, one for each follower where many change at once.

Pure; `state_change_log.py` writes the lines. When a broker fails, thousands of in-sync sets lose it within a second.
Changes are collected for INTERVAL_MS from the first one on; what is kept meanwhile has a bound, however many they are.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.system.named_tuple import NamedTuple

INTERVAL_MS: Final = 1_000
"""How long changes are collected, and so how late a line is at most."""
LINES_MAX: Final = 20
"""Changes of one interval that have their own lines; more are counted, in one line for each event and follower."""
NAMED_MAX: Final = 3
"""Partitions that such a line names."""
EXPANDED: Final = "ISR expanded"
SHRUNK: Final = "ISR shrunk"


class IsrChange(NamedTuple):
    """A change of the in-sync set that is in force."""

    name: TopicPartition
    former: tuple[BrokerId, ...]
    now: tuple[BrokerId, ...]
    partition_epoch: int
    leader_epoch: int


class Line(NamedTuple):
    """One log line."""

    event: str
    fields: dict[str, object]


class _Count:
    """The changes of one event and follower."""

    def __init__(self) -> None:
        self.changes = 0
        self.first: list[str] = []

    def add(self, name: TopicPartition) -> None:
        self.changes += 1
        if len(self.first) < NAMED_MAX:
            self.first.append(str(name))


class IsrChangeLines:
    """The changes of the current interval."""

    def __init__(self) -> None:
        self.due_ms: int | None = None
        """When the lines are due, on the monotonic clock; None while there is nothing to write."""
        self._changes = 0
        self._own: list[Line] = []
        self._counts: dict[tuple[str, str, BrokerId], _Count] = {}

    def add(self, change: IsrChange, now_ms: int) -> None:
        """Collect a change. The first one of an interval sets `due_ms`; another order of the same replicas is none."""
        joined = [member for member in change.now if member not in change.former]
        left = [member for member in change.former if member not in change.now]
        if not joined and not left:
            return
        if self.due_ms is None:
            self.due_ms = now_ms + INTERVAL_MS
        self._changes += 1
        for event, kind, members in ((EXPANDED, "joined", joined), (SHRUNK, "left", left)):
            for member in members:
                self._counts.setdefault((event, kind, member), _Count()).add(change.name)
        if self._changes <= LINES_MAX:
            self._own.append(_line(change, joined, left))

    def take(self) -> list[Line]:
        """The lines of the interval, which ends."""
        own, counts, many = self._own, self._counts, self._changes > LINES_MAX
        self.due_ms, self._changes, self._own, self._counts = None, 0, [], {}
        if not many:
            return own
        return [
            Line(event, {"partitions": count.changes, kind: [member], "first": count.first})
            for (event, kind, member), count in counts.items()
        ]


def _line(change: IsrChange, joined: list[BrokerId], left: list[BrokerId]) -> Line:
    members = {"joined": joined, "left": left}
    fields = {
        "partition": str(change.name),
        "isr": list(change.now),
        **{kind: found for kind, found in members.items() if found},
        "partition_epoch": change.partition_epoch,
        "leader_epoch": change.leader_epoch,
    }
    return Line(EXPANDED if joined else SHRUNK, fields)
