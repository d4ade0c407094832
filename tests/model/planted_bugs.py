"""Bugs planted into the deciders and around them, to prove that the model finds what it is there for.

Each is the product's rules but for one thing, and says in which scope it must be found: by harm that it does to
records, not by a copy that merely looks wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sordini.protocol.types import BrokerId
from sordini.replication.leader import Leader
from sordini.storage.epoch_cache import EpochCache
from tests.model import invariants
from tests.model.explore import Explored, explore
from tests.model.rules import ASKED_QUESTIONS, ELECTIONS, OUTAGES, PROPOSALS, QUESTIONS, RESTARTS, Did, Rules, Scope
from tests.model.space import Space
from tests.model.state import (
    ALL_REPLICAS,
    NO_LEADER,
    NONE,
    Answer,
    Ask,
    Command,
    Copy,
    Following,
    Leading,
    Shared,
    members,
)

WORLDS_MAX = 400_000
HARM = frozenset({invariants.STRONG, invariants.WEAK, invariants.COMMITTED, invariants.LEADER_IN_SYNC})


class Bug(NamedTuple):
    rules: type[Rules]
    what: str
    scope: Scope


BUGS: dict[str, Bug] = {}


def bug(scope: Scope) -> Callable[[type[Rules]], type[Rules]]:
    """Register rules by name; their docstring states the bug."""

    def enter(rules: type[Rules]) -> type[Rules]:
        name = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in rules.__name__).strip()
        BUGS[name] = Bug(rules, " ".join((rules.__doc__ or "").split()), scope)
        return rules

    return enter


def found(name: str, worlds_max: int = WORLDS_MAX) -> Explored:
    """The shortest trace on which a bug violates an invariant; `broken` is empty if none does within `worlds_max` states."""
    rules, _, scope = BUGS[name]
    return explore(Space(rules(scope)), worlds_max, watched=HARM)


# The high watermark.


@bug(ELECTIONS)
class TheLeaderCountsItsOwnAppendOnly(Rules):
    """The high watermark is the end of the leader's log."""

    class leader_type(Leader):  # noqa: N801 - takes the place of an attribute.
        __slots__ = ()

        def _advance(self) -> bool:
            before, self.high_watermark = self.high_watermark, max(self.high_watermark, self._ends[self.broker_id])
            return self.high_watermark > before


@bug(ELECTIONS)
class AMajorityIsEnough(Rules):
    """The high watermark is what most of the in-sync set has."""

    class leader_type(Leader):  # noqa: N801
        __slots__ = ()

        def _advance(self) -> bool:
            ends = sorted(self._ends.values())
            before, self.high_watermark = self.high_watermark, max(self.high_watermark, ends[(len(ends) - 1) // 2])
            return self.high_watermark > before


@bug(ELECTIONS)
class ANewLeaderTakesAllItHasForCommitted(Rules):
    """A term begins with the high watermark at the end of the log."""

    def watermark_of_term(self, copy: Copy) -> int:
        return len(copy.log)


@bug(ELECTIONS)
class ANewTermKeepsFollowerPositionsOfTheOldOne(Rules):
    """A replica that is elected again keeps the follower positions of its former term."""

    def commanded(self, copy: Copy, me: int, epoch: int, command: Command) -> Copy:
        after = super().commanded(copy, me, epoch, command)
        if isinstance(copy.role, Leading) and isinstance(after.role, Leading):
            return after._replace(role=after.role._replace(ends=copy.role.ends))
        return after


@bug(PROPOSALS)
class OnlyTheCommittedInSyncSetCounts(Rules):
    """Whoever is proposed does not hold the high watermark down until it is in."""

    class leader_type(Leader):  # noqa: N801
        __slots__ = ()

        def _advance(self) -> bool:
            lowest = min(self._ends[member] for member in self.isr)
            before, self.high_watermark = self.high_watermark, max(self.high_watermark, lowest)
            return self.high_watermark > before


@bug(PROPOSALS)
class AShrunkSetCountsBeforeItIsGranted(Rules):
    """Whoever is to leave the in-sync set does not hold the high watermark down any more."""

    class leader_type(Leader):  # noqa: N801
        __slots__ = ()

        def _advance(self) -> bool:
            wanted = self.isr if self.proposal is None else self.proposal.isr
            lowest = min(self._ends[member] for member in wanted)
            before, self.high_watermark = self.high_watermark, max(self.high_watermark, lowest)
            return self.high_watermark > before


@bug(QUESTIONS)
class AFollowersWatermarkPassesItsLog(Rules):
    """A follower takes the leader's high watermark as it is."""

    def watermark(self, own: int, leaders: int, log_end_offset: int) -> int:
        return max(own, leaders)


@bug(QUESTIONS)
class AFollowersWatermarkIsTheEndOfItsLog(Rules):
    """A follower takes what it has for committed."""

    def watermark(self, own: int, leaders: int, log_end_offset: int) -> int:
        return log_end_offset


# The fences.


@bug(ELECTIONS)
class FetchesOfAnOlderEpochCount(Rules):
    """A fetch of an earlier epoch in which the same broker led is answered and counted."""

    def is_answered(self, ask: Ask, copy: Copy) -> bool:
        return ask.leader_epoch <= copy.epoch

    def is_over(self, epoch: int, epoch_of_leader: int) -> bool:
        return False


@bug(ELECTIONS)
class AFencedFollowerIsServed(Rules):
    """A fetch of another epoch counts for nothing, but it is answered with records."""

    def is_answered(self, ask: Ask, copy: Copy) -> bool:
        return True

    def is_over(self, epoch: int, epoch_of_leader: int) -> bool:
        return False

    def noted(self, copy: Copy, me: int, ask: Ask, asking: int, *, slow: int) -> Copy:
        return super().noted(copy, me, ask, asking, slow=slow) if ask.leader_epoch == copy.epoch else copy


@bug(ASKED_QUESTIONS)
class AnAnswerOfAnEarlierTermIsTaken(Rules):
    """A follower does not look for which of its terms an answer is meant."""

    def is_of_this_term(self, answer: Answer, copy: Copy) -> bool:
        return isinstance(copy.role, Following)


@bug(ELECTIONS)
class AnEqualEpochBeginsATerm(Rules):
    """A LeaderAndIsr of the epoch that a replica is in is accepted again."""

    def accepts(self, epoch: int, copy: Copy) -> bool:
        return epoch >= copy.epoch

    def is_stale(self, epoch: int, epoch_min: int) -> bool:
        return epoch < epoch_min


@bug(RESTARTS)
class CommandsOutliveARegistration(Rules):
    """A replica that registers again is not sent the current state, and accepts commands sent before."""

    def restarted(self, copy: Copy, me: int, shared: Shared) -> Iterator[Copy]:
        yield copy._replace(epoch=NONE, role=Following(NO_LEADER, needs_epoch_end=False))

    def is_stale(self, epoch: int, epoch_min: int) -> bool:
        return False


@bug(ELECTIONS)
class TheLastCommandToArriveCounts(Rules):
    """A LeaderAndIsr is accepted whatever its epoch is."""

    def accepts(self, epoch: int, copy: Copy) -> bool:
        return epoch != copy.epoch

    def is_stale(self, epoch: int, epoch_min: int) -> bool:
        return False

    def is_over(self, epoch: int, epoch_of_leader: int) -> bool:
        return False


# Diverged logs.


@bug(ELECTIONS)
class AFetchFromADivergedLogCounts(Rules):
    """A leader records a fetch position before it checks the follower's log for divergence."""

    def when_diverged(self, copy: Copy, me: int, ask: Ask, asking: int) -> Copy:
        return self.noted(copy, me, ask, asking, slow=0)


@bug(ELECTIONS)
class FollowersDoNotTruncateDivergedLogs(Rules):
    """A follower fetches from its log end offset without a check for divergence."""

    def parted(self, ask: Ask, epochs: EpochCache, log_end_offset: int) -> None:
        return None


@bug(ELECTIONS)
class OnlyTheOffsetIsCompared(Rules):
    """A leader compares the end offset of the follower's last epoch, but not the epoch that it found."""

    def parted(self, ask: Ask, epochs: EpochCache, log_end_offset: int) -> tuple[int, int] | None:
        parted = super().parted(ask, epochs, log_end_offset)
        return parted if parted is not None and parted[1] < ask.fetch_offset else None


# The in-sync set.


@bug(ELECTIONS)
class ExpansionAtTheWatermarkOnly(Rules):
    """A replica joins at the high watermark, although the leader's epoch begins later."""

    class leader_type(Leader):  # noqa: N801
        __slots__ = ()

        def may_join(self, broker_id: BrokerId) -> bool:
            if self.proposal is not None or broker_id in self.isr:
                return False
            return self.replicas[broker_id].end_offset >= self.high_watermark


@bug(ELECTIONS)
class AnyFetchingReplicaJoinsTheIsr(Rules):
    """A replica joins as soon as it fetches."""

    class leader_type(Leader):  # noqa: N801
        __slots__ = ()

        def may_join(self, broker_id: BrokerId) -> bool:
            return self.proposal is None and broker_id not in self.isr and self.replicas[broker_id].end_offset >= 0


@bug(PROPOSALS)
class ChangesWithoutACondition(Rules):
    """A change of the in-sync set is made without a check of the state node's version."""

    def grants(self, copy: Copy, me: int, shared: Shared) -> bool:
        return True


@bug(PROPOSALS)
class SilenceIsTakenForARefusal(Rules):
    """A proposal without an answer is dropped, although it may have been made."""

    def leads(self, copy: Copy, me: int) -> Iterator[tuple[Did, Copy]]:
        yield from super().leads(copy, me)
        role = copy.role
        if isinstance(role, Leading) and role.is_granted:
            leader = self.leader_of(copy, me)
            assert leader.proposal is not None
            leader.ineligible(leader.proposal)
            yield ("gives up", me), self.led_by(leader, copy)


@bug(ELECTIONS)
class ReplicasOutsideTheIsrAreElected(Rules):
    """The controller elects from all replicas, with the leader alone in sync."""

    def electable(self, isr: int) -> Iterator[tuple[int, int]]:
        for leader in members(ALL_REPLICAS):
            yield leader, 1 << leader


@bug(ELECTIONS)
class ANewLeaderBelievesToBeAlone(Rules):
    """A new leader begins with itself alone in sync, whatever it was sent."""

    def commanded(self, copy: Copy, me: int, epoch: int, command: Command) -> Copy:
        return super().commanded(copy, me, epoch, command._replace(isr=1 << me))


# A leader without the store.


@bug(OUTAGES)
class ALeaderShrinksItsSetWithoutTheStore(Rules):
    """A leader that gets no answer uses the in-sync set that it proposed."""

    def leads(self, copy: Copy, me: int) -> Iterator[tuple[Did, Copy]]:
        yield from super().leads(copy, me)
        role = copy.role
        if isinstance(role, Leading) and role.proposed and not role.is_granted:
            leader = self.leader_of(copy, me)
            assert leader.proposal is not None
            leader.granted(leader.proposal, leader.proposal.isr, role.partition_epoch + 1)
            leader.partition_epoch = role.partition_epoch
            yield ("takes for granted", me), self.led_by(leader, copy)


@bug(OUTAGES._replace(epochs=1))
class ASessionThatEndsRefusesWhatWasProposed(Rules):
    """A leader that registers again drops its proposal, although that may already be granted."""

    def registered_again(self, copy: Copy, me: int, shared: Shared) -> Copy:
        after, role = super().registered_again(copy, me, shared), copy.role
        if after != copy or not isinstance(role, Leading) or not role.proposed:
            return after
        leader = self.leader_of(copy, me)
        assert leader.proposal is not None
        leader.ineligible(leader.proposal)
        return self.led_by(leader, copy)
