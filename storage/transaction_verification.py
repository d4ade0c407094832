"""Verifications of transactions that are about to write to a log for the first time (KIP-890). Pure.

A transactional batch may enter a log only while its coordinator has the partition in the producer's ongoing
transaction: else no marker would ever follow, and the last stable offset would stop for good. The coordinator is asked
before the first batch of each transaction. Between its answer and the append the transaction may end here, by a marker,
and a later one may begin that knows nothing of this partition. So each verification has a guard, an object that is
current only until the transaction's first batch or a marker of the producer is in the log, or a newer epoch is
verified. After a truncation a log has a new `ProducerState`, in which no guard is current.

A guard stays after a verification that failed, unless its epoch is not the producer's. It remembers the lowest sequence
that was to be verified: a later batch of the same producer is not appended before that one, which the producer sends
again. That is for logs which cannot tell that a batch is missing, because they do not know the producer. The next
sequence of a known one may always be appended: the lower one is a batch of an earlier transaction, which was delayed on
the way and is in the log already.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.errors import BrokerError, ErrorCode

GUARDS_MAX: Final = 10_000
"""Of one log; beyond it the oldest is dropped, and its batch is verified again."""


class VerificationGuard:
    """Identifies one verification: compared by identity."""

    __slots__ = ("epoch", "lowest_sequence")

    def __init__(self, epoch: int, sequence: int) -> None:
        self.epoch = epoch
        self.lowest_sequence = sequence


class TransactionVerifications:
    """The verifications of one log, by producer."""

    __slots__ = ("_guards",)

    def __init__(self) -> None:
        self._guards: dict[int, VerificationGuard] = {}

    def __len__(self) -> int:
        return len(self._guards)

    def begin(self, producer_id: int, epoch: int, sequence: int) -> VerificationGuard:
        """The guard of a batch that is to be verified: requests of one transaction in flight together share it."""
        guard = self._guards.get(producer_id)
        if guard is not None and guard.epoch >= epoch:
            if guard.epoch == epoch:
                guard.lowest_sequence = min(guard.lowest_sequence, sequence)
                return guard
            return VerificationGuard(epoch, sequence)  # Of a fenced producer: never current.
        if len(self._guards) >= GUARDS_MAX:
            del self._guards[next(iter(self._guards))]
        guard = self._guards[producer_id] = VerificationGuard(epoch, sequence)
        return guard

    def check(self, producer_id: int, guard: VerificationGuard | None, sequence: int, *, is_next: bool = False) -> None:
        """Check a batch that was verified under `guard`, right before its append.

        `is_next`: it follows the producer's last batch in the log. Then a lower sequence was that of a batch which is
        in the log, and which the producer had sent again when its transaction was over.

        Raises BrokerError: INVALID_TXN_STATE when the guard is not current, OUT_OF_ORDER_SEQUENCE_NUMBER when an
        earlier batch is still to come.
        """
        current = self._guards.get(producer_id)
        if guard is None or current is not guard:
            raise BrokerError(
                ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no verified transaction in this partition"
            )
        # A batch that arrived once more after its transaction had ended was refused and its sequence remembered here:
        # the next transaction's first batch was then out of order. Found by make chaos
        # (docs/evidence/chaos/findings.md).
        if sequence > guard.lowest_sequence and not is_next:
            raise BrokerError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {sequence}, and {guard.lowest_sequence} is not appended yet",
            )

    def drop(self, producer_id: int, guard: VerificationGuard | None) -> None:
        """The coordinator does not know the guard's epoch."""
        if guard is not None and self._guards.get(producer_id) is guard:
            del self._guards[producer_id]

    def end(self, producer_id: int) -> None:
        """The first batch of the transaction, or a marker, is in the log."""
        if self._guards:
            self._guards.pop(producer_id, None)
