"""At which offset a follower truncates its log, and where a leader finds that a log diverges from its own. Pure.

The rules are KIP-320's. Every request carries the follower's leader epoch and the epoch of its last record. A leader in
which that epoch ended at another offset returns the diverging epoch, and the follower truncates before it appends. It
never truncates to its high watermark: a record below the leader's log end may be committed before the follower knows.

What the truncation does to the files is `storage/truncation.py`.
"""

from __future__ import annotations

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import LeaderEpoch, Offset
from sordini.storage.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochCache
from sordini.system.named_tuple import NamedTuple


class FetchPosition(NamedTuple):
    """What a fetch requests of one partition."""

    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    """The follower's; a leader in another epoch refuses."""
    last_fetched_epoch: int
    """The epoch of the last record here; -1 if there is none, and so nothing that could diverge."""


class EpochEnd(NamedTuple):
    """The leader's largest epoch that is not above the requested one, and where it ended there; -1 unknown."""

    epoch: int
    end_offset: int


class Truncation(NamedTuple):
    """Where to truncate a log to."""

    offset: Offset
    is_final: bool
    """No epoch before that can diverge. Else the end of the epoch before is requested next (KIP-279)."""


class FetchStart(NamedTuple):
    """Where to continue after OFFSET_OUT_OF_RANGE."""

    offset: Offset
    truncate_fully: bool
    """The leader has nothing of this log: truncate it fully and start at `offset`. Else truncate to `offset`."""


def truncation_by_epoch(
    leader: EpochEnd, epochs: EpochCache, log_end_offset: Offset, high_watermark: Offset
) -> Truncation:
    """Where a follower truncates, given the leader's end of the last epoch in its log."""
    if leader.end_offset == UNDEFINED_OFFSET:
        # A leader without epochs (message format 0 or 1): only the rule before KIP-101 is left.
        return Truncation(high_watermark, is_final=True)
    # By the model (`make model`) truncation to the watermark, KIP-101 alone and KIP-279 alone each lose a record.
    epoch, end_offset = epochs.end_offset(leader.epoch, log_end_offset)
    if end_offset == UNDEFINED_OFFSET:
        return Truncation(Offset(min(leader.end_offset, log_end_offset)), is_final=True)
    if epoch != leader.epoch:
        # This log does not have the leader's epoch: truncate to the end of the one before, and request that one.
        return Truncation(Offset(min(end_offset, log_end_offset)), is_final=False)
    return Truncation(Offset(min(end_offset, leader.end_offset, log_end_offset)), is_final=True)


def find_divergence(position: FetchPosition, epochs: EpochCache, log_end_offset: Offset) -> EpochEnd | None:
    """The leader's side: where its log diverges from that of a reader at `position` (KIP-595); None if it does not.

    Raises BrokerError OFFSET_OUT_OF_RANGE when the leader knows no epoch that late.
    """
    requested = position.last_fetched_epoch
    if requested == epochs.latest != UNDEFINED_EPOCH and position.fetch_offset <= log_end_offset:
        return None  # As below, for a reader in the same epoch: nearly every fetch.
    found = EpochEnd(*epochs.end_offset(requested, log_end_offset))
    if found.end_offset == UNDEFINED_OFFSET:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {requested} is not known here")
    return None if found.epoch == requested and found.end_offset >= position.fetch_offset else found


def start_when_out_of_range(leader_start: Offset, leader_end: Offset, log_end_offset: Offset) -> FetchStart:
    """Where to continue when the leader's log spans `leader_start` to `leader_end` without the fetch offset."""
    if leader_end < log_end_offset:
        return FetchStart(leader_end, truncate_fully=False)  # After an unclean election: the leader's end is the end.
    if leader_start > log_end_offset:
        return FetchStart(leader_start, truncate_fully=True)
    return FetchStart(log_end_offset, truncate_fully=False)
