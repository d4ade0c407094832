"""The rules as they once were, each with a hole that cost records: what the model is worth is that it finds them.

In each one thing is otherwise than in the product; the rest is the product's.
"""

from __future__ import annotations

from sordini.storage.epoch_cache import UNDEFINED_EPOCH, EpochCache
from tests.model import invariants
from tests.model.explore import Explored, explore
from tests.model.rules import ASKED, ELECTIONS, Rules, Scope
from tests.model.state import Ask, Copy


class CutsToTheWatermark(Rules):
    """Before KIP-101: whoever begins to follow cuts its log to its high watermark, and knows nothing of epochs.

    A watermark lags behind: what is committed may lie above the one that a follower knows. If it is elected right
    after it has cut, the record is gone from the leader.
    """

    def cut_when_commanded(self, copy: Copy) -> Copy:
        return self.cut(copy, copy.high_watermark)

    def parted(self, ask: Ask, epochs: EpochCache, log_end_offset: int) -> None:
        return None


class AsksOnce(Rules):
    """KIP-101: a follower asks once where its last epoch ended, and the answer does not say of which epoch it speaks.

    If the leader knows nothing of the follower's last epoch, the answer is where the next one began: that may lie in
    the middle of what the follower has of that epoch, and what is below may have diverged too.
    """

    def epoch_end(self, epochs: EpochCache, asked: int, log_end_offset: int) -> tuple[int, int]:
        return UNDEFINED_EPOCH, super().epoch_end(epochs, asked, log_end_offset)[1]


class FencesNothing(Rules):
    """KIP-279: the cut is right, but a question is answered, and a fetch counted, whatever epoch it believes in.

    A leader of one epoch and a follower of another speak to each other: the follower cuts by a log that is not the
    one of its epoch, or the leader counts what its follower will cut again.
    """

    def is_heard(self, ask: Ask, copy: Copy) -> bool:
        return True

    def is_over(self, epoch: int, epoch_of_leader: int) -> bool:
        return False


VARIANTS: dict[str, tuple[type[Rules], Scope]] = {
    "truncation to the high watermark": (CutsToTheWatermark, ELECTIONS._replace(epochs=2)),
    "KIP-101": (AsksOnce, ASKED),
    "KIP-279": (FencesNothing, ASKED),
}

WATCHED = frozenset({invariants.STRONG})
WORLDS_MAX = 1_000_000


def found(name: str) -> Explored:
    """The shortest way on which a variant breaks strong in-sync consistency."""
    rules, scope = VARIANTS[name]
    return explore(rules(scope), WORLDS_MAX, watched=WATCHED)
