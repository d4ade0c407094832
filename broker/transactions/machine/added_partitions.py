"""The partitions of a transaction: added by its producer, and verified by their leaders (KIP-98, KIP-890)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from sordini.broker.transactions.machine.events import (
    AddPartitions,
    ProducerIdentity,
    TransactionAnswer,
    TransactionReply,
)
from sordini.broker.transactions.machine.producer_fencing import producer_error
from sordini.broker.transactions.machine.state import Transaction, TransactionState
from sordini.broker.transactions.machine.transition import Step, refused, written
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition


def add_partitions(transaction: Transaction, event: AddPartitions, now_ms: int) -> Step:
    error = producer_error(transaction, event.producer)
    if error is not None:
        return refused(transaction, event.caller, error)
    if transaction.pending is not None or transaction.state.is_prepared:
        return refused(transaction, event.caller, ErrorCode.CONCURRENT_TRANSACTIONS)
    is_ongoing = transaction.state is TransactionState.ONGOING
    if is_ongoing and event.partitions <= transaction.partitions:
        return refused(transaction, event.caller, ErrorCode.NONE)
    target = replace(
        transaction,
        state=TransactionState.ONGOING,
        partitions=transaction.partitions | event.partitions,
        start_ms=transaction.start_ms if is_ongoing else now_ms,
        last_update_ms=now_ms,
        client_version=event.client_version,
    )
    return written(transaction, target, TransactionReply(event.caller, TransactionAnswer()))


def verified(
    transaction: Transaction, producer: ProducerIdentity, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Whether each partition is in the producer's transaction: NONE, or why a first append to it is refused.

    TRANSACTION_ABORTABLE: it is not. The other codes are the same for all partitions.
    """
    error = producer_error(transaction, producer)
    if error is None and (transaction.state.is_prepared or _is_ending(transaction)):
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error is not None:
        return dict.fromkeys(partitions, error)
    return {
        partition: ErrorCode.NONE if partition in transaction.partitions else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def _is_ending(transaction: Transaction) -> bool:
    """Whether the end of the transaction is being written: a record appended now could miss its marker."""
    return transaction.pending is not None and transaction.pending.state.is_prepared
