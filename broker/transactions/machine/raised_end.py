"""The end of a transaction that raises its producer's epoch (KIP-890 part 2, transaction.version 2). Pure.

    ONGOING, epoch e --> PREPARE_COMMIT, epoch e + 1 --> COMPLETE_COMMIT, epoch e + 1: the producer's next transaction

The epoch is raised with the decision. So a request of the ended transaction that arrives late has an epoch that is not
valid any more, and the marker's epoch is higher than that of every record. The producer is answered with what it
has for its next transaction. If the raised epoch is the last one, that is a new producer id: it is kept in the record
of the decision, and replaces the other one at the completion.

An end that is repeated comes with the epoch before. It is recognised by the epochs alone, so by the next coordinator,
too: an end against the producer (`aborted_and_fenced`) raises the epoch by two.
"""

from __future__ import annotations

from dataclasses import replace

from sordini.broker.transactions.machine.events import (
    EndTransaction,
    ProducerIdentity,
    TransactionAnswer,
    TransactionReply,
)
from sordini.broker.transactions.machine.producer_fencing import producer_error
from sordini.broker.transactions.machine.state import (
    EPOCH_MAX,
    EPOCH_OF_PRODUCERS_MAX,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from sordini.broker.transactions.machine.transition import Step, refused, written
from sordini.protocol.errors import ErrorCode


def end_and_raise(transaction: Transaction, event: EndTransaction, now_ms: int) -> Step:
    """EndTxn of transaction.version 2. An abort needs no ongoing transaction: it only raises the epoch."""
    is_repeated = is_ended(transaction, event.producer)
    error = None if is_repeated else producer_error(transaction, event.producer)
    if error is None:
        error = _refusal(transaction, event, is_repeated=is_repeated)
    if error is not None:
        return refused(transaction, event.caller, error)
    if is_repeated:
        present = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
        return transaction, [TransactionReply(event.caller, TransactionAnswer(producer=present))]
    return _decided(transaction, event, now_ms)


def needs_producer_id(transaction: Transaction, event: EndTransaction) -> bool:
    """Whether the end has to bring a new producer id: that of the producer has no further epoch."""
    return (
        transaction.is_epoch_exhausted
        and not is_ended(transaction, event.producer)
        and producer_error(transaction, event.producer) is None
        and _refusal(transaction, event, is_repeated=False) is None
    )


def is_ended(transaction: Transaction, producer: ProducerIdentity) -> bool:
    """Whether a producer names itself as it did before its last transaction was ended, by its own request."""
    if not transaction.raises_epoch or transaction.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return False
    present = transaction.producer_id, transaction.producer_epoch
    if present[1] == EPOCH_MAX and transaction.next_producer_id == NO_PRODUCER_ID:
        return False  # Ended against the last producer of this id.
    if not transaction.state.is_prepared and present[1] == 0:
        return producer == ProducerIdentity(transaction.previous_producer_id, EPOCH_OF_PRODUCERS_MAX)
    return producer == ProducerIdentity(present[0], present[1] - 1)


def _refusal(transaction: Transaction, event: EndTransaction, *, is_repeated: bool) -> ErrorCode | None:
    if transaction.pending is not None:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    match transaction.state:
        case TransactionState.ONGOING:
            return None
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            is_same = event.commits == (transaction.state is TransactionState.PREPARE_COMMIT)
            return ErrorCode.CONCURRENT_TRANSACTIONS if is_same or not is_repeated else ErrorCode.INVALID_TXN_STATE
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT if is_repeated:
            is_same = event.commits == (transaction.state is TransactionState.COMPLETE_COMMIT)
            return None if is_same else ErrorCode.INVALID_TXN_STATE
        case _:
            return ErrorCode.INVALID_TXN_STATE if event.commits else None


def _decided(transaction: Transaction, event: EndTransaction, now_ms: int) -> Step:
    raised = ProducerIdentity(transaction.producer_id, transaction.producer_epoch + 1)
    next_id = NO_PRODUCER_ID
    if transaction.is_epoch_exhausted:
        assert event.new_producer_id is not None, "an event without a new producer id where one is needed"
        next_id = event.new_producer_id
    target = replace(
        transaction,
        producer_epoch=min(raised.epoch, EPOCH_MAX),
        last_epoch=transaction.producer_epoch,
        next_producer_id=next_id,
        client_version=event.client_version,
        state=TransactionState.PREPARE_COMMIT if event.commits else TransactionState.PREPARE_ABORT,
        start_ms=transaction.start_ms if transaction.state is TransactionState.ONGOING else now_ms,
        last_update_ms=now_ms,
    )
    given = raised if next_id == NO_PRODUCER_ID else ProducerIdentity(next_id, 0)
    return written(transaction, target, TransactionReply(event.caller, TransactionAnswer(producer=given)))
