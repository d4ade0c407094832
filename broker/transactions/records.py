"""The records of __transaction_state, byte for byte as Apache Kafka writes them.

    key    int16 version 0 | transactional id
    value  int16 version   | producer id and epoch, timeout, status, partitions, times; no value: a tombstone

Values are written in version 0, or with `sordini.cluster.exclusive` in version 1, which is flexible (KIP-890): it has
what an end that raises the epoch leaves behind. Apache Kafka 2.7 does not read version 1. Both are read always.
Readers of invalid bytes return a `Damaged` and raise nothing: one damaged record must not lose the transactions of a
partition. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from sordini.protocol.codecs import EMPTY, NEVER, message, struct, tagged
from sordini.protocol.primitives import Array, Int8, Int16, Int32, Int64, NullableArray, String
from sordini.protocol.records.versioned import Damaged, read_versioned, version_of, written
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

TRANSACTIONS_TOPIC: Final = "__transaction_state"

KEY_VERSION: Final = 0
KEYS_CACHED: Final = 4096
"""A transaction writes its key three times."""
VALUE_VERSION: Final = 0
FLEXIBLE_VALUE_VERSION: Final = 1
"""The newest version of values; its last fields are not in version 0."""
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1

EMPTY_STATE, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, DEAD, EPOCH_FENCE = range(8)
STATE_NAMES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


@message(versions=range(1), flexible=NEVER)
class _Key:
    """The key of a transactional id."""

    transactional_id: String = ""


@message(versions=range(2), flexible=1)
class _Value:
    """The state of a transactional id. Its partitions are null if and only if it is empty."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    timeout_ms: Int32 = 0
    status: Int8 = 0
    partitions: NullableArray[_Partitions] = None
    last_update: Int64 = 0
    start: Int64 = 0
    previous_producer_id: Int64 = tagged(0, since=1, default=NO_PRODUCER_ID)
    next_producer_id: Int64 = tagged(1, since=1, default=NO_PRODUCER_ID)
    client_version: Int16 = tagged(2, since=1, default=0)


@struct
class _Partitions:
    """The partitions of one topic that the transaction wrote to."""

    topic: String = ""
    partition_ids: Array[Int32] = EMPTY


class TransactionValue(NamedTuple):
    """A transactional id's state; times in ms, `start_ms` -1 before its first transaction."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: int
    partitions: tuple[TopicPartition, ...]
    last_update_ms: int
    start_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    """The producer id before the change that this record is of; from version 1 on, as what follows."""
    next_producer_id: int = NO_PRODUCER_ID
    """What replaces the producer id when the transaction is completed: the epochs of this one are exhausted."""
    client_version: int = 0
    """The transaction.version of the producer: 2 if the end of a transaction raises its epoch."""

    @property
    def state_name(self) -> str:
        return STATE_NAMES[self.state]


class TransactionKey(NamedTuple):
    transactional_id: str


class UnknownTransactionKey(NamedTuple):
    """A record of another kind, which is left unchanged."""

    version: int


Key: TypeAlias = TransactionKey | UnknownTransactionKey | Damaged


def read_key(data: bytes | memoryview) -> Key:
    version = version_of(data)
    if isinstance(version, Damaged):
        return version
    if version > KEY_VERSION:
        return UnknownTransactionKey(version)
    key = read_versioned(_Key, version, data, newest=KEY_VERSION)
    return key if isinstance(key, Damaged) else TransactionKey(key.transactional_id)


def read_value(data: bytes | memoryview) -> TransactionValue | Damaged:
    version = version_of(data)
    if isinstance(version, Damaged):
        return version
    value = read_versioned(_Value, version, data, newest=FLEXIBLE_VALUE_VERSION)
    if isinstance(value, Damaged):
        return value
    if not 0 <= value.status < len(STATE_NAMES):
        return Damaged(f"state {value.status} does not exist")
    listed = value.partitions or []
    if listed and value.status == EMPTY_STATE:
        return Damaged("an empty transaction with partitions")
    partitions = tuple(TopicPartition(one.topic, number) for one in listed for number in one.partition_ids)
    return TransactionValue(
        value.producer_id,
        value.producer_epoch,
        value.timeout_ms,
        value.status,
        partitions,
        value.last_update,
        value.start,
        value.previous_producer_id,
        value.next_producer_id,
        value.client_version,
    )


@lru_cache(KEYS_CACHED)
def transaction_key(transactional_id: str) -> bytes:
    return written(_Key(transactional_id=transactional_id), KEY_VERSION)


def transaction_value(value: TransactionValue, version: int = VALUE_VERSION) -> bytes:
    """Partitions are grouped by topic, topics in the order of their first partition."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in value.partitions:
        by_topic.setdefault(topic, []).append(partition)
    listed = [_Partitions(topic=topic, partition_ids=numbers) for topic, numbers in by_topic.items()]
    record = _Value(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.timeout_ms,
        status=value.state,
        partitions=None if value.state == EMPTY_STATE else listed,
        last_update=value.last_update_ms,
        start=value.start_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_version=value.client_version,
    )
    return written(record, version)
