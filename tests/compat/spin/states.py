"""States in which a client library requests something again and again, and what it does in each.

A state holds as long as the test does: topics are deleted, made again, of another broker, or refused, and coordinators
have no leader. Every client library is in all of them at once, each with a client id of its own.
"""

from __future__ import annotations

from typing import Final, NamedTuple

QUIET, DOOMED, AGAIN, SECRET, ELSEWHERE, NOWHERE = "quiet", "doomed", "again", "secret", "elsewhere", "nowhere"
GROUP_PARTITIONS: Final = 2
"""Of __consumer_offsets: the first one has a leader, the second one has none."""


class State(NamedTuple):
    """`kind` is what the client does: assign, subscribe, produce, or transact."""

    name: str
    kind: str
    topics: tuple[str, ...] = ()
    id: str = ""
    """The group or the transactional id."""


def _partition_of(group: str) -> int:
    """As brokers choose the partition of __consumer_offsets: by Java's hash of the name."""
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % GROUP_PARTITIONS


def group_in(partition: int, name: str) -> str:
    """A group of that name whose coordinator is that partition's leader."""
    return next(one for one in (f"{name}-{number}" for number in range(100)) if _partition_of(one) == partition)


def states(client: str) -> list[State]:
    """All states of one client library; its groups are its own."""
    return [
        State("idle", "assign", (QUIET,)),
        State("deleted", "assign", (QUIET, DOOMED)),
        State("only a deleted one", "assign", (DOOMED,)),
        State("made again", "assign", (QUIET, AGAIN)),
        State("unknown topic", "assign", (QUIET, NOWHERE)),
        State("unauthorised", "assign", (QUIET, SECRET)),
        State("no leader", "assign", (QUIET, ELSEWHERE)),
        State("subscribed to a deleted topic", "subscribe", (QUIET, DOOMED), group_in(0, client)),
        State("subscribed to an unauthorised topic", "subscribe", (QUIET, SECRET), group_in(0, f"{client}-secret")),
        State("no group coordinator", "subscribe", (QUIET,), group_in(1, client)),
        State("produce to an unknown topic", "produce", (NOWHERE,)),
        State("produce to an unauthorised topic", "produce", (SECRET,)),
        State("produce without a leader", "produce", (ELSEWHERE,)),
        State("no transaction coordinator", "transact", (QUIET,), client),
    ]


JOIN_GROUP, HEARTBEAT, OFFSET_FETCH, LIST_OFFSETS, PRODUCE = 11, 12, 9, 2, 0
HELD: Final = {
    "group loading": {JOIN_GROUP: 14},
    "offsets loading": {OFFSET_FETCH: 14},
    "not the coordinator": {JOIN_GROUP: 16},
    "member unknown": {JOIN_GROUP: 25},
    "rebalance in progress": {HEARTBEAT: 27},
    "generation over": {HEARTBEAT: 22},
    "offsets not available": {LIST_OFFSETS: 78},
    "not the leader": {PRODUCE: 6},
}
"""States that a broker leaves by itself: the errors of APIs in them (COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, ...)."""


def held_states(client: str) -> list[State]:
    """One library in each of them."""
    found = []
    for number, (name, errors) in enumerate(HELD.items()):
        if PRODUCE in errors:
            found.append(State(name, "produce", (QUIET,)))
        elif LIST_OFFSETS in errors:
            found.append(State(name, "assign", (QUIET,)))
        else:
            found.append(State(name, "subscribe", (QUIET,), group_in(0, f"{client}-{number}")))
    return found
