"""The records of __share_group_state, byte for byte as Apache Kafka 4.4 writes them.

    key    int16 0: snapshot, 1: update | group id, topic id, partition
    value  int16 version 0              | flexible; no value: a tombstone, which has the key of a snapshot

Readers of invalid bytes return a `Damaged` and raise nothing: one damaged record must not lose the other states of a
partition. Pure.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, TypeAlias

from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.machine.stored_state import Snapshot, StateRecord, Tombstone, Update
from sordini.broker.share_state.ports import SharePartitionKey
from sordini.protocol.codecs import EMPTY, NEVER, message, struct, tagged
from sordini.protocol.primitives import ZERO_UUID, Array, Int8, Int16, Int32, Int64, String, Uuid
from sordini.protocol.records.versioned import Damaged, read_versioned, version_of, written
from sordini.protocol.types import Offset, TopicId
from sordini.system.named_tuple import NamedTuple

SHARE_STATE_TOPIC: Final = "__share_group_state"

SNAPSHOT, UPDATE = 0, 1
"""The versions of keys, which say the kind of the record."""
VALUE_VERSION: Final = 0
KEYS_CACHED: Final = 4096
"""A leader writes the state of its share partitions again and again."""
NOT_KNOWN: Final = -1
"""A start offset or a count that is None here."""


@message(versions=range(2), flexible=NEVER)
class _Key:
    """The key of a share partition."""

    group_id: String = ""
    topic_id: Uuid = ZERO_UUID
    partition: Int32 = 0


@message(versions=range(1), flexible=0)
class _SnapshotValue:
    """The whole state of a share partition."""

    snapshot_epoch: Int32 = 0
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    done: Int32 = tagged(0, since=0, default=NOT_KNOWN)
    created_ms: Int64 = 0
    written_ms: Int64 = 0
    runs: Array[_Run] = EMPTY


@message(versions=range(1), flexible=0)
class _UpdateValue:
    """What has changed since a snapshot."""

    snapshot_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    done: Int32 = tagged(0, since=0, default=NOT_KNOWN)
    runs: Array[_Run] = EMPTY


@struct
class _Run:
    """Records of one state, from the first to the last offset, which is included."""

    first: Int64 = 0
    last: Int64 = 0
    state: Int8 = 0
    deliveries: Int16 = 0


class StateKey(NamedTuple):
    """What the key of a record says."""

    kind: int
    """SNAPSHOT or UPDATE."""
    share_partition: SharePartitionKey


class UnknownStateKey(NamedTuple):
    """A record of another kind, which is left unchanged."""

    version: int


Key: TypeAlias = StateKey | UnknownStateKey | Damaged


def read_key(data: bytes | memoryview) -> Key:
    version = version_of(data)
    if isinstance(version, Damaged):
        return version
    if version > UPDATE:
        return UnknownStateKey(version)
    key = read_versioned(_Key, version, data, newest=UPDATE)
    if isinstance(key, Damaged):
        return key
    return StateKey(version, SharePartitionKey(key.group_id, TopicId(bytes(key.topic_id)), key.partition))


def read_value(kind: int, data: bytes | memoryview | None) -> StateRecord | Damaged:
    """The value of a record whose key is of that kind; None is a tombstone's."""
    if data is None:
        return Tombstone() if kind == SNAPSHOT else Damaged("an update without a value")
    version = version_of(data)
    if isinstance(version, Damaged):
        return version
    if kind == SNAPSHOT:
        whole = read_versioned(_SnapshotValue, version, data, newest=VALUE_VERSION)
        if isinstance(whole, Damaged):
            return whole
        return Snapshot(
            whole.snapshot_epoch,
            whole.state_epoch,
            whole.leader_epoch,
            _offset(whole.start_offset),
            _known(whole.done),
            whole.created_ms,
            whole.written_ms,
            _runs(whole.runs),
        )
    change = read_versioned(_UpdateValue, version, data, newest=VALUE_VERSION)
    if isinstance(change, Damaged):
        return change
    return Update(
        change.snapshot_epoch,
        change.leader_epoch,
        _offset(change.start_offset),
        _known(change.done),
        _runs(change.runs),
    )


def state_record(key: SharePartitionKey, record: StateRecord) -> tuple[bytes, bytes | None]:
    """The key and the value of a record."""
    if isinstance(record, Tombstone):
        return _key_bytes(SNAPSHOT, key), None
    runs = [_Run(first=run.first, last=run.end - 1, state=run.state, deliveries=run.deliveries) for run in record.runs]
    start = NOT_KNOWN if record.start is None else record.start
    done = NOT_KNOWN if record.done is None else record.done
    if isinstance(record, Snapshot):
        whole = _SnapshotValue(
            snapshot_epoch=record.snapshot_epoch,
            state_epoch=record.state_epoch,
            leader_epoch=record.leader_epoch,
            start_offset=start,
            done=done,
            created_ms=record.created_ms,
            written_ms=record.written_ms,
            runs=runs,
        )
        return _key_bytes(SNAPSHOT, key), written(whole, VALUE_VERSION)
    change = _UpdateValue(
        snapshot_epoch=record.snapshot_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=start,
        done=done,
        runs=runs,
    )
    return _key_bytes(UPDATE, key), written(change, VALUE_VERSION)


@lru_cache(KEYS_CACHED)
def _key_bytes(kind: int, key: SharePartitionKey) -> bytes:
    return written(_Key(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition), kind)


def _offset(number: int) -> Offset | None:
    return None if number == NOT_KNOWN else Offset(number)


def _known(number: int) -> int | None:
    return None if number == NOT_KNOWN else number


def _runs(batches: list[_Run]) -> tuple[StateRun, ...]:
    return tuple(StateRun(run.first, run.last + 1, run.state, run.deliveries) for run in batches)
