"""The invariants of every state, and of every step of a replica.

Strong in-sync consistency: every member of the in-sync set *of the state node* holds all records below *any* replica's
high watermark, equal record for record. That a record below a watermark was exposed to consumers, of a leader or of a
follower, is all that "committed" means here. Together with the law of the committed (below) it says that a record, once
it was exposed, is on every replica that could be elected, for ever.

Weak in-sync consistency: the same for the in-sync set that a leader itself believes in, also of a deposed leader, and
records below its own watermark.

Leader in sync: the leader of the state node is in its in-sync set.

Law of the committed, of a step: no replica's high watermark moves back, and no record below it is truncated.

Epochs, of a step: a replica's leader epoch never falls.

Types: the watermark lies within the log, epochs never fall along a log, the epoch cache knows the epoch of every
record, a leader knows no follower position past its own log end offset.
"""

from __future__ import annotations

from sordini.storage.epoch_cache import EpochCache
from tests.model.state import Copy, Leading, Shared

STRONG = "strong in-sync consistency"
WEAK = "weak in-sync consistency"
LEADER_IN_SYNC = "the leader is in sync"
COMMITTED = "the committed stays"
EPOCHS = "epochs do not fall"
TYPES = "types"
ALL = frozenset({STRONG, WEAK, LEADER_IN_SYNC, COMMITTED, EPOCHS, TYPES})

Exposure = tuple[tuple[int, ...], int]
"""A log and its high watermark."""


def is_possible(copy: Copy, records: int) -> bool:
    """Whether a copy is well formed (types); a log has at most `records` records."""
    log, epochs, role = copy.log, EpochCache(copy.entries), copy.role
    return (
        0 <= copy.high_watermark <= len(log) <= records
        and list(log) == sorted(log)
        and all(epochs.epoch_at(offset) == epoch for offset, epoch in enumerate(log))
        and all(epoch <= copy.epoch for epoch, _ in copy.entries)
        and (not isinstance(role, Leading) or max(*role.ends, role.epoch_start) <= len(log))
    )


def broken_by_step(before: Copy, after: Copy) -> str:
    """The law that this step of a replica breaks, or an empty string."""
    end = before.high_watermark
    if after.high_watermark < end or after.log[:end] != before.log[:end]:
        return COMMITTED
    return EPOCHS if after.epoch < before.epoch else ""


def broken_in(exposed: tuple[Exposure, Exposure, Exposure], isr: int, believed: tuple[int, int, int]) -> str:
    """The law that is broken under this in-sync set of the state node, or an empty string.

    `believed` are the in-sync sets that leaders believe in; 0 for a replica that does not lead.
    """
    for log, high_watermark in exposed:
        if not _is_held(log[:high_watermark], exposed, isr):
            return STRONG
    for (log, high_watermark), believed_isr in zip(exposed, believed, strict=True):
        if not _is_held(log[:high_watermark], exposed, believed_isr):
            return WEAK
    return ""


def _is_held(committed: tuple[int, ...], exposed: tuple[Exposure, Exposure, Exposure], isr: int) -> bool:
    return all(log[: len(committed)] == committed for member, (log, _) in enumerate(exposed) if isr >> member & 1)


def is_leader_in_sync(shared: Shared) -> bool:
    return bool(shared.isr >> shared.leader & 1)
