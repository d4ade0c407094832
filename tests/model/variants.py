"""Earlier rules of the protocol, each with a known data loss that the model must find.

Each differs from the product in one rule.
"""

from __future__ import annotations

from sordini.storage.epoch_cache import UNDEFINED_EPOCH, EpochCache
from tests.model import invariants
from tests.model.explore import Explored, explore
from tests.model.rules import ASKED, ELECTIONS, Rules, Scope
from tests.model.space import Space
from tests.model.state import Ask, Copy


class CutsToTheWatermark(Rules):
    """Before KIP-101: a new follower truncates its log to its high watermark, without epochs.

    A follower's high watermark lags behind: committed records may lie above it. If the follower is elected right
    after the truncation, the leader has lost the record.
    """

    def cut_when_commanded(self, copy: Copy) -> Copy:
        return self.cut(copy, copy.high_watermark)

    def parted(self, ask: Ask, epochs: EpochCache, log_end_offset: int) -> None:
        return None


class AsksOnce(Rules):
    """KIP-101: a follower requests the end offset of its last epoch once, and the response does not name its epoch.

    If the leader does not know the follower's last epoch, the response is the start offset of the next one: that may
    lie within the follower's records of that epoch, and records below may have diverged, too.
    """

    def epoch_end(self, epochs: EpochCache, asked: int, log_end_offset: int) -> tuple[int, int]:
        return UNDEFINED_EPOCH, super().epoch_end(epochs, asked, log_end_offset)[1]


class FencesNothing(Rules):
    """KIP-279: truncation is right, but requests of any leader epoch are answered, and fetches of any epoch counted.

    A leader of one epoch answers a follower of another: the follower truncates by a log that is not of its epoch, or
    the leader counts records that its follower truncates later.
    """

    def is_answered(self, ask: Ask, copy: Copy) -> bool:
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
    """The shortest trace on which a variant breaks strong in-sync consistency."""
    rules, scope = VARIANTS[name]
    return explore(Space(rules(scope)), WORLDS_MAX, watched=WATCHED)
