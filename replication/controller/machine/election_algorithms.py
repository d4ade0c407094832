"""The leader elections: each is one expression over assignment, in-sync set and live brokers.

An election takes the first eligible replica in the order of the assignment, so the preferred replica comes first. None
means that no replica is eligible. `elect_requested` answers a request for an election (KIP-183, KIP-460).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import assert_never

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import PartitionState


class ElectionType(IntEnum):
    """The election type of a request, by its number on the wire."""

    PREFERRED = 0
    """Elects the preferred replica, if it is eligible."""
    UNCLEAN = 1
    """Elects any live replica of a partition without a leader, although it may lack acknowledged records."""


NO_WINNER_CODES = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
"""The error code of an election without an eligible replica."""


def elect_offline(
    assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId], *, unclean: bool = False
) -> BrokerId | None:
    """The election of an offline partition. `unclean` allows a replica that may lack acknowledged records."""
    in_sync = next((r for r in assignment if r in live and r in isr), None)
    return next((r for r in assignment if r in live), None) if in_sync is None and unclean else in_sync


def elect_preferred(
    assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId]
) -> BrokerId | None:
    """The first replica of the assignment and no other, if it is live and in sync."""
    first = assignment[0]
    return first if first in live and first in isr else None


def elect_requested(
    election: ElectionType, assignment: Sequence[BrokerId], state: PartitionState, live: Collection[BrokerId]
) -> BrokerId | ErrorCode:
    """The broker that wins the requested election, or the error code of the response."""
    match election:
        case ElectionType.PREFERRED:
            if state.leader == assignment[0]:
                return ErrorCode.ELECTION_NOT_NEEDED
            winner = elect_preferred(assignment, state.isr, live)
        case ElectionType.UNCLEAN:
            if state.leader is not None and state.leader in live:
                return ErrorCode.ELECTION_NOT_NEEDED
            winner = elect_offline(assignment, state.isr, live, unclean=True)
        case _:
            assert_never(election)
    return NO_WINNER_CODES[election] if winner is None else winner
