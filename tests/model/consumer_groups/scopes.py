"""What is explored: each scope covers a part of the protocol completely."""

from __future__ import annotations

from typing import NamedTuple

from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from tests.model.consumer_groups.state import GROUP_ID, OUT, Client, Coordinator, Shared, World


class Scope(NamedTuple):
    """Two members and one topic. How often a thing may happen; an answer may be lost at any time."""

    name: str
    partitions: int = 3
    joins: int = 3
    """Of both members, the first ones included: a member that has left joins again under its id."""
    leaves: int = 1
    """Members that leave, or vanish without a word."""
    restarts: int = 0
    """Members that abandon everything and join again, without leaving."""
    fences: int = 1
    """Session or rebalance timeouts of members that are alive."""
    moves: int = 1
    """The coordinator moves: the group is folded from its records."""
    delays: int = 0
    """Heartbeats that are delayed on a connection which the client abandons: they arrive later, or never."""
    moves_back: bool = False
    """A move of the coordinator leads away and back at once: what is delayed arrives at it after the loading."""
    delayed_commits: int = 0
    growths: int = 0
    """Partitions that are added to the topic, one at a time."""
    is_offloaded: bool = False
    """Targets are computed beside the coordinator's other work."""


PLAIN = Scope("a fence and a move")
RESTARTED = Scope("a member joins again at any time", leaves=0, joins=2, restarts=1)
OFFLOADED = Scope("targets are computed beside", is_offloaded=True, fences=0)
GROWN = Scope("a topic grows", partitions=2, growths=1, leaves=0, joins=2)
COMMITTED = Scope("a commit is delayed", delayed_commits=1)
DELAYED = Scope("a heartbeat is delayed", delays=1, joins=2, leaves=0)
TWO_DELAYED = Scope("two heartbeats are delayed", delays=2, joins=2, leaves=0)
LATE_LEAVE = Scope("a member leaves late, and joins again", delays=1, moves=0, fences=0)
RETURNED = DELAYED._replace(
    name="a heartbeat is delayed until the coordinator has moved away and back", moves_back=True
)
"""Here laws are broken (`variants.py`)."""
SCOPES = (PLAIN, RESTARTED, OFFLOADED, GROWN, COMMITTED, DELAYED, LATE_LEAVE)
LARGER = (
    Scope("two fences, two moves", fences=2, moves=2),
    Scope("members come and go", joins=4, leaves=2, restarts=1),
    TWO_DELAYED,
    Scope("everything once", restarts=1, growths=1, partitions=2, is_offloaded=True),
)
"""To be explored by name: minutes each."""


def start(scope: Scope) -> World:
    """A topic, and two clients that have not joined."""
    shared = Shared(
        scope.joins,
        scope.leaves,
        scope.restarts,
        scope.fences,
        scope.moves,
        scope.delays,
        scope.growths,
        scope.partitions,
    )
    return World(Coordinator(ConsumerGroup(GROUP_ID), ()), (Client(OUT), Client(OUT)), shared)
