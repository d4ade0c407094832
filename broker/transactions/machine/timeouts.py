"""What happens to a transaction by time alone: its timeout, a write that is repeated, the expiry of its id. Pure.

    ongoing for `transaction.timeout.ms` of its producer     aborted, and the producer is fenced (KIP-98)
    marked, but the completion was refused                   the completion is written again
    unused for `transactional.id.expiration.ms`              the transactional id is removed

The producer chooses its timeout; InitProducerId refuses one above `transaction.max.timeout.ms`. Which timer is due next
is `next_due_ms`; the shard sets it.
"""

from __future__ import annotations

from dataclasses import replace

from sordini.broker.transactions.machine.completion import completed
from sordini.broker.transactions.machine.events import ProducerIdentity, TimedOut, TransactionLimits
from sordini.broker.transactions.machine.state import Transaction, TransactionState
from sordini.broker.transactions.machine.transition import Step, aborted_and_fenced, unchanged, written


def tick(transaction: Transaction, now_ms: int) -> Step:
    """Abort a transaction whose timeout has passed; write a completion again whose write was refused."""
    due_ms = next_due_ms(transaction)
    if due_ms is None or now_ms < due_ms:
        return unchanged(transaction)
    if transaction.has_markers:
        return completed(transaction, now_ms)
    after, actions = aborted_and_fenced(transaction, now_ms)
    producer = ProducerIdentity(transaction.producer_id, transaction.producer_epoch)
    return after, [TimedOut(producer, transaction.timeout_ms), *actions]


def next_due_ms(transaction: Transaction) -> int | None:
    """When the next tick is due, on the wall clock. None: never."""
    if transaction.pending is not None:
        return None
    if transaction.has_markers:
        return transaction.retry_ms
    deadline_ms = transaction.deadline_ms
    return None if deadline_ms is None else max(deadline_ms, transaction.retry_ms)


def expire(transaction: Transaction, now_ms: int, limits: TransactionLimits) -> Step:
    """Remove a transactional id that has not been used for a long time."""
    is_idle = transaction.state.is_idle and transaction.pending is None and transaction.is_known
    if not is_idle or now_ms - transaction.last_update_ms < limits.expiration_ms:
        return unchanged(transaction)
    return written(transaction, replace(transaction, state=TransactionState.DEAD, partitions=frozenset()))
