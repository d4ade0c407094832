"""The transaction coordinator's decisions about one transactional id, event by event, as Apache Kafka 3.9 decides.

Pure: `step(transaction, event, now_ms, limits)` returns the transaction after the event, and actions in order. Each
part is a module: `init_producer_id`, `producer_fencing`, `added_partitions`, `completion`, `timeouts`, and
`raised_end`, which is Apache Kafka 4's. Times are of the wall clock, as those in the records.

Invariants, held after every step (`check_invariants` asserts them):
  - every request is answered exactly once, at once or with the write that it caused;
  - nothing is in force before it is committed, and one write is in flight at most;
  - neither the producer's epoch nor, in the order of their allocation, its id goes back;
  - a transaction that is prepared keeps its outcome and its partitions until it is completed;
  - only an ongoing or prepared transaction has partitions to be marked.
"""

from __future__ import annotations

from typing import assert_never

from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions.machine import (
    added_partitions,
    completion,
    init_producer_id,
    producer_fencing,
    raised_end,
    timeouts,
)
from sordini.broker.transactions.machine.events import (
    Action,
    AddPartitions,
    EndTransaction,
    Event,
    Expire,
    InitProducerId,
    MarkersWritten,
    Request,
    Tick,
    TransactionLimits,
    WriteCommitted,
    WriteRefused,
)
from sordini.broker.transactions.machine.state import (
    EPOCH_MAX,
    NO_PRODUCER_ID,
    VALID_BEFORE,
    Transaction,
    TransactionState,
)
from sordini.broker.transactions.machine.transition import markers_of
from sordini.broker.transactions.records import TransactionValue

next_due_ms = timeouts.next_due_ms
producer_error = producer_fencing.producer_error
verified = added_partitions.verified


def step(
    transaction: Transaction, event: Event, now_ms: int, limits: TransactionLimits
) -> tuple[Transaction, list[Action]]:
    """The transaction after one event, and the actions to carry out."""
    match event:
        case InitProducerId():
            return init_producer_id.init_producer_id(transaction, event, now_ms, limits)
        case AddPartitions():
            return added_partitions.add_partitions(transaction, event, now_ms)
        case EndTransaction():
            return completion.end(transaction, event, now_ms)
        case Tick():
            return timeouts.tick(transaction, now_ms)
        case Expire():
            return timeouts.expire(transaction, now_ms, limits)
        case WriteCommitted():
            return completion.change_written(transaction)
        case WriteRefused():
            return completion.change_refused(transaction, now_ms)
        case MarkersWritten():
            return completion.markers_written(transaction, now_ms)
        case _:
            assert_never(event)


def needs_producer_id(transaction: Transaction, request: Request, limits: TransactionLimits) -> bool:
    """Whether a request has to bring a new producer id."""
    match request:
        case InitProducerId():
            return init_producer_id.needs_producer_id(transaction, request, limits)
        case EndTransaction(client_version=version) if version >= RAISES_EPOCH:
            return raised_end.needs_producer_id(transaction, request)
        case _:
            return False


def restored(transactional_id: str, value: TransactionValue) -> Transaction:
    """The transaction of a record. What only the memory of a former coordinator had is lost: its last epoch.

    Of a record in version 0, so is the previous producer id.
    """
    state = TransactionState(value.state)
    if state is TransactionState.PREPARE_EPOCH_FENCE:
        state = TransactionState.PREPARE_ABORT
    return Transaction(
        transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        state=state,
        partitions=frozenset(value.partitions),
        start_ms=value.start_ms,
        last_update_ms=value.last_update_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_version,
    )


def resume(transaction: Transaction) -> list[Action]:
    """The actions that a former coordinator may have left undone."""
    return [markers_of(transaction)] if transaction.state.is_prepared else []


def is_finished(transaction: Transaction) -> bool:
    """Whether the shell may drop it: expired, or never written."""
    is_gone = transaction.state is TransactionState.DEAD or not transaction.is_known
    return is_gone and transaction.pending is None


def check_invariants(transaction: Transaction) -> None:
    """Assert the invariants of a transaction between any two steps."""
    after = transaction.pending
    assert transaction.producer_id >= NO_PRODUCER_ID
    assert -1 <= transaction.producer_epoch <= EPOCH_MAX
    assert not transaction.partitions or transaction.state in (
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    )
    assert transaction.state is not TransactionState.PREPARE_EPOCH_FENCE
    assert transaction.next_producer_id == NO_PRODUCER_ID or transaction.state.is_prepared
    assert not transaction.has_markers or transaction.state.is_prepared
    if after is None:
        return
    assert after.pending is None
    assert transaction.state in VALID_BEFORE[after.state]
    if after.producer_id == transaction.producer_id:
        assert after.producer_epoch >= transaction.producer_epoch
    if after.state.is_prepared:
        assert after.partitions == transaction.partitions
