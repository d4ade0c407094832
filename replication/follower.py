"""How a replica follows its leader: what it fetches next, where it truncates its log, and its high watermark.

Pure. One object is one term of following: a response to a request of an earlier term is recognised by comparing
objects, and dropped. The log is the caller's; its state comes in as arguments, and what to do with it is returned.

The rules are KIP-320's. Every request carries the follower's leader epoch and the epoch of its last record. A leader in
which that epoch ended at another offset returns the diverging epoch, and the follower truncates before it appends. It
never truncates to its high watermark: a record below the leader's log end may be committed before the follower knows.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.storage.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochCache


class FetchPosition(NamedTuple):
    """What a fetch requests of one partition."""

    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    """The follower's; a leader in another epoch refuses."""
    last_fetched_epoch: int
    """The epoch of the last record here; -1 if there is none, and so nothing that could diverge."""


class EpochEndRequest(NamedTuple):
    """A request for the end offset of an epoch, where Fetch has no `last_fetched_epoch` (below version 12)."""

    leader_epoch: LeaderEpoch
    requested_epoch: int


class EpochEnd(NamedTuple):
    """The leader's largest epoch that is not above the requested one, and where it ended there; -1 unknown."""

    epoch: int
    end_offset: int


class Reaction(Enum):
    """What to do after an error of the leader."""

    RETRY = "retry"
    """Fetch again after a backoff."""
    WAIT = "wait"
    """This term is over: wait for the next LeaderAndIsr."""
    FIND_START = "find start"
    """The offset is outside the leader's log: look up where that begins and ends."""


class FetchStart(NamedTuple):
    """Where to continue after OFFSET_OUT_OF_RANGE."""

    offset: Offset
    truncate_fully: bool
    """The leader has nothing of this log: truncate it fully and start at `offset`. Else truncate to `offset`."""


class Follower:
    """One term of following one leader."""

    __slots__ = ("_needs_epoch_end", "is_fenced", "leader_epoch", "leader_id", "partition_epoch")

    def __init__(
        self,
        leader_id: BrokerId,
        leader_epoch: LeaderEpoch,
        partition_epoch: int = 0,
        *,
        truncates_before_fetch: bool = False,
    ) -> None:
        """`truncates_before_fetch`: by OffsetForLeaderEpoch before the first fetch, as in protocols before 2.7-IV1."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.is_fenced = False
        """The leader is in a newer epoch: nothing is fetched until the controller begins another term."""
        self._needs_epoch_end = truncates_before_fetch

    def next_request(self, epochs: EpochCache, log_end_offset: Offset) -> FetchPosition | EpochEndRequest | None:
        """What to request now; None when this term is fenced."""
        if self.is_fenced:
            return None
        last = epochs.latest
        if self._needs_epoch_end:
            if last != UNDEFINED_EPOCH:
                return EpochEndRequest(self.leader_epoch, last)
            self._needs_epoch_end = False  # No record here has a known epoch.
        return FetchPosition(log_end_offset, self.leader_epoch, last)

    def truncation_offset(
        self, leader: EpochEnd, epochs: EpochCache, log_end_offset: Offset, high_watermark: Offset
    ) -> Offset:
        """Where to truncate the log, given the leader's end of the last epoch here.

        The epoch before that may diverge, too: the next request finds that out (KIP-279).
        """
        if leader.end_offset == UNDEFINED_OFFSET:
            # A leader without epochs (message format 0 or 1): only the rule before KIP-101 is left.
            self._needs_epoch_end = False
            return high_watermark
        epoch, end_offset = epochs.end_offset(leader.epoch, log_end_offset)
        if end_offset == UNDEFINED_OFFSET:
            self._needs_epoch_end = False
            return Offset(min(leader.end_offset, log_end_offset))
        if epoch != leader.epoch:
            # This log does not have the leader's epoch: truncate to the end of the one before, and request that one.
            return Offset(min(end_offset, log_end_offset))
        self._needs_epoch_end = False
        return Offset(min(end_offset, leader.end_offset, log_end_offset))

    def on_error(self, code: int) -> Reaction:
        """What to do after an error code for this partition."""
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            self.is_fenced = True
            return Reaction.WAIT
        return Reaction.FIND_START if code == ErrorCode.OFFSET_OUT_OF_RANGE else Reaction.RETRY


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


def follower_high_watermark(own: Offset, leaders: Offset, log_end_offset: Offset) -> Offset:
    """A follower's high watermark: the leader's, but never past the log end and never moved back."""
    return Offset(max(own, min(leaders, log_end_offset)))
