"""Who leads next: an election is one expression over assignment, in-sync set and live brokers.

It walks the assignment in its order, so the preferred replica wins where it may. None means nobody can.
`judge` is what is to be said when somebody asks for an election (KIP-183, KIP-460).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import assert_never

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import PartitionState


class ElectionType(IntEnum):
    """What is asked for, by its number on the wire."""

    PREFERRED = 0
    """The preferred replica shall lead, if it may."""
    UNCLEAN = 1
    """Where nobody leads, any live replica may, though it may lack acknowledged records."""


NO_WINNER_CODES = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
"""What is said when nobody can win."""


def offline(
    assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId], *, unclean: bool = False
) -> BrokerId | None:
    """After the leader was lost. `unclean` lets a replica lead that may lack acknowledged records."""
    in_sync = next((r for r in assignment if r in live and r in isr), None)
    return next((r for r in assignment if r in live), None) if in_sync is None and unclean else in_sync


def preferred(assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId]) -> BrokerId | None:
    """The first replica of the assignment and no other, if it is alive and in sync."""
    first = assignment[0]
    return first if first in live and first in isr else None


def judge(
    election: ElectionType, assignment: Sequence[BrokerId], state: PartitionState, live: Collection[BrokerId]
) -> BrokerId | ErrorCode:
    """The broker that wins the election asked for, or the code that says why there is none."""
    match election:
        case ElectionType.PREFERRED:
            if state.leader == assignment[0]:
                return ErrorCode.ELECTION_NOT_NEEDED
            winner = preferred(assignment, state.isr, live)
        case ElectionType.UNCLEAN:
            if state.leader is not None and state.leader in live:
                return ErrorCode.ELECTION_NOT_NEEDED
            winner = offline(assignment, state.isr, live, unclean=True)
        case _:
            assert_never(election)
    return NO_WINNER_CODES[election] if winner is None else winner
