"""All steps from a state, with one state for those that differ only in the names of two producers.

Lines are numbered as they are found; the steps of a line are computed once for each line and shared part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model.explore import Did
from tests.model.transactions import invariants
from tests.model.transactions.clients import Clients
from tests.model.transactions.rules import Rules
from tests.model.transactions.scopes import start
from tests.model.transactions.state import MARKER, NONE, TO_COORDINATOR, Line, Marker, Request, Shared, World, replaced

BITS = 22
MASK = (1 << BITS) - 1
Numbered = tuple[int, ...]
"""The numbers of the lines, and last that of the shared part."""
LineStep = tuple[Did, Line, Shared]


class Numbers:
    """Values by number."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            assert number <= MASK
            self.values.append(value)
        return number


class Space:
    has_broken = False

    def __init__(self, rules: Rules, watched: frozenset[str] = invariants.ALL) -> None:
        self.rules = rules
        self.scope = rules.scope
        self.clients = Clients(rules.scope)
        self.lines = Numbers()
        self.shares = Numbers()
        self._watched = watched
        self._verdicts: dict[int, str] = {}
        self._alone: dict[tuple[int, int], list[tuple[Did, int, int]]] = {}
        self._moved: dict[tuple[int, int], int] = {}

    # Numbers and worlds.

    def first(self) -> Numbered:
        world = start(self.scope)
        return (*(self.lines.number(line) for line in world.lines), self.shares.number(world.shared))

    def world(self, numbered: Numbered) -> World:
        return World(tuple(self.lines.values[line] for line in numbered[:-1]), self.shares.values[numbered[-1]])

    def canonical(self, numbered: Numbered) -> int:
        packed = numbered[-1]
        for line in sorted(numbered[:-1]):
            packed = packed << BITS | line
        return packed

    def unpacked(self, packed: int) -> Numbered:
        lines = []
        for _ in range(self.scope.ids):
            lines.append(packed & MASK)
            packed >>= BITS
        return (*lines, packed)

    def broken(self, numbered: Numbered) -> str:
        return next((law for line in numbered[:-1] if (law := self._verdict(line))), "")

    def broken_by_step(self, before: Numbered, after: Numbered) -> str:
        return ""

    def _verdict(self, line: int) -> str:
        verdict = self._verdicts.get(line)
        if verdict is None:
            verdict = invariants.broken_in(self.lines.values[line], self.scope, self._watched)
            self._verdicts[line] = verdict
        return verdict

    # Possible steps.

    def steps(self, numbered: Numbered) -> Iterator[tuple[Did, Numbered]]:
        shared = numbered[-1]
        for place, line in enumerate(numbered[:-1]):
            for did, after, shared_after in self._alone_of(line, shared):
                yield (place, *did), (*numbered[:place], after, *numbered[place + 1 : -1], shared_after)
        yield from self._moves(numbered)

    def _moves(self, numbered: Numbered) -> Iterator[tuple[Did, Numbered]]:
        shared = self.shares.values[numbered[-1]]
        lines = [self.lines.values[line] for line in numbered[:-1]]
        if shared.moves:
            moved = [self.lines.number(self.rules.moved(line, shared)) for line in lines]
            after = shared._replace(
                coordinator=1 - shared.coordinator,
                coordinator_epoch=shared.coordinator_epoch + 1,
                moves=shared.moves - 1,
            )
            yield (NONE, "moves", after.coordinator), (*moved, self.shares.number(after))
        if shared.group_moves:
            moved = [self.lines.number(self.rules.group_moved(line)) for line in lines]
            after = shared._replace(group_moves=shared.group_moves - 1)
            yield (NONE, "group moves"), (*moved, self.shares.number(after))

    def _alone_of(self, line: int, shared: int) -> list[tuple[Did, int, int]]:
        steps = self._alone.get((line, shared))
        if steps is None:
            found = self._found(self.lines.values[line], self.shares.values[shared])
            steps = [(did, self.lines.number(one), self.shares.number(other)) for did, one, other in found]
            steps = [step for step in steps if step[1:] != (line, shared)]
            self._alone[line, shared] = steps
        return steps

    def _found(self, line: Line, shared: Shared) -> Iterator[LineStep]:
        for me in range(len(line.clients)):
            for opened, request in self.clients.requests(line, shared, me):
                yield from self._sent(opened, shared, request)
            if self.scope.may_ask_ahead and shared.delays:
                yield from self._ahead(line, shared, me)
        for partition in range(self.scope.partitions + 1):
            if line.entry.pending >> partition & 1:
                yield from self._marked(line, shared, partition)
        for place, message in enumerate(line.delayed):
            rest = line._replace(delayed=line.delayed[:place] + line.delayed[place + 1 :])
            yield from self._arrived(rest, shared, message)

    def _sent(self, line: Line, shared: Shared, request: Request) -> Iterator[LineStep]:
        after, reply = self.rules.serve(line, shared, request)
        yield ("asks", request, reply), self.clients.replied(after, request, reply), shared
        if not shared.delays or request.kind not in self.scope.delayed:
            return
        fewer = shared._replace(delays=shared.delays - 1)
        late = self.clients.disconnected(_with_delayed(line, request), request.client, request.broker)
        yield ("is not answered", request), late, fewer
        given_up = self.clients.gives_up(late, request) if self.scope.may_give_up else None
        if given_up:
            yield ("gives up", request), given_up, fewer

    def _ahead(self, line: Line, shared: Shared, me: int) -> Iterator[LineStep]:
        """A client sends to the other broker, gets no answer in time, and returns to the coordinator."""
        other = shared._replace(coordinator=1 - shared.coordinator)
        for opened, request in self.clients.requests(line, other, me):
            if request.kind in TO_COORDINATOR and request.kind in self.scope.delayed:
                late = self.clients.disconnected(_with_delayed(opened, request), me, request.broker)
                yield ("asks ahead", request), late, shared._replace(delays=shared.delays - 1)

    def _marked(self, line: Line, shared: Shared, partition: int) -> Iterator[LineStep]:
        marker = self.rules.marker(line, shared, partition)
        written, is_written = self.rules.write(line, marker)
        yield ("marks", marker, is_written), self.rules.answered(written, partition), shared
        if shared.delays and MARKER in self.scope.delayed:
            links = replaced(line.entry.links, partition, marker.connection + 1)
            late = _with_delayed(line._replace(entry=line.entry._replace(links=links)), marker)
            yield ("marker is not answered", marker), late, shared._replace(delays=shared.delays - 1)

    def _arrived(self, line: Line, shared: Shared, message: Request | Marker) -> Iterator[LineStep]:
        if isinstance(message, Marker):
            written, is_written = self.rules.write(line, message)
            yield ("marker arrives", message, is_written), written, shared
            return
        after, reply = self.rules.serve(line, shared, message)
        yield ("arrives", message, reply), after, shared
        if self.scope.is_unordered and message.broker != NONE:
            newest = line.accepted[message.broker]
            line = line._replace(accepted=replaced(line.accepted, message.broker, newest + 1))
            message = message._replace(connection=newest)
            after, reply = self.rules.serve(line, shared, message)
            yield ("is accepted late", message, reply), after, shared


def _with_delayed(line: Line, message: Request | Marker) -> Line:
    return line._replace(delayed=tuple(sorted((*line.delayed, message))))
