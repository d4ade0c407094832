"""Bugs planted into the rules, each to be found by the harm that it does. A bug's docstring states it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sordini.broker.coordinators.newest_connection import NewestConnections
from tests.model.explore import Explored, explore
from tests.model.transactions import invariants, state
from tests.model.transactions.rules import OK, Rules, Served
from tests.model.transactions.scopes import GIVEN_UP, GROUP_MOVED, MOVED, ONE, SUCCESSOR, THREE, Scope
from tests.model.transactions.space import Space
from tests.model.transactions.state import NONE, Line, Marker, Memory, Partition, Request

WORLDS_MAX = 400_000
MOVED_PLAIN = MOVED._replace(has_offsets=False, delays=1)

SINGLE = ONE._replace(delays=1)


class Bug(NamedTuple):
    rules: type[Rules]
    what: str
    scope: Scope


BUGS: dict[str, Bug] = {}


def bug(scope: Scope) -> Callable[[type[Rules]], type[Rules]]:
    """Register rules by name."""

    def enter(rules: type[Rules]) -> type[Rules]:
        name = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in rules.__name__).strip()
        BUGS[name] = Bug(rules, " ".join((rules.__doc__ or "").split()), scope)
        return rules

    return enter


def found(name: str, worlds_max: int = WORLDS_MAX) -> Explored:
    """The shortest trace on which a bug does harm; `broken` is empty if it does none within `worlds_max` states."""
    rules, _, scope = BUGS[name]
    return explore(Space(rules(scope), invariants.HARM), worlds_max)


# The comparison.


@bug(SINGLE)
class TheConnectionBeforeIsAdmitted(Rules):
    """A connection one older than the newest is admitted, and the newest stays."""

    class connections_type(NewestConnections):  # noqa: N801 - takes the place of an attribute.
        __slots__ = ()

        def admit(self, key: str, connection: int, *, is_init: bool = False) -> bool:
            return super().admit(key, connection, is_init=is_init) or super().admit(key, connection + 1)


@bug(THREE._replace(has_offsets=False))
class ARefusedConnectionIsRemembered(Rules):
    """A refused request counts as the newest: the next one on its connection is admitted."""

    def serve(self, line: Line, shared: state.Shared, request: Request) -> Served:
        after, reply = super().serve(line, shared, request)
        if request.broker == NONE or after.memories[request.broker].newest == NONE:
            return after, reply
        memory = after.memories[request.broker]._replace(newest=request.connection)
        return after._replace(memories=state.replaced(after.memories, request.broker, memory)), reply


@bug(SINGLE)
class TheFirstConnectionIsKept(Rules):
    """What is remembered is the first connection, not the newest."""

    def admit(self, memory: Memory, connection: int, *, is_init: bool = False) -> Memory | None:
        admitted = super().admit(memory, connection, is_init=is_init)
        return memory if admitted and memory.newest != NONE else admitted


# Where the rule applies.


@bug(SINGLE)
class OnlyEndTxnIsGuarded(Rules):
    """AddPartitionsToTxn and AddOffsetsToTxn are served on any connection."""

    def guards(self, request: Request) -> bool:
        return request.kind in (state.END, state.OFFSETS)


@bug(SINGLE)
class EndTxnIsNotGuarded(Rules):
    """EndTxn is served on any connection."""

    def guards(self, request: Request) -> bool:
        return request.kind != state.END


@bug(SINGLE)
class TheGroupCoordinatorHasNoMemory(Rules):
    """TxnOffsetCommit is served on any connection."""

    def guards(self, request: Request) -> bool:
        return request.kind != state.OFFSETS


# What is kept.


@bug(MOVED_PLAIN)
class TheMemoryIsLostWithItsPartition(Rules):
    """A coordinator begins with nothing remembered and no floor when its partition is loaded again."""

    def loaded(self, memory: Memory, accepted: int) -> Memory:
        return Memory(NONE, 0)


@bug(MOVED_PLAIN)
class TheFloorIsOneTooLow(Rules):
    """The floor is the last connection that was accepted, not the one that will be."""

    def loaded(self, memory: Memory, accepted: int) -> Memory:
        return Memory(NONE, max(accepted - 1, 0))


@bug(GROUP_MOVED)
class TheGroupCoordinatorHasNoFloor(Rules):
    """The group coordinator begins with nothing remembered and no floor when its partition is loaded again."""

    def group_moved(self, line: Line) -> Line:
        memory = Memory(NONE, 0)
        return line._replace(memories=state.replaced(line.memories, state.GROUP, memory))


# The checks beside it.


@bug(GIVEN_UP)
class NoVerification(Rules):
    """A leader appends the first record of a transaction without the coordinator's word (before KIP-890 part 1)."""

    def verify(self, line: Line, request: Request) -> str:
        return OK


@bug(SINGLE)
class NoSequenceCheck(Rules):
    """A leader appends a batch with a sequence that it has."""

    def is_seen(self, sequence: int, following: int) -> bool:
        return False


@bug(MOVED._replace(has_offsets=False, moves=1, delayed=frozenset({state.MARKER})))
class MarkersOfAFormerCoordinator(Rules):
    """A leader writes markers of a lower coordinator epoch than the last one."""

    def is_of_former_coordinator(self, marker: Marker, partition: Partition) -> bool:
        return False


@bug(SINGLE)
class MarkersOnAnyConnection(Rules):
    """A leader writes markers of the newest coordinator epoch, on whatever connection they come."""

    def is_marker_admitted(self, newest: int, connection: int) -> bool:
        return True


@bug(SUCCESSOR)
class NoProducerEpochAtTheCoordinator(Rules):
    """The coordinator serves requests of a producer that has a successor."""

    def is_fenced(self, epoch: int, known: int) -> bool:
        return False
