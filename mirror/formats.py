"""The records of a mirror's internal topics, in the formats of Apache Kafka's MirrorMaker 2. Pure.

    heartbeat    key: source alias, target alias          value: version int16 = 0, timestamp int64 (ms)
    checkpoint   key: group, topic, partition int32       value: version int16 = 0, upstream int64, downstream int64,
                                                                 metadata
    offset sync  key: topic, partition int32              value: upstream int64, downstream int64, count int64
    position     key: ["MirrorSourceConnector", {"cluster": .., "partition": .., "topic": ..}]   value: {"offset": ..}
    producer     key: ["sordini-mirror", {"producer_id": ..}]                                   value: {"source": ..}

Strings have an int16 length. Topics and partitions of a checkpoint are those of the target, of the others those of the
source. Two things are ours: MirrorMaker 2 does not write an offset sync's count (the records from there on whose
offsets differ by the same) and skips it when it reads; and it knows no producer records, which say by whom copies were
written. A position's offset is that of the last record that was passed, as MirrorMaker 2 has it. The topic's id beside
it is ours.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Final

from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

_VERSION: Final = 0
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_HEARTBEAT: Final = struct.Struct(">hq")
_CHECKPOINT: Final = struct.Struct(">hqq")
_SYNC: Final = struct.Struct(">qqq")
_SHORT_SYNC: Final = struct.Struct(">qq")
_OFFSET_MAX: Final = 2**63 - 1
_CONNECTOR: Final = "MirrorSourceConnector"
_MIRROR: Final = "sordini-mirror"


class FormatError(ValueError):
    """Bytes that are no record of this kind."""


class KeyValue(NamedTuple):
    """A record as it is written and read."""

    key: bytes
    value: bytes | None
    timestamp_ms: int = -1
    """Of a record that was read; the writer gives others their time."""


class Checkpoint(NamedTuple):
    """How far a group has come, in the source and in the target."""

    group: str
    partition: TopicPartition
    """Of the target."""
    upstream: int
    downstream: int
    metadata: str = ""


class OffsetSync(NamedTuple):
    """`record_count` records of the source from offset `upstream` on are those from `downstream` on in the target."""

    partition: TopicPartition
    """Of the source."""
    upstream: int
    downstream: int
    record_count: int


class Position(NamedTuple):
    """Up to where a partition of the source is copied."""

    partition: TopicPartition
    next_offset: int
    topic_id: str = ""
    """Empty where the source has no topic ids, and from MirrorMaker 2."""


def heartbeat(source: str, target: str, timestamp_ms: int) -> KeyValue:
    return KeyValue(_text(source) + _text(target), _HEARTBEAT.pack(_VERSION, timestamp_ms))


def read_heartbeat(record: KeyValue) -> tuple[str, str, int]:
    """The source, the target and the time in ms. Raises FormatError."""
    source, position = _read_text(record.key, 0)
    target, _ = _read_text(record.key, position)
    _, timestamp_ms = _unpack(_HEARTBEAT, record.value or b"", 0)
    return source, target, timestamp_ms


def write_checkpoint(checkpoint: Checkpoint) -> KeyValue:
    key = _text(checkpoint.group) + _text(checkpoint.partition.topic) + _INT32.pack(checkpoint.partition.partition)
    return KeyValue(
        key, _CHECKPOINT.pack(_VERSION, checkpoint.upstream, checkpoint.downstream) + _text(checkpoint.metadata)
    )


def read_checkpoint(record: KeyValue) -> Checkpoint:
    """Raises FormatError."""
    group, position = _read_text(record.key, 0)
    topic, position = _read_text(record.key, position)
    value = record.value or b""
    version, upstream, downstream = _unpack(_CHECKPOINT, value, 0)
    if version != _VERSION:
        raise FormatError(f"a checkpoint of version {version}")
    metadata, _ = _read_text(value, _CHECKPOINT.size)
    partition = TopicPartition(topic, _unpack(_INT32, record.key, position)[0])
    return Checkpoint(group, partition, upstream, downstream, metadata)


def write_offset_sync(sync: OffsetSync) -> KeyValue:
    key = _text(sync.partition.topic) + _INT32.pack(sync.partition.partition)
    return KeyValue(key, _SYNC.pack(sync.upstream, sync.downstream, sync.record_count))


def read_offset_sync(record: KeyValue) -> OffsetSync:
    """Raises FormatError. Of MirrorMaker 2's only the record itself is known to be in the target: a count of 1."""
    topic, position = _read_text(record.key, 0)
    partition = TopicPartition(topic, _unpack(_INT32, record.key, position)[0])
    value = record.value or b""
    if len(value) < _SYNC.size:
        upstream, downstream = _unpack(_SHORT_SYNC, value, 0)
        return OffsetSync(partition, upstream, downstream, 1)
    return OffsetSync(partition, *_unpack(_SYNC, value, 0))


def write_position(cluster: str, position: Position) -> KeyValue:
    # MirrorMaker 2's own bytes, so that both have one key for a partition.
    place = {"cluster": cluster, "partition": position.partition.partition, "topic": position.partition.topic}
    value = {"offset": position.next_offset - 1, "topic_id": position.topic_id}
    return KeyValue(_json([_CONNECTOR, place]), _json(value))


def read_position(record: KeyValue) -> Position | None:
    """None for a record of another kind, or of a deleted position. Raises FormatError."""
    found = _parsed(record.key)
    if not _is_keyed(found, _CONNECTOR) or record.value is None:
        return None
    value = _parsed(record.value)
    try:
        partition = TopicPartition(str(found[1]["topic"]), int(found[1]["partition"]))
        next_offset = int(value["offset"]) + 1
        if not 0 <= next_offset <= _OFFSET_MAX:
            raise ValueError(next_offset)
        return Position(partition, next_offset, str(value.get("topic_id", "")))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise FormatError(f"a position of {record.key!r} with {record.value!r}") from None


def write_producer(source: str, producer_id: int) -> KeyValue:
    return KeyValue(_json([_MIRROR, {"producer_id": producer_id}]), _json({"source": source}))


def read_producer(record: KeyValue) -> int | None:
    """The producer id of a mirror; None for a record of another kind."""
    found = _parsed(record.key)
    if not _is_keyed(found, _MIRROR):
        return None
    producer_id = found[1].get("producer_id")
    return producer_id if isinstance(producer_id, int) else None


def _is_keyed(found: Any, first: str) -> bool:
    return isinstance(found, list) and len(found) == 2 and found[0] == first and isinstance(found[1], dict)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):  # The latter for what is nested too deeply.
        raise FormatError(f"{data[:100]!r} is not JSON") from None


def _text(value: str) -> bytes:
    data = value.encode()
    return _INT16.pack(len(data)) + data


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    (length,) = _unpack(_INT16, data, position)
    start, end = position + _INT16.size, position + _INT16.size + length
    if length < 0 or end > len(data):
        raise FormatError(f"a text of {length} bytes where {len(data) - start} are left")
    try:
        return data[start:end].decode(), end
    except UnicodeDecodeError:
        raise FormatError(f"{data[start:end]!r} is not UTF-8") from None


def _unpack(layout: struct.Struct, data: bytes, position: int) -> tuple[Any, ...]:
    try:
        return layout.unpack_from(data, position)
    except struct.error:
        raise FormatError(f"{len(data) - position} bytes where {layout.size} are due") from None
