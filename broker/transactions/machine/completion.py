"""The end of a transaction: requested by its producer or forced by its timeout (`timeouts.py`), prepared, marked,
completed.

Once PREPARE_COMMIT or PREPARE_ABORT is committed, the outcome is decided: the producer is answered, and the markers
are sent. The completion is written when every partition has its marker.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions.machine.events import (
    EndTransaction,
    TransactionAnswer,
    TransactionReply,
)
from sordini.broker.transactions.machine.producer_fencing import producer_error
from sordini.broker.transactions.machine.raised_end import end_and_raise
from sordini.broker.transactions.machine.state import NO_PRODUCER_ID, Transaction, TransactionState
from sordini.broker.transactions.machine.transition import (
    Step,
    markers_of,
    refused,
    unchanged,
    written,
)
from sordini.protocol.errors import ErrorCode

RETRY_PAUSE_MS: Final = 1_000
"""After a refused write that no request repeats."""


def end(transaction: Transaction, event: EndTransaction, now_ms: int) -> Step:
    """EndTxn: prepare the commit or the abort, or answer a repeated request."""
    if event.client_version >= RAISES_EPOCH:
        return end_and_raise(transaction, event, now_ms)
    error = producer_error(transaction, event.producer)
    if error is None and transaction.pending is not None:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    if error is None:
        error = _answer_in(transaction.state, commits=event.commits)
    if error is not None:
        return refused(transaction, event.caller, error)
    state = TransactionState.PREPARE_COMMIT if event.commits else TransactionState.PREPARE_ABORT
    target = replace(transaction, state=state, last_update_ms=now_ms, client_version=event.client_version)
    return written(transaction, target, TransactionReply(event.caller, TransactionAnswer()))


def _answer_in(state: TransactionState, *, commits: bool) -> ErrorCode | None:
    """The answer in a state without an ongoing transaction; None if there is one."""
    outcome = "commit" if commits else "abort"
    match state:
        case TransactionState.ONGOING:
            return None
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
            completed = "commit" if state is TransactionState.COMPLETE_COMMIT else "abort"
            return ErrorCode.NONE if completed == outcome else ErrorCode.INVALID_TXN_STATE
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            prepared = "commit" if state is TransactionState.PREPARE_COMMIT else "abort"
            return ErrorCode.CONCURRENT_TRANSACTIONS if prepared == outcome else ErrorCode.INVALID_TXN_STATE
        case _:
            return ErrorCode.INVALID_TXN_STATE


def markers_written(transaction: Transaction, now_ms: int) -> Step:
    if not transaction.state.is_prepared or transaction.pending is not None:
        return unchanged(transaction)
    return completed(replace(transaction, has_markers=True), now_ms)


def completed(transaction: Transaction, now_ms: int) -> Step:
    """Write the completion: every partition has its marker."""
    commits = transaction.state is TransactionState.PREPARE_COMMIT
    state = TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT
    target = replace(transaction, state=state, partitions=frozenset(), last_update_ms=now_ms)
    if target.next_producer_id != NO_PRODUCER_ID:
        next_id = target.next_producer_id
        target = replace(target, producer_id=next_id, producer_epoch=0, next_producer_id=NO_PRODUCER_ID)
    return written(transaction, target)


def change_written(transaction: Transaction) -> Step:
    """The write in flight is committed: the change is in force."""
    after = transaction.pending
    assert after is not None, "nothing is being written"
    return after, [markers_of(after)] if after.state.is_prepared else []


def change_refused(transaction: Transaction, now_ms: int) -> Step:
    """The write in flight is not in the log: nothing has changed."""
    assert transaction.pending is not None, "nothing is being written"
    return replace(transaction, pending=None, retry_ms=now_ms + RETRY_PAUSE_MS), []
