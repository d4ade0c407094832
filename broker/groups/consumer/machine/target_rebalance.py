"""A rebalance that is a target assignment, while it is in progress: of groups whose coordinator assigns partitions.

Consumer groups (KIP-848) and share groups (KIP-932) have these. A rebalance begins with the first cause that raised the
group epoch since the last target. Pure.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.groups.consumer.machine.events import Now
from sordini.broker.groups.machine.partition_moves import MOVES_MAX, Move
from sordini.broker.groups.machine.rebalance_history import (
    CAUSES_MAX,
    ENTRY_BYTES,
    ROW_BYTES,
    CauseEntry,
    MemberEntry,
    Rebalance,
    cause_cost,
    move_cost,
)

PENDING_MAX: Final = 100
"""Group epochs without a target whose causes are kept apart; those of later ones are added to the last."""


class Causes:
    """Why the group epoch was raised, since the last target or before it."""

    __slots__ = ("began", "epoch", "omitted", "rows", "size")

    def __init__(self, epoch: int, began: Now) -> None:
        self.began = began
        self.epoch = epoch
        """The group epoch that the first of them raised."""
        self.rows: list[CauseEntry] = []
        self.omitted = 0
        self.size = ENTRY_BYTES

    def add(self, entry: CauseEntry) -> None:
        if len(self.rows) < CAUSES_MAX:
            self.rows.append(entry)
            self.size += cause_cost(entry)
        else:
            self.omitted += 1


class PendingCauses:
    """Of the group epochs without a target, oldest first; the last one takes what exceeds `PENDING_MAX`."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[Causes] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(causes.size for causes in self._parts)

    def add(self, epoch: int, now: Now, entry: CauseEntry) -> None:
        if len(self._parts) < PENDING_MAX and not (self._parts and self._parts[-1].epoch == epoch):
            self._parts.append(Causes(epoch, now))
        self._parts[-1].add(entry)

    def take(self, epoch: int, now: Now) -> Causes:
        """Those up to a group epoch, whose target was computed now; they are not pending any more."""
        due = [causes for causes in self._parts if causes.epoch <= epoch]
        self._parts = self._parts[len(due) :]
        return _joined(due) if due else Causes(epoch, now)

    def all(self) -> Causes:
        """All of them; there must be one."""
        return _joined(self._parts)

    def clear(self) -> None:
        self._parts = []


class Moves:
    """At most `MOVES_MAX`; others are counted."""

    __slots__ = ("omitted", "rows", "size")

    def __init__(self) -> None:
        self.rows: list[Move] = []
        self.omitted = 0
        self.size = 0
        """Bytes, about."""

    def add(self, move: Move) -> None:
        if len(self.rows) < MOVES_MAX:
            self.rows.append(move)
            self.size += move_cost(move)
        else:
            self.omitted += 1

    def add_all(self, others: Moves) -> None:
        self.omitted += others.omitted
        for move in others.rows:
            self.add(move)


class TargetRebalance:
    """The target that members are on their way to."""

    __slots__ = ("assignor", "causes", "epoch", "epoch_before", "moves", "reached_ms")

    def __init__(self, causes: Causes, epoch_before: int, epoch: int, assignor: str | None) -> None:
        self.causes = causes
        self.epoch_before = epoch_before
        self.epoch = epoch
        self.assignor = assignor
        self.moves = Moves()
        self.reached_ms: dict[str, int] = {}
        """Member id -> how long after the beginning it had reached the target."""

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self.causes.size + self.moves.size + ROW_BYTES * len(self.reached_ms)

    def reached(self, member_id: str, now: Now) -> None:
        """A member has the target."""
        self.reached_ms[member_id] = self.duration_ms(now)

    def duration_ms(self, now: Now) -> int:
        """Since the first cause."""
        return now.monotonic_ms - self.causes.began.monotonic_ms

    def entry(self, members: tuple[MemberEntry, ...], members_omitted: int) -> Rebalance:
        """As one that has not ended, with the members of the group."""
        return Rebalance(
            self.causes.began.wall_ms,
            -1,
            -1,
            self.epoch_before,
            self.epoch,
            self.assignor,
            tuple(self.causes.rows),
            self.causes.omitted,
            members,
            members_omitted,
            partitions_known=True,
            moves=tuple(self.moves.rows),
            moves_omitted=self.moves.omitted,
        )


def _joined(parts: list[Causes]) -> Causes:
    """The causes of several group epochs."""
    whole = Causes(parts[0].epoch, parts[0].began)
    for part in parts:
        whole.omitted += part.omitted
        for entry in part.rows:
            whole.add(entry)
    return whole
