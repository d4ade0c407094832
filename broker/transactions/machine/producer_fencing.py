"""Which producers of a transactional id are fenced: those with another producer id or epoch than the present one. Pure.

A producer that starts raises the epoch (`init_producer_id.py`), and every earlier one, a zombie, is refused here with
PRODUCER_FENCED or INVALID_PRODUCER_ID_MAPPING (KIP-98, KIP-360). Its appends are refused by the partitions' leaders
(`storage/producer_state.py`), once a marker with the new epoch is in their logs.
"""

from __future__ import annotations

from sordini.broker.transactions.machine.events import ProducerIdentity
from sordini.broker.transactions.machine.state import (
    EPOCH_OF_PRODUCERS_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from sordini.protocol.errors import ErrorCode


def producer_error(transaction: Transaction, producer: ProducerIdentity) -> ErrorCode | None:
    """Why a request of this producer is refused; None for the present one."""
    if is_next_producer(transaction, producer):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if not transaction.is_known or transaction.producer_id != producer.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return None


def is_next_producer(transaction: Transaction, producer: ProducerIdentity) -> bool:
    """Whether this is what the producer was given by the end of the transaction that is being completed."""
    next_id = transaction.next_producer_id
    return next_id not in (NO_PRODUCER_ID, transaction.producer_id) and producer == ProducerIdentity(next_id, 0)


def knows_epoch(transaction: Transaction, expected: ProducerIdentity | None) -> bool:
    """Whether a producer that raises its epoch has the present one, or gave it up in a request that it repeats.

    Apache Kafka does not ask in an ongoing transaction: there a fenced producer aborts the transaction of its
    successor.
    """
    if expected is None or not transaction.is_known or expected.epoch == transaction.producer_epoch:
        return True
    is_ongoing = transaction.state is TransactionState.ONGOING
    return not is_ongoing and NO_EPOCH != expected.epoch == transaction.last_epoch


def has_producer_id(transaction: Transaction, expected: ProducerIdentity) -> bool:
    """Whether a producer has this transactional id's producer id, or had it before a new one replaced it."""
    if not transaction.is_known or expected.producer_id == transaction.producer_id:
        return True
    return expected.producer_id == transaction.previous_producer_id and expected.epoch >= EPOCH_OF_PRODUCERS_MAX
