"""What a state of the transactional model is: one line for each transactional id, and what all ids share.

Ids have no influence on each other but by the moves of their coordinator and by the bound on delayed messages. So a
state is a line for each id and the shared part, a line's steps are computed once for each distinct line, and of the
states that differ only in the names of two equal producers one is explored. For the same reason connections are counted
for each id: only their order within an id, and whether one was accepted before a partition was loaded, is compared.

Everything is a tuple of small numbers. A transaction of a client is known by its number (`tag`), and what it writes to
a partition by that number, too: a record, or an offset.
"""

from __future__ import annotations

from typing import NamedTuple

NONE = -1

BROKER_X, BROKER_Y, GROUP = range(3)
"""Brokers whose connections are numbered: two that can be transaction coordinator, and the group coordinator."""

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT = range(6)
STATE_NAMES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
PREPARED = (PREPARE_COMMIT, PREPARE_ABORT)
COMPLETE = {PREPARE_COMMIT: COMPLETE_COMMIT, PREPARE_ABORT: COMPLETE_ABORT}

COMMIT, ABORT = 1, 2
"""Outcomes: what a client asks for, and what it was answered."""

UNWRITTEN, OPEN, COMMITTED, ABORTED, TWICE = range(5)
"""What became of a write. TWICE: it was appended a second time."""

INIT, ADD, PRODUCE, ADD_OFFSETS, OFFSETS, END, MARKER = (
    "InitProducerId",
    "AddPartitionsToTxn",
    "Produce",
    "AddOffsetsToTxn",
    "TxnOffsetCommit",
    "EndTxn",
    "WriteTxnMarkers",
)
TO_COORDINATOR = frozenset({INIT, ADD, ADD_OFFSETS, END})


class Request(NamedTuple):
    """A client's request."""

    kind: str
    client: int
    tag: int
    """The transaction it was sent in. No broker reads it."""
    broker: int
    """BROKER_X, BROKER_Y or GROUP; NONE: the leader of the partition."""
    connection: int
    epoch: int
    """The producer epoch; NONE in an InitProducerId of a producer that starts."""
    partition: int = NONE
    sequence: int = NONE
    outcome: int = NONE


class Marker(NamedTuple):
    """A WriteTxnMarkers for one partition."""

    kind: str
    partition: int
    connection: int
    """Which of the connections of this coordinator to the leader, counted from 0."""
    coordinator_epoch: int
    epoch: int
    outcome: int
    tag: int
    """As in the entry. No broker reads it."""


class Client(NamedTuple):
    at: int
    """The index of its next request: transaction * requests of a transaction + request."""
    outcome: int
    """What it asks for at the end of this transaction, once it has asked; NONE before."""
    epoch: int
    """NONE: it needs an InitProducerId first."""
    former: int
    """The epoch that it had before that InitProducerId; NONE: it starts."""
    since: int
    """The transaction with which its epoch began: sequences count from there."""
    bumps: bool
    """It gives up a sequence, and needs a new epoch after this transaction."""
    connections: tuple[int, ...]
    """To the brokers; NONE: to be opened with the next request."""
    answers: tuple[int, ...]
    """How each of its transactions ended, as it was answered; NONE: not yet."""
    is_failed: bool


class Entry(NamedTuple):
    """The coordinator's state of a transactional id, as it is in its log."""

    state: int
    epoch: int
    last: int
    """The epoch before, if the client has named it in an InitProducerId (KIP-360)."""
    partitions: int
    """A mask; the partition of the offsets is the last."""
    pending: int
    """Those whose marker is not answered."""
    tag: int
    """The transaction that its client was in when it sent the request that began it, and once it is prepared, that
    which ended it (NONE: an InitProducerId). No broker reads it."""
    links: tuple[int, ...]
    """The coordinator's connection to each leader."""


class Memory(NamedTuple):
    """What a `NewestConnections` has for this id."""

    newest: int
    floor: int


class Partition(NamedTuple):
    """A partition's producer state for this id."""

    epoch: int
    sequence: int
    """The next one."""
    coordinator_epoch: int
    """Of the last marker."""
    link: int
    """The newest connection of a marker in that coordinator epoch."""
    fates: tuple[int, ...]
    """What became of the write of each transaction."""


class Offsets(NamedTuple):
    """The partition of the offsets: by key (a partition that is consumed), the transaction that wrote the offset."""

    partition: Partition
    """Its fates are final ones; what is pending is here."""
    pending: tuple[int, ...]
    is_foreign: bool
    """An offset was committed by another transaction than its own."""


class Line(NamedTuple):
    clients: tuple[Client, ...]
    entry: Entry
    data: tuple[Partition, ...]
    offsets: Offsets
    memories: tuple[Memory, ...]
    """At BROKER_X, BROKER_Y and GROUP."""
    accepted: tuple[int, ...]
    """Connections accepted there."""
    delayed: tuple[Request | Marker, ...]
    """Messages on abandoned connections: each may arrive at any time or never. Sorted."""


class Shared(NamedTuple):
    coordinator: int
    coordinator_epoch: int
    moves: int
    """How often the transaction coordinator may move still."""
    group_moves: int
    delays: int
    """How many messages may be delayed still."""


class World(NamedTuple):
    lines: tuple[Line, ...]
    shared: Shared


def replaced(values: tuple, place: int, value: object) -> tuple:
    return (*values[:place], value, *values[place + 1 :])
