"""The records of consumer groups in __consumer_offsets, byte for byte as Apache Kafka 4.4 writes them.

    key    int16 | 3: group                      -> the group epoch
                 | 4: group                      -> partition counts of releases before 4.1, which are ignored
                 | 5: group, member              -> what a member said of itself
                 | 6: group                      -> the assignment epoch
                 | 7: group, member              -> the member's target
                 | 8: group, member              -> what the member owns
                 | 16: group, regular expression -> the topics that it matches
    value  int16 0 | the message; no value: a tombstone

Readers of invalid bytes return a `Damaged` and raise nothing, as those of the other records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Any, TypeVar

from sordini.broker.groups.consumer.machine.changes import (
    Assigned,
    AssignmentChange,
    Change,
    GroupEpoch,
    GroupEpochChange,
    OldMetadataChange,
    RegexChange,
    SubscriptionChange,
    TargetChange,
    TargetEpoch,
    TargetEpochChange,
)
from sordini.broker.groups.consumer.machine.state import (
    ClassicMember,
    ClassicProtocol,
    ConsumerMember,
    MemberState,
    Owned,
    Partitions,
    ResolvedRegex,
)
from sordini.protocol.codecs import EMPTY, NEVER, decode, encode, message, struct, tagged
from sordini.protocol.errors import WireError
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Bytes,
    Int8,
    Int32,
    Int64,
    NullableArray,
    NullableString,
    String,
    Uuid,
)
from sordini.protocol.records.versioned import Damaged, read_versioned, version_of
from sordini.protocol.types import TopicId
from sordini.system.named_tuple import NamedTuple

GROUP_EPOCH, OLD_METADATA, SUBSCRIPTION, TARGET_EPOCH, TARGET, ASSIGNMENT, REGEX = 3, 4, 5, 6, 7, 8, 16
VALUE_VERSION = 0

_PREFIX = Struct(">h")
T = TypeVar("T")


@message(versions=range(1), flexible=NEVER)
class _GroupKey:
    group: String = ""


@message(versions=range(1), flexible=NEVER)
class _PairKey:
    """A group, and a member id or a regular expression."""

    group: String = ""
    name: String = ""


@message(versions=range(1), flexible=0)
class _GroupEpochValue:
    epoch: Int32 = 0
    metadata_hash: Int64 = tagged(0, since=0, default=0)


@message(versions=range(1), flexible=0)
class _SubscriptionValue:
    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Array[String] = EMPTY
    subscribed_topic_regex: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString = None
    classic_member_metadata: _ClassicMember | None = tagged(0, since=0, default=None, is_marked=True)


@struct
class _ClassicMember:
    """A member that speaks the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: Array[_ClassicProtocol] = EMPTY


@struct
class _ClassicProtocol:
    name: String = ""
    metadata: Bytes = b""


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
    state: Int8 = 0
    assigned_partitions: Array[_OwnedPartitions] = EMPTY
    partitions_pending_revocation: Array[_OwnedPartitions] = EMPTY


@struct
class _OwnedPartitions:
    topic_id: Uuid = ZERO_UUID
    partitions: Array[Int32] = EMPTY
    assignment_epochs: NullableArray[Int32] = tagged(0, since=0, default=None)


@message(versions=range(1), flexible=0)
class _RegexValue:
    topics: Array[String] = EMPTY
    version: Int64 = 0
    timestamp: Int64 = 0


class ConsumerGroupRecord(NamedTuple):
    """A record of a consumer group, read back."""

    group_id: str
    change: Change


def written(group_id: str, change: Change) -> tuple[bytes, bytes | None]:
    """The key and the value of a change; a tombstone's value is None."""
    match change:
        case GroupEpochChange(value):
            return _key(GROUP_EPOCH, group_id), value and _value(
                _GroupEpochValue(epoch=value.epoch, metadata_hash=value.metadata_hash)
            )
        case OldMetadataChange():
            return _key(OLD_METADATA, group_id), None
        case SubscriptionChange(member_id, member):
            return _key(SUBSCRIPTION, group_id, member_id), member and _value(_subscription(member))
        case TargetEpochChange(target):
            return _key(TARGET_EPOCH, group_id), target and _value(
                _TargetEpochValue(assignment_epoch=target.epoch, assignment_timestamp=target.assigned_ms)
            )
        case TargetChange(member_id, partitions):
            body = None if partitions is None else _value(_TargetValue(topic_partitions=_targets(partitions)))
            return _key(TARGET, group_id, member_id), body
        case AssignmentChange(member_id, assigned):
            return _key(ASSIGNMENT, group_id, member_id), assigned and _value(_assignment(assigned))
        case RegexChange(regex, resolved):
            return _key(REGEX, group_id, regex), resolved and _value(
                _RegexValue(topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.resolved_ms)
            )


def _key(kind: int, group_id: str, name: str | None = None) -> bytes:
    key = _GroupKey(group=group_id) if name is None else _PairKey(group=group_id, name=name)
    return _PREFIX.pack(kind) + encode(key, 0)


def _value(value: Any) -> bytes:
    return _PREFIX.pack(VALUE_VERSION) + encode(value, VALUE_VERSION)


def _subscription(member: ConsumerMember) -> _SubscriptionValue:
    return _SubscriptionValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topics),
        subscribed_topic_regex=member.subscribed_regex or "",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=None if member.classic is None else _classic(member.classic),
    )


def _classic(classic: ClassicMember) -> _ClassicMember:
    return _ClassicMember(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            _ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in classic.protocols
        ],
    )


def _targets(partitions: Partitions) -> list[_TopicPartitions]:
    return [_TopicPartitions(topic_id=topic, partitions=sorted(indexes)) for topic, indexes in partitions.items()]


def _assignment(assigned: Assigned) -> _AssignmentValue:
    return _AssignmentValue(
        member_epoch=assigned.epoch,
        previous_member_epoch=assigned.previous_epoch,
        state=assigned.state,
        assigned_partitions=_owned(assigned.assigned),
        partitions_pending_revocation=_owned(assigned.pending_revocation),
    )


def _owned(owned: Owned) -> list[_OwnedPartitions]:
    rows = []
    for topic, epochs in owned.items():
        indexes = sorted(epochs)
        rows.append(
            _OwnedPartitions(topic_id=topic, partitions=indexes, assignment_epochs=[epochs[index] for index in indexes])
        )
    return rows


def read(key: bytes | memoryview, value: bytes | memoryview | None) -> ConsumerGroupRecord | Damaged | None:
    """The change that a record is; None for a key of another kind."""
    kind = version_of(key)
    if isinstance(kind, Damaged):
        return kind
    reader = _READERS.get(kind)
    if reader is None:
        return None
    is_pair = kind in _PAIRS
    read_key = _read_key(_PairKey if is_pair else _GroupKey, key)
    if isinstance(read_key, Damaged):
        return read_key
    change = reader(read_key.name if is_pair else "", value)
    return change if isinstance(change, Damaged) else ConsumerGroupRecord(read_key.group, change)


def _read_key(cls: Any, key: bytes | memoryview) -> Any:
    try:
        return decode(cls, 0, memoryview(key), _PREFIX.size)[0]
    except WireError as error:
        return Damaged(str(error))


def _read_value(cls: type[T], value: bytes | memoryview) -> T | Damaged:
    version = version_of(value)
    return version if isinstance(version, Damaged) else read_versioned(cls, version, value, newest=VALUE_VERSION)


def _group_epoch(_name: str, data: Any) -> Change | Damaged:
    if data is None:
        return GroupEpochChange(None)
    value = _read_value(_GroupEpochValue, data)
    if isinstance(value, Damaged):
        return value
    return GroupEpochChange(GroupEpoch(value.epoch, value.metadata_hash))


def _old_metadata(_name: str, _data: Any) -> Change | Damaged:
    return OldMetadataChange()


def _read_subscription(name: str, data: Any) -> Change | Damaged:
    if data is None:
        return SubscriptionChange(name, None)
    value = _read_value(_SubscriptionValue, data)
    if isinstance(value, Damaged):
        return value
    member = ConsumerMember(
        name,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or None,
        value.rebalance_timeout_ms,
        value.server_assignor,
        classic=None if value.classic_member_metadata is None else _read_classic(value.classic_member_metadata),
    )
    return SubscriptionChange(name, member)


def _read_classic(value: _ClassicMember) -> ClassicMember:
    protocols = (ClassicProtocol(protocol.name, protocol.metadata) for protocol in value.supported_protocols)
    return ClassicMember(value.session_timeout_ms, tuple(protocols))


def _target_epoch(_name: str, data: Any) -> Change | Damaged:
    if data is None:
        return TargetEpochChange(None)
    value = _read_value(_TargetEpochValue, data)
    if isinstance(value, Damaged):
        return value
    return TargetEpochChange(TargetEpoch(value.assignment_epoch, value.assignment_timestamp))


def _target(name: str, data: Any) -> Change | Damaged:
    if data is None:
        return TargetChange(name, None)
    value = _read_value(_TargetValue, data)
    if isinstance(value, Damaged):
        return value
    rows = {TopicId(row.topic_id): frozenset(row.partitions) for row in value.topic_partitions if row.partitions}
    return TargetChange(name, rows)


def _read_assignment(name: str, data: Any) -> Change | Damaged:
    if data is None:
        return AssignmentChange(name, None)
    value = _read_value(_AssignmentValue, data)
    if isinstance(value, Damaged):
        return value
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    epoch = value.member_epoch
    assigned = Assigned(
        epoch,
        value.previous_member_epoch,
        state,
        _read_owned(value.assigned_partitions, epoch),
        _read_owned(value.partitions_pending_revocation, epoch),
    )
    return AssignmentChange(name, assigned)


def _read_owned(rows: Iterable[_OwnedPartitions], member_epoch: int) -> Owned:
    """Releases before 4.3 wrote no epochs: the member's stands for them."""
    owned: dict[TopicId, Mapping[int, int]] = {}
    for row in rows:
        epochs = row.assignment_epochs
        if epochs is None or len(epochs) != len(row.partitions):
            epochs = [member_epoch] * len(row.partitions)
        if row.partitions:
            owned[TopicId(row.topic_id)] = dict(zip(row.partitions, epochs, strict=True))
    return owned


def _read_regex(name: str, data: Any) -> Change | Damaged:
    if data is None:
        return RegexChange(name, None)
    value = _read_value(_RegexValue, data)
    if isinstance(value, Damaged):
        return value
    return RegexChange(name, ResolvedRegex(frozenset(value.topics), value.version, value.timestamp))


_READERS: Mapping[int, Callable[[str, Any], Change | Damaged]] = {
    GROUP_EPOCH: _group_epoch,
    OLD_METADATA: _old_metadata,
    SUBSCRIPTION: _read_subscription,
    TARGET_EPOCH: _target_epoch,
    TARGET: _target,
    ASSIGNMENT: _read_assignment,
    REGEX: _read_regex,
}
_PAIRS = frozenset({SUBSCRIPTION, TARGET, ASSIGNMENT, REGEX})
