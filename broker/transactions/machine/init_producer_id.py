"""InitProducerId with a transactional id: its producer starts, and every earlier one is fenced (KIP-98, KIP-360)."""

from __future__ import annotations

from dataclasses import replace

from sordini.broker.transactions.machine.events import (
    InitProducerId,
    ProducerIdentity,
    TransactionAnswer,
    TransactionLimits,
    TransactionReply,
)
from sordini.broker.transactions.machine.producer_fencing import has_producer_id, is_next_producer, knows_epoch
from sordini.broker.transactions.machine.state import (
    NO_EPOCH,
    Transaction,
    TransactionState,
)
from sordini.broker.transactions.machine.transition import Step, aborted_and_fenced, refused, written
from sordini.protocol.errors import ErrorCode


def init_producer_id(transaction: Transaction, event: InitProducerId, now_ms: int, limits: TransactionLimits) -> Step:
    """Give the producer an epoch of its own; an ongoing transaction is aborted first, and the producer retries."""
    error = _refusal(transaction, event, limits)
    if error is not None:
        return refused(transaction, event.caller, error)
    if transaction.state is TransactionState.ONGOING:
        return aborted_and_fenced(
            transaction, now_ms, TransactionReply(event.caller, TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS))
        )
    producer, last_epoch = _next_producer(transaction, event)
    target = replace(
        transaction,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_epoch=last_epoch,
        timeout_ms=event.timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_ms=-1,
        last_update_ms=now_ms,
    )
    return written(transaction, target, TransactionReply(event.caller, TransactionAnswer(producer=producer)))


def needs_producer_id(transaction: Transaction, event: InitProducerId, limits: TransactionLimits) -> bool:
    """Whether the event has to bring a new producer id."""
    if _refusal(transaction, event, limits) is not None or transaction.state is TransactionState.ONGOING:
        return False
    return not transaction.is_known or _is_rotated(transaction, event)


def _refusal(transaction: Transaction, event: InitProducerId, limits: TransactionLimits) -> ErrorCode | None:
    if not 0 < event.timeout_ms <= limits.timeout_ms_max:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if event.expected is not None and is_next_producer(transaction, event.expected):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if event.expected is not None and not has_producer_id(transaction, event.expected):
        return ErrorCode.PRODUCER_FENCED
    if transaction.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return None if knows_epoch(transaction, event.expected) else ErrorCode.PRODUCER_FENCED


def _is_rotated(transaction: Transaction, event: InitProducerId) -> bool:
    """Whether the producer gets a new producer id, as the epochs of its present one are exhausted."""
    is_current = event.expected is None or event.expected.epoch == transaction.producer_epoch
    return transaction.is_epoch_exhausted and is_current


def _next_producer(transaction: Transaction, event: InitProducerId) -> tuple[ProducerIdentity, int]:
    """What the producer gets, and the epoch that it gave up for it (NO_EPOCH if it named none)."""
    expected = event.expected
    if not transaction.is_known or _is_rotated(transaction, event):
        assert event.new_producer_id is not None, "an event without a new producer id where one is needed"
        gives_up = transaction.is_known and expected is not None
        return ProducerIdentity(event.new_producer_id, 0), transaction.producer_epoch if gives_up else NO_EPOCH
    if expected is not None and expected.epoch != transaction.producer_epoch:
        # Its epoch was raised before, and the answer was lost.
        return ProducerIdentity(transaction.producer_id, transaction.producer_epoch), transaction.last_epoch
    last_epoch = NO_EPOCH if expected is None else transaction.producer_epoch
    return ProducerIdentity(transaction.producer_id, transaction.producer_epoch + 1), last_epoch
