"""What a state of the model of consumer groups is: the coordinator, two clients, and what is on the way between them.

The coordinator's group is the product's own value, with the records that it has written, the last of each key. Clocks
stand still: a deadline passes in a step of its own, whenever it runs. Everything else is a tuple of small numbers.

What no broker and no client reads is kept beside, for the laws: whether a client was removed from the group since it was
answered last (`is_void`), and whether a delayed commit was overtaken by another owner (`is_over`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sordini.broker.groups.consumer.machine.changes import Change
from sordini.broker.groups.consumer.machine.state import ConsumerGroup
from sordini.broker.groups.consumer.member_connections import NO_CONNECTION
from sordini.protocol.types import TopicId

NAMES = ("A", "B")
"""Member ids."""
TOPIC, TOPIC_ID = "t", TopicId(bytes(range(16)))
GROUP_ID = "g"

OUT, JOINING, IN = range(3)
"""Phases of a client: no member, sends joins, has an epoch."""
NOTHING: frozenset[int] = frozenset()

JOIN, LEAVE, HEARTBEAT = "join", "leave", "heartbeat"


class Client(NamedTuple):
    phase: int
    epoch: int = 0
    owned: frozenset[int] = NOTHING
    """What it consumes, and commits."""
    target: frozenset[int] = NOTHING
    """The last assignment that it was sent. It has given up nothing of `owned` beyond it until it `revokes`."""
    sent: frozenset[int] | None = None
    """What it last reported to own; None: an answer is missing, and its next heartbeat says everything."""
    is_void: bool = False


class Request(NamedTuple):
    """A ConsumerGroupHeartbeat."""

    member: int
    kind: str
    epoch: int
    owned: frozenset[int] | None
    """None: as reported before."""
    is_full: bool
    """It says everything, as the first and every one after an error."""
    connection: int = 0
    """How many connections the client had abandoned with a delayed heartbeat on them when it opened this one."""


class Commit(NamedTuple):
    """A delayed OffsetCommit of one partition."""

    member: int
    epoch: int
    partition: int
    is_over: bool


class Computing(NamedTuple):
    """A target that is computed beside the coordinator's other work."""

    epoch: int
    assignor: str
    targets: tuple[tuple[str, frozenset[int]], ...]


class Shared(NamedTuple):
    """What may still happen, and what is on its way."""

    joins: int
    leaves: int
    restarts: int
    fences: int
    moves: int
    delays: int
    growths: int
    partitions: int
    """How many the topic has."""
    computing: Computing | None = None
    requests: tuple[Request, ...] = ()
    commits: tuple[Commit, ...] = ()
    connections: tuple[int, int] = (0, 0)
    """The one that each client uses. A connection that was abandoned with an answer is not followed by a new number:
    nothing is left that could come on it."""


class Coordinator(NamedTuple):
    """The group, and what of it is in the log."""

    group: ConsumerGroup
    log: tuple[Change, ...]
    newest: tuple[int, int] = (NO_CONNECTION, NO_CONNECTION)
    """The newest connection of each member, as the coordinator remembers it."""


class World(NamedTuple):
    coordinator: Coordinator
    clients: tuple[Client, Client]
    shared: Shared


def frozen(value: Any) -> Any:
    """A value that can be hashed and compared, and is equal for equal mappings."""
    if hasattr(value, "keys"):
        return tuple(sorted((key, frozen(one)) for key, one in value.items()))
    if isinstance(value, frozenset):
        return tuple(sorted(value))
    return tuple(map(frozen, value)) if isinstance(value, tuple) else value


def partitions_of(owned: Any) -> frozenset[int]:
    """The numbers of the one topic's partitions."""
    return frozenset(owned.get(TOPIC_ID, ()))
