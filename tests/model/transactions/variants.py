"""Rules and surroundings in which transactions are harmed: what a broker without the rule does, and where it ends.

The first group has no memory of connections, and in each one kind of message is delayed: the anomalies that are known of
Apache Kafka with clients below KIP-890 part 2. The second group has the rule without one of its parts. The last is
what remains with all of it.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.model.explore import Explored, explore
from tests.model.transactions import invariants, state
from tests.model.transactions.rules import Rules
from tests.model.transactions.scopes import AHEAD, GIVEN_UP, ONE, Scope
from tests.model.transactions.space import Space
from tests.model.transactions.state import NONE, Memory, Request

WORLDS_MAX = 400_000


class WithoutTheRule(Rules):
    """No coordinator remembers a connection. Markers are ordered by connection, as with the rule."""

    def guards(self, request: Request) -> bool:
        return False


class MarkersByEpochsAlone(Rules):
    """A leader writes a marker of the newest coordinator epoch, on whatever connection it comes."""

    def is_marker_admitted(self, newest: int, connection: int) -> bool:
        return True


class AFloorOfTheUnloadOnly(Rules):
    """The floor is the count of connections when the partition was unloaded, 0 at the first load."""

    def unloaded(self, memory: Memory, accepted: int) -> Memory:
        return Memory(NONE, accepted)

    def loaded(self, memory: Memory, accepted: int) -> Memory:
        return memory


class AbortsChangeNoMemory(Rules):
    """The group coordinator remembers connections by TxnOffsetCommit only, whatever markers it writes."""

    def aborted(self, memory: Memory, accepted: int) -> Memory:
        return memory


class Variant(NamedTuple):
    rules: type[Rules]
    scope: Scope
    watched: frozenset[str]
    what: str


def _one(*delayed: str, **changes: object) -> Scope:
    return ONE._replace(delays=1, delayed=frozenset(delayed), **changes)


END = _one(state.END, has_offsets=False)
OPENINGS = _one(state.ADD, partitions=1, has_offsets=False)
OFFSETS = _one(state.OFFSETS, partitions=0)
COORDINATED = frozenset({state.ADD, state.ADD_OFFSETS, state.END})
"""Requests that find the coordinator to be moved."""

VARIANTS: dict[str, Variant] = {
    "without the rule, a delayed EndTxn commits what is aborted": Variant(
        WithoutTheRule, END, frozenset({invariants.ABORTED_READ}), "an aborted read"
    ),
    "without the rule, a delayed EndTxn loses what is committed": Variant(
        WithoutTheRule, END, frozenset({invariants.LOST}), "a lost write"
    ),
    "without the rule, a delayed EndTxn tears a transaction": Variant(
        WithoutTheRule, END, frozenset({invariants.TORN}), "a torn transaction"
    ),
    "without the rule, a delayed AddPartitionsToTxn begins a transaction that hangs": Variant(
        WithoutTheRule, OPENINGS, frozenset({invariants.HANGING}), "a hanging transaction"
    ),
    "without the rule, a delayed TxnOffsetCommit is committed by the next transaction": Variant(
        WithoutTheRule, OFFSETS, frozenset({invariants.FOREIGN}), "offsets go back"
    ),
    "markers ordered by epochs alone": Variant(
        MarkersByEpochsAlone,
        _one(state.MARKER, has_offsets=False),
        invariants.HARM,
        "a marker of the same coordinator epoch, sent twice, ends the next transaction on one partition",
    ),
    "a floor of the unload only": Variant(
        AFloorOfTheUnloadOnly,
        AHEAD._replace(moves=1, has_offsets=False, delayed=COORDINATED),
        invariants.HARM,
        "a request to a broker that was never coordinator arrives when it is",
    ),
    "aborts change no memory": Variant(
        AbortsChangeNoMemory,
        GIVEN_UP._replace(delays=1, partitions=0),
        frozenset({invariants.FOREIGN}),
        "a client that gave up its TxnOffsetCommit has used no newer connection",
    ),
    "connections accepted out of order, an EndTxn": Variant(
        Rules, END._replace(is_unordered=True), invariants.HARM, "what remains"
    ),
    "connections accepted out of order, a TxnOffsetCommit": Variant(
        Rules, OFFSETS._replace(is_unordered=True), invariants.HARM, "what remains"
    ),
}


def found(name: str) -> Explored:
    """The shortest trace on which a variant does the harm that it is known for."""
    rules, scope, watched, _ = VARIANTS[name]
    return explore(Space(rules(scope), watched), WORLDS_MAX)
