"""How one copy follows its leader: what it asks next, where it cuts its log, and how far its records count.

Pure. One object is one term of following: whatever is answered to a question of an earlier term is thrown away by
comparing objects. The log is the caller's; its facts come in as arguments and what is to be done with it comes back.

The rules are KIP-320's. Every question carries the leader epoch that the follower believes in, and the epoch of its
last record. A leader in which that epoch ended elsewhere says where (`diverged`), and the follower cuts before it
appends. It never cuts to its high watermark: a record below the leader's end may be committed without its knowing.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.storage.epoch_cache import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochCache


class FetchPosition(NamedTuple):
    """What a fetch asks for one partition."""

    fetch_offset: Offset
    leader_epoch: LeaderEpoch
    """In which the follower believes; a leader in another one refuses."""
    last_fetched_epoch: int
    """The epoch of the last record here, or -1: nothing that could diverge."""


class EpochEndRequest(NamedTuple):
    """Where did this epoch end? For leaders to which `last_fetched_epoch` says nothing (Fetch below version 12)."""

    leader_epoch: LeaderEpoch
    requested_epoch: int


class EpochEnd(NamedTuple):
    """The largest epoch that the leader knows not after the one asked for, and where it ended there; -1 unknown."""

    epoch: int
    end_offset: int


class Reaction(Enum):
    """What a refusal of the leader's means."""

    RETRY = "retry"
    """It may be over soon: ask again after a pause."""
    WAIT = "wait"
    """This term is over; the controller will say who leads."""
    FIND_START = "find start"
    """The offset is outside of the leader's log: ask where that begins and ends."""


class Start(NamedTuple):
    """Where to go on after an offset that was out of range."""

    offset: Offset
    begin_anew: bool
    """The log holds nothing that the leader still has: empty it and let it start there. Else cut it there."""


class Follower:
    """One term of following one leader."""

    __slots__ = ("_must_ask", "is_over", "leader_epoch", "leader_id", "partition_epoch")

    def __init__(
        self,
        leader_id: BrokerId,
        leader_epoch: LeaderEpoch,
        partition_epoch: int = 0,
        *,
        truncates_before_fetch: bool = False,
    ) -> None:
        """`truncates_before_fetch`: truncate by OffsetForLeaderEpoch before the first fetch, as protocols before 2.7-IV1."""
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.is_over = False
        """The leader has fenced this term: nothing more is asked until the controller begins another."""
        self._must_ask = truncates_before_fetch

    def next(self, epochs: EpochCache, log_end_offset: Offset) -> FetchPosition | EpochEndRequest | None:
        """What to ask now; None when this term is over."""
        if self.is_over:
            return None
        last = epochs.latest
        if self._must_ask:
            if last != UNDEFINED_EPOCH:
                return EpochEndRequest(self.leader_epoch, last)
            self._must_ask = False  # Nothing is here whose epoch is known.
        return FetchPosition(log_end_offset, self.leader_epoch, last)

    def diverged(self, leader: EpochEnd, epochs: EpochCache, log_end_offset: Offset, high_watermark: Offset) -> Offset:
        """Where to cut the log, given what the leader says of the last epoch here.

        Cutting may lay an older epoch bare in which both part as well: the next question finds that out.
        """
        if leader.end_offset == UNDEFINED_OFFSET:
            # A leader without any epochs (of message format 0 or 1): the oldest rule is all that is left.
            self._must_ask = False
            return high_watermark
        epoch, end_offset = epochs.end_offset(leader.epoch, log_end_offset)
        if end_offset == UNDEFINED_OFFSET:
            self._must_ask = False
            return Offset(min(leader.end_offset, log_end_offset))
        if epoch != leader.epoch:
            # The leader's epoch is none of ours: drop what is past the one before it, and ask about that.
            return Offset(min(end_offset, log_end_offset))
        self._must_ask = False
        return Offset(min(end_offset, leader.end_offset, log_end_offset))

    def refused(self, code: int) -> Reaction:
        """What an error code for this partition means."""
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            self.is_over = True
            return Reaction.WAIT
        return Reaction.FIND_START if code == ErrorCode.OFFSET_OUT_OF_RANGE else Reaction.RETRY


def find_divergence(position: FetchPosition, epochs: EpochCache, log_end_offset: Offset) -> EpochEnd | None:
    """The leader's side: where its log parts from that of whoever is at `position` (KIP-595); None when nowhere.

    Raises BrokerError OFFSET_OUT_OF_RANGE where the leader knows nothing of so late an epoch.
    """
    asked = position.last_fetched_epoch
    found = EpochEnd(*epochs.end_offset(asked, log_end_offset))
    if found.end_offset == UNDEFINED_OFFSET:
        raise BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no epoch {asked} is known here")
    return None if found.epoch == asked and found.end_offset >= position.fetch_offset else found


def start_when_out_of_range(leader_start: Offset, leader_end: Offset, log_end_offset: Offset) -> Start:
    """Where to go on when the leader's log holds `leader_start` to `leader_end` and not what was asked for."""
    if leader_end < log_end_offset:
        return Start(leader_end, begin_anew=False)  # An unclean election: what is past its end is not the cluster's.
    if leader_start > log_end_offset:
        return Start(leader_start, begin_anew=True)
    return Start(log_end_offset, begin_anew=False)


def watermark(own: Offset, leaders: Offset, log_end_offset: Offset) -> Offset:
    """How far records here count: what the leader said, never past the log and never back."""
    return Offset(max(own, min(leaders, log_end_offset)))
