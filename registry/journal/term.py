"""One term of a writer: the batches of one producer epoch, one at a time, and what is known of the one under way. Pure.

    FENCING  its first batch, a NOOP, is not read yet: earlier writers may still append
    WRITING  it was read: what is appended from here on is of this term, and all before is applied
    OVER     a later term has begun, or what became of a batch is not known

A batch is in the log when it was read: reading returns committed records only, so a batch that was read is both
committed and applied. Answers to Produce matter for what was refused. After an answer that leaves the outcome open, the
same batch may be sent again: brokers recognise its sequence (KIP-98). When a writer stops sending it, the term is
over, since the batch may arrive later; the NOOP of the next term makes an end of that (INVALID_PRODUCER_EPOCH).

Invariants:
  - a batch of a term is under way only while all before it are read, or are certainly not in the log;
  - after OVER nothing of the term is sent.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from sordini.client.retries import RETRIABLE
from sordini.protocol.errors import ErrorCode
from sordini.protocol.records.batch import INT32_MAX
from sordini.protocol.records.replay import Stamp


class Phase(Enum):
    FENCING = auto()
    WRITING = auto()
    OVER = auto()


class Outcome(Enum):
    """What follows from an answer to Produce."""

    READ_IT = auto()
    """It is in the log: wait until it is read."""
    AGAIN = auto()
    """Send the same batch again."""
    REFUSED = auto()
    """It is certainly not in the log, and will not be: the term continues."""
    FENCED = auto()
    """A later term has begun. Whether the batch is in the log is known at the log end of now."""
    BROKEN = auto()
    """What became of it is not known, and sending it again does not help: the term is over."""


_FENCED: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_IN_THE_LOG: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_NOT_APPENDED_YET: Final = frozenset({ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Answered before anything is appended: sent again while there is time, and its outcome is known without that."""
_OPEN: Final = RETRIABLE | {
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    # A broker that has just started knows no topic yet.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
"""The batch may be in the log of a former leader, and so of the next one."""
_LOST_SEQUENCE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""The log does not have the batches of this term that were read: it was truncated."""


class Term:
    """The state of one term; the shell sends, receives and reads for it."""

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.phase = Phase.FENCING
        self.offset: int | None = None
        """Of the newest batch that was begun, once it was read."""
        self._sequence = 0
        self._is_under_way = False
        self._may_be_appended = False

    @property
    def is_under_way(self) -> bool:
        """Whether a batch is neither read nor certainly refused."""
        return self._is_under_way

    def begin(self) -> Stamp:
        """Begin the next batch, of one record."""
        assert self.phase is not Phase.OVER, "the term is over"
        assert not self._is_under_way, "one batch is under way already"
        self._is_under_way, self._may_be_appended, self.offset = True, False, None
        return Stamp(self.producer_id, self.producer_epoch, self._sequence)

    def answered(self, code: ErrorCode) -> Outcome:
        """The batch under way was answered with this code."""
        if code in _IN_THE_LOG:
            self._may_be_appended = True
            return Outcome.READ_IT
        if code in _NOT_APPENDED_YET:
            return Outcome.AGAIN
        if code in _OPEN:
            self._may_be_appended = True
            return Outcome.AGAIN
        if code in _FENCED:
            self.phase = Phase.OVER
            return Outcome.FENCED
        if code in _LOST_SEQUENCE or self._may_be_appended:
            self.phase = Phase.OVER
            return Outcome.BROKEN
        self._is_under_way = False
        return Outcome.REFUSED

    def unanswered(self) -> None:
        """The connection ended, or there was no answer in time: the batch may be in the log."""
        self._may_be_appended = True

    def abandon(self) -> bool:
        """Send the batch under way no more; whether it is certainly not in the log. If not, the term is over."""
        if not self._is_under_way:
            return True
        if self._may_be_appended or self.phase is Phase.OVER:
            self.phase = Phase.OVER
            return False
        self._is_under_way = False
        return True

    def read(self, stamp: Stamp, offset: int) -> None:
        """A batch was read, and its records were applied; `offset` is that of its first record."""
        if stamp.producer_id != self.producer_id:
            return
        if stamp.producer_epoch > self.producer_epoch:
            self.phase = Phase.OVER
        elif self._is_under_way and stamp == (self.producer_id, self.producer_epoch, self._sequence):
            self._is_under_way = False
            self.offset = offset
            self._sequence = (self._sequence + 1) & INT32_MAX
            if self.phase is Phase.FENCING:
                self.phase = Phase.WRITING
