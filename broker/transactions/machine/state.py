"""The state of one transactional id.

    EMPTY --> ONGOING --> PREPARE_COMMIT --> COMPLETE_COMMIT --+
      ^          |                                             |
      |          +------> PREPARE_ABORT ---> COMPLETE_ABORT ---+--> ONGOING, EMPTY, DEAD, PREPARE_ABORT
      +--------------------------------------------------------+

An abort without an ongoing transaction is one of transaction.version 2: it raises the producer's epoch, and no more.
A prepared transaction is decided: its markers are sent until every partition has one, whatever becomes of the broker.
EMPTY is the state after InitProducerId, which leaves a completed transaction behind.

A change is pending from its write until that is committed, and only then in force. So what is in force here is what
the next coordinator finds in the log.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NewType

from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions import records
from sordini.broker.transactions.records import STATE_NAMES, TransactionValue
from sordini.protocol.types import TopicPartition

Caller = NewType("Caller", int)
"""The number of a request that waits for its answer."""
NO_CALLER: Final = Caller(0)

NO_PRODUCER_ID: Final = records.NO_PRODUCER_ID
NO_EPOCH: Final = -1
EPOCH_MAX: Final = 2**15 - 1
EPOCH_OF_PRODUCERS_MAX: Final = EPOCH_MAX - 1
"""The last epoch that a producer is given: one more is left for the coordinator, to fence it."""


class TransactionState(IntEnum):
    """The numbers are those of the records."""

    EMPTY = records.EMPTY_STATE
    ONGOING = records.ONGOING
    PREPARE_COMMIT = records.PREPARE_COMMIT
    PREPARE_ABORT = records.PREPARE_ABORT
    COMPLETE_COMMIT = records.COMPLETE_COMMIT
    COMPLETE_ABORT = records.COMPLETE_ABORT
    DEAD = records.DEAD
    """Expired; its record is a tombstone."""
    PREPARE_EPOCH_FENCE = records.EPOCH_FENCE
    """Apache Kafka's name for an abort with a raised epoch before it is written; never in a record."""

    @property
    def is_prepared(self) -> bool:
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether no transaction is ongoing or being completed."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


_IDLE = frozenset({TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})

VALID_BEFORE: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _IDLE,
    TransactionState.ONGOING: _IDLE | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    TransactionState.PREPARE_ABORT: _IDLE | {TransactionState.ONGOING},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _IDLE,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
}
"""The states from which each state is entered."""


@dataclasses.dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id, and its present or last transaction. Times in ms of the wall clock, -1 for none."""

    transactional_id: str
    producer_id: int = NO_PRODUCER_ID
    """NO_PRODUCER_ID for an id that is not known."""
    producer_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the last change: of a retried InitProducerId whose first answer was lost (KIP-360)."""
    last_epoch: int = NO_EPOCH
    """The epoch that a producer raised to get `producer_epoch` (KIP-360); NO_EPOCH when it was raised against it."""
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    last_update_ms: int = -1
    next_producer_id: int = NO_PRODUCER_ID
    """Prepared: what replaces the producer id at the completion, with epoch 0, as its epochs are exhausted."""
    client_version: int = 0
    """The transaction.version of the producer, by its last request."""
    pending: Transaction | None = None
    """What this becomes when the write in flight is committed."""
    retry_ms: int = 0
    """A change that the coordinator makes by itself is not tried before: its last write was refused."""
    has_markers: bool = False
    """Prepared, and every partition has its marker."""

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether a producer of a higher epoch needs a new producer id."""
        return self.producer_epoch >= EPOCH_OF_PRODUCERS_MAX

    @property
    def raises_epoch(self) -> bool:
        """Whether the producer is one whose epoch the end of a transaction raises."""
        return self.client_version >= RAISES_EPOCH

    @property
    def state_name(self) -> str:
        return STATE_NAMES[self.state]

    @property
    def deadline_ms(self) -> int | None:
        """When an ongoing transaction is aborted."""
        return self.start_ms + self.timeout_ms if self.state is TransactionState.ONGOING else None


def value_of(transaction: Transaction) -> TransactionValue:
    """What the record of a transaction has."""
    return TransactionValue(
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        int(transaction.state),
        tuple(sorted(transaction.partitions)),
        transaction.last_update_ms,
        transaction.start_ms,
        transaction.previous_producer_id,
        transaction.next_producer_id,
        transaction.client_version,
    )
