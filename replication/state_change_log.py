"""The log lines of state changes: `ISR expanded`, `ISR shrunk`, and `became leader` and `became follower`.

Role changes have one line per partition, or one per leader where a command changes many. Changes of in-sync sets have
one line per partition, or one per follower where many change within a second (`isr_change_lines.py`).
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.isr_change_lines import IsrChange, IsrChangeLines
from sordini.replication.leader import Leader
from sordini.replication.ports import CallLater, Clock, Logger, Timer

LINES_MAX: Final = 20
"""Role changes of one command that have their own lines; more are counted, in one line for each leader."""


class RoleLog:
    """The role changes since the last `write`."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._changes: list[tuple[str, TopicPartition, dict[str, object]]] = []

    def became_leader(self, name: TopicPartition, leader_epoch: int, isr: tuple[BrokerId, ...]) -> None:
        self._changes.append(("became leader", name, {"leader_epoch": leader_epoch, "isr": list(isr)}))

    def became_follower(self, name: TopicPartition, leader_epoch: int, leader: BrokerId) -> None:
        self._changes.append(("became follower", name, {"leader": leader, "leader_epoch": leader_epoch}))

    def write(self) -> None:
        """Write the lines; due at the end of each command."""
        changes, self._changes = self._changes, []
        if len(changes) <= LINES_MAX:
            for event, name, fields in changes:
                self._log.info(event, partition=str(name), **fields)
            return
        leaders: dict[tuple[str, object], list[TopicPartition]] = {}
        for event, name, fields in changes:
            leaders.setdefault((event, fields.get("leader")), []).append(name)
        for (event, leader), names in leaders.items():
            more = {} if leader is None else {"leader": leader}
            self._log.info(event, partitions=len(names), first=str(names[0]), **more)


class IsrChangeLog:
    """Writes the lines of `IsrChangeLines`: a change has its line, or is counted in one, INTERVAL_MS later at most."""

    def __init__(self, log: Logger, clock: Clock, call_later: CallLater) -> None:
        self._log = log
        self._clock = clock
        self._call_later = call_later
        self._lines = IsrChangeLines()
        self._timer: Timer | None = None

    def changed(self, name: TopicPartition, leader: Leader, former: tuple[BrokerId, ...]) -> None:
        """The in-sync set in force is not `former` any more."""
        now_ms = self._clock.monotonic_ms()
        change = IsrChange(name, former, leader.isr, leader.partition_epoch, leader.leader_epoch)
        self._lines.add(change, now_ms)
        due_ms = self._lines.due_ms
        if due_ms is not None and self._timer is None:
            self._timer = self._call_later((due_ms - now_ms) / 1000, self.write)

    def write(self) -> None:
        """Write what is collected; due at the end of an interval, and when the broker stops."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for event, fields in self._lines.take():
            self._log.info(event, **fields)
