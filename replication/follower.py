"""How a replica follows its leader: what it fetches next, what it does after an error, and its high watermark.

Pure. One object is one term of following: a response to a request of an earlier term is recognised by comparing
objects, and dropped. The log is the caller's; its state comes in as arguments, and what to do with it is returned. At
which offset the log is truncated is decided in `follower_truncation.py`.
"""

from __future__ import annotations

from enum import Enum

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.follower_truncation import EpochEnd, FetchPosition, truncation_by_epoch
from sordini.storage.epoch_cache import UNDEFINED_EPOCH, EpochCache
from sordini.system.named_tuple import NamedTuple


class EpochEndRequest(NamedTuple):
    """A request for the end offset of an epoch, where Fetch has no `last_fetched_epoch` (below version 12)."""

    leader_epoch: LeaderEpoch
    requested_epoch: int


class FetchErrorAction(Enum):
    """What to do after an error of the leader."""

    RETRY = "retry"
    """Fetch again after a backoff."""
    WAIT = "wait"
    """This term is over: wait for the next LeaderAndIsr."""
    FIND_START = "find start"
    """The offset is outside the leader's log: look up where that begins and ends."""


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
        """Where to truncate the log, given the leader's end of the last epoch here (see `follower_truncation`)."""
        truncation = truncation_by_epoch(leader, epochs, log_end_offset, high_watermark)
        if truncation.is_final:
            self._needs_epoch_end = False
        return truncation.offset

    def on_error(self, code: int) -> FetchErrorAction:
        """What to do after an error code for this partition."""
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            self.is_fenced = True
            return FetchErrorAction.WAIT
        return FetchErrorAction.FIND_START if code == ErrorCode.OFFSET_OUT_OF_RANGE else FetchErrorAction.RETRY


def follower_high_watermark(own: Offset, leaders: Offset, log_end_offset: Offset) -> Offset:
    """A follower's high watermark: the leader's, but never past the log end and never moved back."""
    return Offset(max(own, min(leaders, log_end_offset)))
