"""Bugs in the machine of a share partition, each of which the model must find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sordini.broker.shares.machine.in_flight import Part
from sordini.broker.shares.machine.record_states import DeathReason, RecordState
from sordini.broker.shares.machine.share_partition import Change, SharePartition
from tests.model.explore import Explored
from tests.model.shares.world import explore

WORLDS_MAX: Final = 2_000


class StartPassesGaps(SharePartition):
    """The start offset moves over what was never read."""

    def advance(self) -> None:
        for batch in self.batches:
            if batch.first > self.start and all(part.is_done for part in batch.parts):
                self.start = batch.first
            break
        super().advance()


class LocksAreNotNoted(SharePartition):
    """A lock that nothing ends."""

    def lock(self, part: Part) -> None:
        del part


class RolledBackWithoutLock(SharePartition):
    """What could not be written is held for ever."""

    def roll_back(self, change: Change) -> None:
        noted = list(self._locks)
        super().roll_back(change)
        firsts = {part.first for part in change.parts}
        self._locks = [lock for lock in noted if lock[1] not in firsts]


class HintStays(SharePartition):
    """Fetches begin behind records that have become available."""

    def commit(self, change: Change) -> None:
        hint = self.hint
        super().commit(change)
        self.hint = max(hint, self.hint)


class NothingIsArchived(SharePartition):
    """Records are delivered without end."""

    def begin_release(self, part: Part) -> Part:
        return self.begin(part, RecordState.AVAILABLE)


class DoneIsNotCounted(SharePartition):
    """What is done behind the start offset is not known."""

    def commit(self, change: Change) -> None:
        super().commit(change)
        self.done = 0


class OthersAreReleased(SharePartition):
    """A session that closes releases what others hold."""

    def release(self, member: str) -> Change | None:
        del member
        held = [part for batch in self.batches for part in batch.parts if part.state is RecordState.ACQUIRED]
        free = [part for part in held if part.after is None]
        return Change(self.start, tuple(self._released(free))) if free else None


class RejectedIsAvailable(SharePartition):
    """What was rejected is delivered again, though it was stored as done."""

    def commit(self, change: Change) -> None:
        super().commit(change)
        for part in change.parts:
            if part.after is RecordState.ARCHIVED and part.first >= self.start:
                self._put(Part(part.first, part.end, RecordState.AVAILABLE, part.deliveries))
                self.done -= part.end - part.first
                self.hint = min(self.hint, part.first)


class RejectedIsLost(SharePartition):
    """What is rejected is done at once, written or not."""

    def begin_end(self, part: Part, reason: DeathReason) -> Part:
        marked = super().begin_end(part, reason)
        self.start = max(self.start, part.end)
        self.batches.forget_before(self.start)
        self.hint = max(self.hint, self.start)
        return marked


class EndedEarly(SharePartition):
    """Locks end before their time."""

    def _released(self, held: Sequence[Part]) -> list[Part]:
        others = [part for batch in self.batches for part in batch.parts if part.state is RecordState.ACQUIRED]
        return super()._released([part for part in others if part.after is None] or held)


BUGS: Final[dict[str, type[SharePartition]]] = {
    "the start offset passes gaps": StartPassesGaps,
    "locks are not noted": LocksAreNotNoted,
    "what is rolled back has no lock": RolledBackWithoutLock,
    "fetches begin behind what is available": HintStays,
    "nothing is archived": NothingIsArchived,
    "what is done is not counted": DoneIsNotCounted,
    "others are released": OthersAreReleased,
    "what was rejected is available": RejectedIsAvailable,
    "what is rejected is lost": RejectedIsLost,
    "locks end early": EndedEarly,
}


def found(name: str) -> Explored:
    """The shortest way on which a bug breaks a law; `broken` is empty if it does not."""
    return explore(BUGS[name], WORLDS_MAX)
