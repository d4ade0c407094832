"""The events and actions of a transactional id's machine.

`machine.step(transaction, event, now_ms, limits)` returns the transaction after the event, and a list of actions to be
carried out in order. Each request is answered by one `TransactionReply`, at once or with a `TransactionWrite`. The
shell appends a `TransactionWrite` to the log and reports `WriteCommitted` when it is committed, or `WriteRefused` when
it is not in the log. It reports nothing for a write that is in the log and not committed yet, even if it has answered
its caller with an error.
"""

from __future__ import annotations

from sordini.broker.transactions.machine.state import Caller
from sordini.broker.transactions.records import TransactionValue
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple


class TransactionLimits(NamedTuple):
    """The configuration that the machine decides by."""

    timeout_ms_max: int = 900_000
    """transaction.max.timeout.ms"""
    expiration_ms: int = 604_800_000
    """transactional.id.expiration.ms"""


class ProducerIdentity(NamedTuple):
    """A producer as it names itself."""

    producer_id: int
    epoch: int


# Events.


class InitProducerId(NamedTuple):
    """A producer of this transactional id starts, or raises its own epoch (KIP-360)."""

    caller: Caller
    timeout_ms: int
    expected: ProducerIdentity | None = None
    """What the producer has, if it raises its epoch."""
    new_producer_id: int | None = None
    """One that no producer had before; required where `machine.needs_producer_id`."""


class AddPartitions(NamedTuple):
    """A producer will write to these partitions; the first of them begin a transaction."""

    caller: Caller
    producer: ProducerIdentity
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    """The transaction.version of the request; with 2 a leader sends it for a producer that writes to the partition."""


class EndTransaction(NamedTuple):
    caller: Caller
    producer: ProducerIdentity
    commits: bool
    client_version: int = 0
    """The transaction.version of the request; with 2 the end raises the producer's epoch."""
    new_producer_id: int | None = None
    """As of InitProducerId."""


class Tick(NamedTuple):
    """What is due is done; a tick that comes too early changes nothing."""


class Expire(NamedTuple):
    """Remove the transactional id if it has not been used for `TransactionLimits.expiration_ms`."""


class WriteCommitted(NamedTuple):
    """The write in flight is committed."""


class WriteRefused(NamedTuple):
    """The write in flight is not in the log, and will not be."""


class MarkersWritten(NamedTuple):
    """Every partition of the prepared transaction has its marker."""


Request = InitProducerId | AddPartitions | EndTransaction
Event = Request | Tick | Expire | WriteCommitted | WriteRefused | MarkersWritten


# Answers and actions.


class TransactionAnswer(NamedTuple):
    """Of every request; the producer of InitProducerId, and of an end that raised its epoch."""

    error: ErrorCode = ErrorCode.NONE
    producer: ProducerIdentity | None = None


class TransactionReply(NamedTuple):
    caller: Caller
    answer: TransactionAnswer


class TransactionWrite(NamedTuple):
    """Append a record; None is a tombstone."""

    value: TransactionValue | None
    reply: TransactionReply | None = None
    """Sent when the write is committed; if it fails, the caller is sent the error."""


class SendMarkers(NamedTuple):
    """Write the marker of this epoch to each partition, until all have it."""

    producer: ProducerIdentity
    commits: bool
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    """With 2 the epoch is higher than that of every record of the transaction."""


class TimedOut(NamedTuple):
    """For the log: the coordinator aborts a transaction that took too long."""

    producer: ProducerIdentity
    timeout_ms: int


Action = TransactionReply | TransactionWrite | SendMarkers | TimedOut
