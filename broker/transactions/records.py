"""The records of __transaction_state, byte for byte as Apache Kafka writes them.

    key    int16 version 0 | transactional id
    value  int16 version   | producer id and epoch, timeout, status, partitions, times; no value takes it away

Values of versions 0 and 1 are read; version 1 is flexible and comes from newer releases. A function that is asked to
read bytes that make no sense gives a `Damaged` back and raises nothing: one bad record must not cost a partition the
transactions in it. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from sordini.protocol.primitives import Array, Int8, Int16, Int32, Int64, NullableArray, String
from sordini.protocol.records.versioned import Damaged, read_versioned, version_of
from sordini.protocol.schema import EMPTY, NEVER, message, struct
from sordini.protocol.types import TopicPartition

KEY_VERSION: Final = 0
VALUE_VERSION_MAX: Final = 1
"""The newest that is read."""
NO_TIMESTAMP: Final = -1

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
    """Under which key a transactional id lies."""

    transactional_id: String = ""


@message(versions=range(2), flexible=1)
class _Value:
    """What is known of a transactional id. Its partitions are null, and only then, when it is empty."""

    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    timeout_ms: Int32 = 0
    status: Int8 = 0
    partitions: NullableArray[_Partitions] = None
    last_update: Int64 = 0
    start: Int64 = 0


@struct
class _Partitions:
    """Partitions of one topic that the transaction wrote to."""

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

    @property
    def state_name(self) -> str:
        return STATE_NAMES[self.state]


class TransactionKey(NamedTuple):
    transactional_id: str


class UnknownKey(NamedTuple):
    """A record of a kind that is none of ours; it is to be left alone."""

    version: int


Key: TypeAlias = TransactionKey | UnknownKey | Damaged


def read_key(data: bytes | memoryview) -> Key:
    version = version_of(data)
    if isinstance(version, Damaged):
        return version
    if version > KEY_VERSION:
        return UnknownKey(version)
    key = read_versioned(_Key, version, data, newest=KEY_VERSION)
    return key if isinstance(key, Damaged) else TransactionKey(key.transactional_id)


def read_value(data: bytes | memoryview) -> TransactionValue | Damaged:
    version = version_of(data)
    if isinstance(version, Damaged):
        return version
    value = read_versioned(_Value, version, data, newest=VALUE_VERSION_MAX)
    if isinstance(value, Damaged):
        return value
    if not 0 <= value.status < len(STATE_NAMES):
        return Damaged(f"state {value.status} is none")
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
    )
