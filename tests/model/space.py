"""All steps from a state (`World`), with one state for all that differ only in the names of the replicas.

Copies and shared states are numbered as they are found, and the steps of a replica on its own copy are computed once
for each: the deciders are called once per distinct copy, not once per state.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import product
from typing import Any

from tests.model import invariants
from tests.model.rules import Did, Rules
from tests.model.state import (
    NO_LEADER,
    RENAMINGS,
    REPLICAS,
    Answer,
    Ask,
    Command,
    Copy,
    Following,
    Leading,
    Shared,
    World,
    looks,
    renamed_copy,
    renamed_shared,
    start,
)

BITS = 20
MASK = (1 << BITS) - 1
ANSWERS_OF_THE_STORE = ("receives the grant", "is refused")
"""Answers that a leader does not get while it is cut off from the store."""
Numbered = tuple[int, int, int, int]
Step = tuple[Did, Numbered]


class Table:
    """Values by number, and their renamings by number."""

    def __init__(self, renamed: Any) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._renamed = renamed
        self._renamings: list[list[int]] = [[] for _ in RENAMINGS]

    def number(self, value: Hashable) -> int:
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            assert number <= MASK
            self.values.append(value)
            self.added(value)
            for renamings in self._renamings:
                renamings.append(-1)
        return number

    def added(self, value: Any) -> None:
        """Called with each new value."""

    def renaming(self, which: int, number: int) -> int:
        renamed = self._renamings[which][number]
        if renamed < 0:
            renamed = self.number(self._renamed(self.values[number], RENAMINGS[which]))
            self._renamings[which][number] = renamed
        return renamed


class Copies(Table):
    """Beside each copy: its form independent of replica names, and what is exposed of it."""

    def __init__(self, records: int) -> None:
        super().__init__(renamed_copy)
        self.looks: list[int] = []
        self.exposed: list[int] = []
        self.epochs: list[int] = []
        self.believed: list[int] = []
        self.proposed: list[int] = []
        self.impossible: set[int] = set()
        self._records = records
        self._looks: dict[object, int] = {}
        self.exposures: list[tuple[tuple[int, ...], int]] = []
        self._exposures: dict[tuple[tuple[int, ...], int], int] = {}

    def added(self, value: Copy) -> None:
        if not invariants.is_possible(value, self._records):
            self.impossible.add(len(self.values) - 1)
        self.looks.append(self._looks.setdefault(looks(value), len(self._looks)))
        exposure = (value.log, value.high_watermark)
        if exposure not in self._exposures:
            self._exposures[exposure] = len(self.exposures)
            self.exposures.append(exposure)
        self.exposed.append(self._exposures[exposure])
        self.epochs.append(value.epoch)
        leading = value.role if isinstance(value.role, Leading) else None
        self.believed.append(leading.isr if leading else 0)
        self.proposed.append(leading.proposed if leading else 0)


class Space:
    """The states that some rules reach."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.copies = Copies(rules.scope.records)
        self.shares = Table(renamed_shared)
        self.broken_steps: dict[tuple[int, int], str] = {}
        """Forbidden steps from one copy to another, with the law each breaks."""
        self._alone: dict[tuple[int, int], list[tuple[Did, int]]] = {}
        self._exchanged: dict[tuple[int, int, int, int], list[tuple[Did, int, int]]] = {}
        self._commanded: dict[tuple[int, int, int], list[tuple[Did, int]]] = {}
        self._restarted: dict[tuple[int, int, int], list[tuple[Did, int, int]]] = {}
        self._registered: dict[tuple[int, int, int], int] = {}
        self._granted: dict[tuple[int, int, int], tuple[int, int] | None] = {}
        self._elected: dict[int, list[tuple[Did, int]]] = {}
        self._shared_after: dict[tuple[int, int], int] = {}
        self._verdicts: dict[tuple[int, ...], str] = {}

    # Numbers and worlds.

    def first(self) -> Numbered:
        return self.numbered(start())

    def numbered(self, world: World) -> Numbered:
        a, b, c = (self.copies.number(copy) for copy in world.copies)
        return a, b, c, self.shares.number(world.shared)

    def world(self, numbered: Numbered) -> World:
        a, b, c, shared = numbered
        copies = self.copies.values
        return World((copies[a], copies[b], copies[c]), self.shares.values[shared])

    def canonical(self, numbered: Numbered) -> int:
        """One number for all states that differ only in the names of the replicas."""
        looks = self.copies.looks
        a, b, c, _ = numbered
        renamings = ORDERINGS[_order(looks[a], looks[b], looks[c])]
        if len(renamings) == 1:
            return self.packed(numbered, renamings[0])
        return min([self.packed(numbered, which) for which in renamings])

    def packed(self, numbered: Numbered, which: int) -> int:
        back, copies, shares = _BACK[which], self.copies, self.shares
        return (
            copies.renaming(which, numbered[back[0]])
            | copies.renaming(which, numbered[back[1]]) << BITS
            | copies.renaming(which, numbered[back[2]]) << 2 * BITS
            | shares.renaming(which, numbered[3]) << 3 * BITS
        )

    def unpacked(self, packed: int) -> Numbered:
        return packed & MASK, packed >> BITS & MASK, packed >> 2 * BITS & MASK, packed >> 3 * BITS

    # Possible steps.

    def broken(self, numbered: Numbered) -> str:
        """The law that is broken in a state, or an empty string."""
        copies, node = self.copies, self.shares.values[numbered[3]]
        believed = [copies.believed[number] for number in numbered[:3]]
        key = (*(copies.exposed[number] for number in numbered[:3]), node.isr, *believed)
        verdict = self._verdicts.get(key)
        if verdict is None:
            exposures = copies.exposures
            exposed = (exposures[key[0]], exposures[key[1]], exposures[key[2]])
            verdict = self._verdicts[key] = invariants.broken_in(
                exposed, node.isr, (believed[0], believed[1], believed[2])
            )
        return verdict or ("" if invariants.is_leader_in_sync(node) else invariants.LEADER_IN_SYNC)

    def broken_by_step(self, before: Numbered, after: Numbered) -> str:
        """The law that a replica broke by this step, or an empty string."""
        if not self.copies.impossible.isdisjoint(after[:3]):
            return invariants.TYPES
        for pair in zip(before[:3], after[:3], strict=True):
            if pair in self.broken_steps:
                return self.broken_steps[pair]
        return ""

    @property
    def has_broken(self) -> bool:
        """Whether `broken_by_step` has to be called."""
        return bool(self.broken_steps or self.copies.impossible)

    def steps(self, numbered: Numbered) -> Iterator[Step]:
        shared = numbered[3]
        for did, after in self._elections(shared):
            yield did, (*numbered[:3], after)
        for me in REPLICAS:
            number = numbered[me]
            is_cut = bool(self.shares.values[shared].cut >> me & 1)
            for did, after in self._alone_steps(number, me):
                if is_cut and did[0] in ANSWERS_OF_THE_STORE:
                    continue
                if self.rules.scope.is_isr_at_once and self.copies.proposed[after]:
                    yield did, _put(numbered, me, *self._at_once(after, me, shared))
                else:
                    yield did, _put(numbered, me, after, self._answered_by(shared, did))
            if is_cut:
                yield from self._returns(numbered, me)
            else:
                granted = self._grant(number, me, shared)
                if granted is not None:
                    yield ("is granted", me), _put(numbered, me, *granted)
                for did, after in self._commands(number, me, shared):
                    yield did, self._tidied(_put(numbered, me, after, shared))
                if self.rules.scope.may_be_cut and not self.shares.values[shared].cut and self.copies.believed[number]:
                    yield ("is cut off", me), _put(numbered, me, number, self._cut(shared, 1 << me))
            if self.rules.scope.may_restart:
                for did, after, node in self._restarts(number, me, shared):
                    yield did, self._tidied(_put(numbered, me, after, node))
            for other in REPLICAS:
                if other != me:
                    for did, after, theirs in self._exchanges(number, me, numbered[other], other):
                        yield did, _put(_put(numbered, me, after, shared), other, theirs, shared)

    def _cut(self, shared: int, cut: int) -> int:
        """The shared state with that replica cut off from the store."""
        return self.shares.number(self.shares.values[shared]._replace(cut=cut))

    def _returns(self, numbered: Numbered, me: int) -> Iterator[Step]:
        """A leader reaches the store again: in its session, or with a new registration."""
        number, shared = numbered[me], self._cut(numbered[3], 0)
        yield ("finds its session", me), _put(numbered, me, number, shared)
        key = (number, me, shared)
        if key not in self._registered:
            after = self.rules.registered_again(self.copies.values[number], me, self.shares.values[shared])
            self._registered[key] = self._copied(number, after)
        yield ("registers again", me), self._tidied(_put(numbered, me, self._registered[key], shared))

    def _at_once(self, number: int, me: int, shared: int) -> tuple[int, int]:
        """A leader after the answer to its proposal, and the state node then."""
        granted = self._grant(number, me, shared)
        after, shared_after = granted or (number, shared)
        reported, did = next(
            (after, did)
            for did, after in self._alone_steps(after, me)
            if did[0] in ("receives the grant", "is refused")
        )
        return reported, self._answered_by(shared_after, did)

    def _elections(self, shared: int) -> list[tuple[Did, int]]:
        found = self._elected.get(shared)
        if found is None:
            found = self._elected[shared] = []
            node: Shared = self.shares.values[shared]
            if node.epoch + 1 < self.rules.scope.epochs:
                for leader, isr in self.rules.electable(node.isr):
                    sent = (*node.sent, Command(leader, isr))
                    after = Shared(leader, node.epoch + 1, isr, 0, sent, node.cut)
                    found.append((("elects", leader, node.epoch + 1, isr), self.shares.number(after)))
        return found

    def _alone_steps(self, number: int, me: int) -> list[tuple[Did, int]]:
        found = self._alone.get((number, me))
        if found is None:
            found = self._alone[number, me] = []
            copy: Copy = self.copies.values[number]
            if isinstance(copy.role, Leading):
                for did, after in self.rules.leads(copy, me):
                    found.append((did, self._copied(number, after)))
            elif not self.rules.scope.is_exchange_at_once and copy.under_way is None and copy.role.leader != NO_LEADER:
                ask = self.rules.asks(copy)
                if ask is not None:
                    found.append((("requests", me, ask), self._copied(number, copy._replace(under_way=ask))))
            if copy.under_way is not None:
                alone = copy._replace(under_way=None)
                found.append((("loses", me), self._copied(number, alone)))
                answer = copy.under_way
                if isinstance(answer, Answer) and self.rules.is_of_this_term(answer, copy):
                    after = self.rules.takes(alone, answer)
                    found.append((("takes the answer", me, answer), self._copied(number, after)))
        return found

    def _answered_by(self, shared: int, did: Did) -> int:
        """A leader that receives its grant knows the newest version again; answers to older leaders do not change it."""
        if did[0] != "receives the grant":
            return shared
        node: Shared = self.shares.values[shared]
        if node.leader != did[1] or did[2] != node.epoch:
            return shared
        return self.shares.number(node._replace(version=0))

    def _grant(self, number: int, me: int, shared: int) -> tuple[int, int] | None:
        key = (number, me, shared)
        if key not in self._granted:
            copy: Copy = self.copies.values[number]
            node: Shared = self.shares.values[shared]
            role, granted = copy.role, None
            if (
                isinstance(role, Leading)
                and role.proposed
                and not role.is_granted
                and self.rules.grants(copy, me, node)
            ):
                after = self._copied(number, copy._replace(role=role._replace(is_granted=True)))
                granted = after, self.shares.number(node._replace(isr=role.proposed, version=1))
            self._granted[key] = granted
        return self._granted[key]

    def _commands(self, number: int, me: int, shared: int) -> list[tuple[Did, int]]:
        key = (number, me, shared)
        found = self._commanded.get(key)
        if found is None:
            found = self._commanded[key] = []
            copy: Copy = self.copies.values[number]
            for epoch, command in enumerate(self.shares.values[shared].sent):
                if command is not None and self.rules.accepts(epoch, copy):
                    after = self._without_old_answer(self.rules.commanded(copy, me, epoch, command))
                    found.append((("is commanded", me, epoch, command), self._copied(number, after)))
        return found

    def _restarts(self, number: int, me: int, shared: int) -> list[tuple[Did, int, int]]:
        key = (number, me, shared)
        found = self._restarted.get(key)
        if found is None:
            node: Shared = self.shares.values[shared]
            reported = self.shares.number(node._replace(version=0)) if node.leader == me else shared
            found = self._restarted[key] = [
                (("restarts", me, after.high_watermark), self.copies.number(after), reported)
                for after in self.rules.restarted(self.copies.values[number], me, node)
            ]
        return found

    def _exchanges(self, number: int, me: int, number_of_other: int, other: int) -> list[tuple[Did, int, int]]:
        """The effect of a request of `me` to `other`: in one step or, when that is split, the response on its way."""
        key = (number, me, number_of_other, other)
        found = self._exchanged.get(key)
        if found is None:
            found = self._exchanged[key] = []
            rules = self.rules
            copy: Copy = self.copies.values[number]
            leader: Copy = self.copies.values[number_of_other]
            ask = copy.under_way
            if rules.scope.is_exchange_at_once:
                ask = rules.asks(copy) if isinstance(copy.role, Following) and copy.role.leader == other else None
            is_asked = isinstance(ask, Ask) and ask.leader == other and isinstance(leader.role, Leading)
            if is_asked and rules.is_answered(ask, leader):
                for answer, leader_after in rules.answers(leader, other, ask, me):
                    if rules.scope.is_exchange_at_once:
                        after = rules.takes(copy, answer)
                    else:
                        after = self._without_old_answer(copy._replace(under_way=answer))
                    numbers = self._copied(number, after), self._copied(number_of_other, leader_after)
                    found.append((("exchanges", me, other, ask, answer), *numbers))
        return found

    def _without_old_answer(self, copy: Copy) -> Copy:
        """A response to a request of an earlier term is discarded, now or on arrival."""
        answer = copy.under_way
        if isinstance(answer, Answer) and not self.rules.is_of_this_term(answer, copy):
            return copy._replace(under_way=None)
        return copy

    def _copied(self, before: int, after: Copy) -> int:
        number = self.copies.number(after)
        broken = invariants.broken_by_step(self.copies.values[before], after)
        if broken:
            self.broken_steps[before, number] = broken
        return number

    def _tidied(self, numbered: Numbered) -> Numbered:
        """Without what can make no difference any more: commands that everybody is past, a leader that is no more."""
        epochs = [self.copies.epochs[number] for number in numbered[:3]]
        a, b, c = (self._tidied_copy(number, epochs) for number in numbered[:3])
        key = (numbered[3], min(epochs))
        if key not in self._shared_after:
            node: Shared = self.shares.values[numbered[3]]
            sent = tuple(
                None if self.rules.is_stale(epoch, key[1]) else command for epoch, command in enumerate(node.sent)
            )
            self._shared_after[key] = self.shares.number(node._replace(sent=sent))
        return a, b, c, self._shared_after[key]

    def _tidied_copy(self, number: int, epochs: list[int]) -> int:
        copy: Copy = self.copies.values[number]
        role, ask = copy.role, copy.under_way
        if (
            isinstance(role, Following)
            and role.leader != NO_LEADER
            and self.rules.is_over(copy.epoch, epochs[role.leader])
        ):
            copy = copy._replace(role=role._replace(leader=NO_LEADER))
        if isinstance(ask, Ask) and self.rules.is_over(ask.leader_epoch, epochs[ask.leader]):
            copy = copy._replace(under_way=None)
        return self.copies.number(copy)


_BACK = tuple(tuple(renaming.index(place) for place in REPLICAS) for renaming in RENAMINGS)


def _order(a: int, b: int, c: int) -> tuple[bool, bool, bool, bool, bool, bool]:
    return a < b, a > b, b < c, b > c, a < c, a > c


ORDERINGS = {
    _order(*looks): [which for which, back in enumerate(_BACK) if looks[back[0]] <= looks[back[1]] <= looks[back[2]]]
    for looks in product(REPLICAS, repeat=3)
}
"""Which renamings sort three replicas, by how their looks compare."""


def _put(numbered: Numbered, place: int, number: int, shared: int) -> Numbered:
    a, b, c, _ = numbered
    if place == 0:
        return number, b, c, shared
    return (a, number, c, shared) if place == 1 else (a, b, number, shared)
