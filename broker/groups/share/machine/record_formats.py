"""The records of share groups in __consumer_offsets, byte for byte as Apache Kafka 4.4 writes them.

    key    int16 | 10: group, member -> what a member said of itself
                 | 11: group         -> the group epoch
                 | 12: group         -> the assignment epoch
                 | 13: group, member -> the member's target
                 | 14: group, member -> what the member has
                 | 15: group         -> whose states the share coordinator has
    value  int16 0 | the message; no value: a tombstone

Readers of invalid bytes return a `Damaged` and raise nothing, as those of the other records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, TypeVar

from sordini.broker.groups.consumer.machine.changes import (
    GroupEpoch,
    GroupEpochChange,
    TargetChange,
    TargetEpoch,
    TargetEpochChange,
)
from sordini.broker.groups.share.machine.changes import Assigned, AssignedChange, Change, MemberChange, StatesChange
from sordini.broker.groups.share.machine.state import (
    Partitions,
    PartitionStates,
    ShareMember,
    StateTopic,
    StateTopics,
)
from sordini.protocol.codecs import EMPTY, NEVER, decode, encode, message, struct, tagged
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import ZERO_UUID, Array, Int8, Int32, Int64, NullableString, String, Uuid
from sordini.protocol.records.versioned import Damaged, read_versioned, version_of
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

MEMBER, GROUP_EPOCH, TARGET_EPOCH, TARGET, ASSIGNMENT, STATES = range(10, 16)
VALUE_VERSION = 0
STABLE = 0
"""The state of every member."""

_PREFIX = Struct(">h")
T = TypeVar("T")


@message(versions=range(1), flexible=NEVER)
class _GroupKey:
    group: String = ""


@message(versions=range(1), flexible=NEVER)
class _MemberKey:
    group: String = ""
    member_id: String = ""


@message(versions=range(1), flexible=0)
class _MemberValue:
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = EMPTY


@message(versions=range(1), flexible=0)
class _GroupEpochValue:
    """The hash is no tagged field here, other than in a consumer group's."""

    epoch: Int32 = 0
    metadata_hash: Int64 = 0


@message(versions=range(1), flexible=0)
class _TargetEpochValue:
    assignment_epoch: Int32 = 0
    assignment_timestamp: Int64 = tagged(0, since=0, default=0)


@message(versions=range(1), flexible=0)
class _TargetValue:
    topic_partitions: Array[_TopicPartitions] = EMPTY


@struct
class _TopicPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = EMPTY


@message(versions=range(1), flexible=0)
class _AssignmentValue:
    member_epoch: Int32 = 0
    previous_member_epoch: Int32 = 0
    state: Int8 = STABLE
    assigned_partitions: Array[_TopicPartitions] = EMPTY


@message(versions=range(1), flexible=0)
class _StatesValue:
    initializing_topics: Array[_StateTopic] = EMPTY
    initialized_topics: Array[_StateTopic] = EMPTY
    deleting_topics: Array[_TopicName] = EMPTY


@struct
class _StateTopic:
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: Array[Int32] = EMPTY


@struct
class _TopicName:
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""


class ShareGroupRecord(NamedTuple):
    """A record of a share group, read back."""

    group_id: str
    change: Change


def written(group_id: str, change: Change) -> tuple[bytes, bytes | None]:
    """The key and the value of a change; a tombstone's value is None."""
    match change:
        case MemberChange(member_id, member):
            return _key(MEMBER, group_id, member_id), member and _value(_member(member))
        case GroupEpochChange(value):
            return _key(GROUP_EPOCH, group_id), value and _value(
                _GroupEpochValue(epoch=value.epoch, metadata_hash=value.metadata_hash)
            )
        case TargetEpochChange(target):
            return _key(TARGET_EPOCH, group_id), target and _value(
                _TargetEpochValue(assignment_epoch=target.epoch, assignment_timestamp=target.assigned_ms)
            )
        case TargetChange(member_id, partitions):
            body = None if partitions is None else _value(_TargetValue(topic_partitions=_rows(partitions)))
            return _key(TARGET, group_id, member_id), body
        case AssignedChange(member_id, assigned):
            return _key(ASSIGNMENT, group_id, member_id), assigned and _value(_assignment(assigned))
        case StatesChange(states):
            return _key(STATES, group_id), states and _value(_states(states))


def _key(kind: int, group_id: str, member_id: str | None = None) -> bytes:
    key = _GroupKey(group=group_id) if member_id is None else _MemberKey(group=group_id, member_id=member_id)
    return _PREFIX.pack(kind) + encode(key, 0)


def _value(value: Any) -> bytes:
    return _PREFIX.pack(VALUE_VERSION) + encode(value, VALUE_VERSION)


def _member(member: ShareMember) -> _MemberValue:
    return _MemberValue(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
    )


def _rows(partitions: Partitions) -> list[_TopicPartitions]:
    return [_TopicPartitions(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in partitions.items()]


def _assignment(assigned: Assigned) -> _AssignmentValue:
    return _AssignmentValue(
        member_epoch=assigned.epoch,
        previous_member_epoch=assigned.previous_epoch,
        assigned_partitions=_rows(assigned.assigned),
    )


def _states(states: PartitionStates) -> _StatesValue:
    return _StatesValue(
        initializing_topics=_state_topics(states.initializing),
        initialized_topics=_state_topics(states.initialized),
        deleting_topics=[_TopicName(topic_id=topic, topic_name=name) for topic, name in states.deleting.items()],
    )


def _state_topics(topics: StateTopics) -> list[_StateTopic]:
    return [
        _StateTopic(topic_id=topic_id, topic_name=topic.name, partitions=sorted(topic.partitions))
        for topic_id, topic in topics.items()
    ]


def read(key: bytes | memoryview, value: bytes | memoryview | None) -> ShareGroupRecord | Damaged | None:
    """The change that a record is; None for a key of another kind."""
    kind = version_of(key)
    if isinstance(kind, Damaged):
        return kind
    reader = _READERS.get(kind)
    if reader is None:
        return None
    has_member = kind in _OF_MEMBERS
    try:
        read_key: Any = decode(_MemberKey if has_member else _GroupKey, 0, memoryview(key), _PREFIX.size)[0]
    except WireError as error:
        return Damaged(str(error))
    change = reader(read_key.member_id if has_member else "", value)
    return change if isinstance(change, Damaged) else ShareGroupRecord(read_key.group, change)


def _read_value(cls: type[T], value: bytes | memoryview) -> T | Damaged:
    version = version_of(value)
    return version if isinstance(version, Damaged) else read_versioned(cls, version, value, newest=VALUE_VERSION)


def _read_member(member_id: str, data: Any) -> Change | Damaged:
    if data is None:
        return MemberChange(member_id, None)
    value = _read_value(_MemberValue, data)
    if isinstance(value, Damaged):
        return value
    topics = frozenset(value.subscribed_topic_names)
    return MemberChange(member_id, ShareMember(member_id, value.rack_id, value.client_id, value.client_host, topics))


def _read_group_epoch(_member_id: str, data: Any) -> Change | Damaged:
    if data is None:
        return GroupEpochChange(None)
    value = _read_value(_GroupEpochValue, data)
    if isinstance(value, Damaged):
        return value
    return GroupEpochChange(GroupEpoch(value.epoch, value.metadata_hash))


def _read_target_epoch(_member_id: str, data: Any) -> Change | Damaged:
    if data is None:
        return TargetEpochChange(None)
    value = _read_value(_TargetEpochValue, data)
    if isinstance(value, Damaged):
        return value
    return TargetEpochChange(TargetEpoch(value.assignment_epoch, value.assignment_timestamp))


def _read_target(member_id: str, data: Any) -> Change | Damaged:
    if data is None:
        return TargetChange(member_id, None)
    value = _read_value(_TargetValue, data)
    if isinstance(value, Damaged):
        return value
    return TargetChange(member_id, _read_rows(value.topic_partitions))


def _read_rows(rows: Iterable[_TopicPartitions]) -> Partitions:
    return {TopicId(row.topic_id): frozenset(row.partitions) for row in rows}


def _read_assignment(member_id: str, data: Any) -> Change | Damaged:
    if data is None:
        return AssignedChange(member_id, None)
    value = _read_value(_AssignmentValue, data)
    if isinstance(value, Damaged):
        return value
    assigned = Assigned(value.member_epoch, value.previous_member_epoch, _read_rows(value.assigned_partitions))
    return AssignedChange(member_id, assigned)


def _read_states(_member_id: str, data: Any) -> Change | Damaged:
    if data is None:
        return StatesChange(None)
    value = _read_value(_StatesValue, data)
    if isinstance(value, Damaged):
        return value
    states = PartitionStates(
        _read_state_topics(value.initializing_topics),
        _read_state_topics(value.initialized_topics),
        {TopicId(row.topic_id): row.topic_name for row in value.deleting_topics},
    )
    return StatesChange(states)


def _read_state_topics(rows: Iterable[_StateTopic]) -> StateTopics:
    return {TopicId(row.topic_id): StateTopic(row.topic_name, frozenset(row.partitions)) for row in rows}


_READERS: Mapping[int, Callable[[str, Any], Change | Damaged]] = {
    MEMBER: _read_member,
    GROUP_EPOCH: _read_group_epoch,
    TARGET_EPOCH: _read_target_epoch,
    TARGET: _read_target,
    ASSIGNMENT: _read_assignment,
    STATES: _read_states,
}
_OF_MEMBERS = frozenset({MEMBER, TARGET, ASSIGNMENT})
