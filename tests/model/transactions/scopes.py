"""What is explored: each scope covers a part of the protocol completely."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.transactions import state
from tests.model.transactions.state import (
    NONE,
    UNWRITTEN,
    Client,
    Entry,
    Line,
    Memory,
    Offsets,
    Partition,
    Shared,
    World,
)

EVERY_KIND = frozenset(
    {state.INIT, state.ADD, state.PRODUCE, state.ADD_OFFSETS, state.OFFSETS, state.END, state.MARKER}
)


class Scope(NamedTuple):
    name: str
    ids: int = 1
    """Transactional ids, of one producer each."""
    has_successor: bool = False
    """A second client starts with the id of the first at any time; the first goes on as long as it is served."""
    transactions: int = 2
    """Of each client."""
    partitions: int = 2
    """Data partitions that each transaction writes to, a record each."""
    has_offsets: bool = True
    offset_keys: int = 1
    """Partitions that are consumed. Transaction t commits an offset of partition t modulo this."""
    delays: int = 1
    """How many messages are delayed on a connection that is abandoned: client's requests and markers together."""
    delayed: frozenset[str] = EVERY_KIND
    moves: int = 0
    """Of the transaction coordinator: from broker X to Y, and back."""
    group_moves: int = 0
    """Of the group coordinator: to another broker and back, in one step."""
    may_give_up: bool = False
    """A client that gets no answer may abort the transaction instead of sending the request again; after a Produce it
    takes a new epoch then (KIP-360)."""
    may_ask_ahead: bool = False
    """A client may send to the broker that is not the coordinator (yet), by old metadata, and return."""
    is_unordered: bool = False
    """An abandoned connection may be accepted later than those opened after it."""

    @property
    def program(self) -> tuple[tuple[str, int], ...]:
        """The requests of a transaction, with their partitions."""
        data = [(kind, partition) for partition in range(self.partitions) for kind in (state.ADD, state.PRODUCE)]
        offsets = [(state.ADD_OFFSETS, self.partitions), (state.OFFSETS, self.partitions)] if self.has_offsets else []
        return (*data, *offsets, (state.END, NONE))


ONE = Scope("one producer, two delays", delays=2)
MOVED = Scope("the transaction coordinator moves away and back", partitions=1, delays=2, moves=2)
AHEAD = Scope("requests to a broker before it is coordinator", partitions=1, delays=2, moves=2, may_ask_ahead=True)
GROUP_MOVED = Scope("the group coordinator moves", partitions=1, delays=2, group_moves=1)
GIVEN_UP = Scope("clients give up a request and abort", partitions=1, offset_keys=2, delays=2, may_give_up=True)
THREE = Scope("three delays", partitions=1, delays=3)
TWO = Scope("two producers", ids=2, partitions=1, delays=2)
TWO_MOVED = Scope("two producers, and the coordinator moves", ids=2, partitions=1, has_offsets=False, moves=2)
SUCCESSOR = Scope("a producer and its successor", has_successor=True, partitions=1)
SUCCESSOR_TWICE = SUCCESSOR._replace(name="a producer and its successor, two delays", has_offsets=False, delays=2)
SUCCESSOR_MOVED = SUCCESSOR._replace(
    name="a producer and its successor, and the coordinator moves", has_offsets=False, moves=1
)
SUCCESSOR_RETURNED = SUCCESSOR_MOVED._replace(
    name="a producer and its successor, one transaction each, and the coordinator moves away and back",
    transactions=1,
    moves=2,
)
SCOPES = (
    ONE,
    THREE,
    MOVED,
    AHEAD,
    GROUP_MOVED,
    GIVEN_UP,
    TWO,
    TWO_MOVED,
    SUCCESSOR,
    SUCCESSOR_TWICE,
    SUCCESSOR_MOVED,
    SUCCESSOR_RETURNED,
)


def start(scope: Scope) -> World:
    """Producers with their first epoch, before their first transaction; a successor without an epoch."""
    tags = scope.transactions * (2 if scope.has_successor else 1)
    answers = (NONE,) * scope.transactions
    first = Client(0, NONE, 0, NONE, 0, bumps=False, connections=(NONE,) * 3, answers=answers, is_failed=False)
    clients = (first, first._replace(epoch=NONE)) if scope.has_successor else (first,)
    partition = Partition(0, 0, 0, NONE, (UNWRITTEN,) * tags)
    line = Line(
        clients,
        Entry(state.EMPTY, 0, NONE, 0, 0, NONE, (0,) * (scope.partitions + 1)),
        (partition,) * scope.partitions,
        Offsets(partition, (NONE,) * scope.offset_keys, is_foreign=False),
        (Memory(NONE, 0),) * 3,
        (0, 0, 0),
        (),
    )
    return World((line,) * scope.ids, Shared(state.BROKER_X, 0, scope.moves, scope.group_moves, scope.delays))
