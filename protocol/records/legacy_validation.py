"""Validation of produced records in message formats 0 and 1: sent by an old client, or configured for the topic.

`ProduceRules.magic` is the format that the topic stores. Between formats keys, values and order stay the same; format 0
has no timestamps; headers and producer ids, which only a batch has, are refused.

Offsets are unknown when records are checked, and a wrapper of format 0 contains absolute ones: it is compressed
when its base offset is known (`LegacyMessages.assign_offsets`). All other messages are written here, and only their
offsets are set later. Messages already in the format of the topic are not rewritten, wrappers of format 1 included
(KIP-31).
"""

from __future__ import annotations

import struct
import zlib

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy, legacy_writing
from sordini.protocol.records.batch import (
    CODEC_MASK,
    CURRENT_MAGIC,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    Record,
    build_batch,
    read_records,
)
from sordini.protocol.records.compression import NO_CODEC, ZSTD, charge_compression
from sordini.protocol.records.expansion import decompress
from sordini.protocol.records.produce_validation import (
    KEYLESS,
    CheckedBatches,
    ProduceRules,
    check_header,
    check_records,
    check_target,
    invalid,
    invalid_records_error,
    rewritten,
    times_are_bounded,
    too_large,
    window,
)
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, WorkBudget
from sordini.system.named_tuple import NamedTuple

_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
_ATTRIBUTES_AND_TIME = struct.Struct(">Bq")
_CRC_AT = 12
_MAGIC_AT = 16
_ATTRIBUTES_AT = 17


class LegacyMessages:
    """Checked messages of format 0 or 1, to be stored as such. `assign_offsets` completes `buffer` and `batches`.

    The headers are those of `legacy.message_header`, with a last offset delta that counts the messages of a wrapper.
    """

    __slots__ = ("_rules", "_unwritten", "batches", "buffer")

    def __init__(self, rules: ProduceRules) -> None:
        self.buffer = memoryview(b"")
        self.batches: list[tuple[int, BatchHeader]] = []
        self._rules = rules
        self._unwritten: tuple[list[Record], int] | None = None

    @classmethod
    def written(cls, rules: ProduceRules, buffer: memoryview, count: int) -> LegacyMessages:
        """`count` consecutive messages, or a wrapper of `count`; raises BrokerError MESSAGE_TOO_LARGE."""
        made = cls(rules)
        made._set_buffer(buffer, count)
        return made

    @classmethod
    def unwritten(cls, rules: ProduceRules, messages: list[Record], codec: int) -> LegacyMessages:
        """A wrapper of format 0."""
        made = cls(rules)
        made._unwritten = messages, codec
        return made

    def _set_buffer(self, buffer: memoryview, count: int) -> None:
        self.buffer = buffer
        for entry in legacy.entries(buffer):
            if entry.size > self._rules.message_bytes_max:
                raise too_large(entry.size, self._rules)
            header = legacy.message_header(buffer, entry.position, entry.size)
            assert header is not None, "what was read or written is a message"
            self.batches.append((entry.position, header))
        if len(self.batches) == 1:
            self.batches = [(0, self.batches[0][1]._replace(last_offset_delta=count - 1))]

    def assign_offsets(self, base_offset: int) -> int:
        """Give the messages offsets from `base_offset` on; returns the next offset. To be called once.

        Raises BrokerError MESSAGE_TOO_LARGE.
        """
        if self._unwritten is not None:
            messages, codec = self._unwritten
            moved = [message._replace(offset=base_offset + number) for number, message in enumerate(messages)]
            data = legacy_writing.write_messages(moved, 0, codec=codec, codec_level=self._rules.codec_level)
            self._set_buffer(memoryview(bytearray(data)), len(moved))
        offset = base_offset
        for number, (position, header) in enumerate(self.batches):
            self.batches[number] = position, header._replace(base_offset=offset)
            offset += header.last_offset_delta
            _OFFSET.pack_into(self.buffer, position, offset)
            offset += 1
        return offset


class WrongBaseOffset(Exception):
    """Messages have offsets for another base offset than the log end offset."""


class OffsetMessages(NamedTuple):
    """Checked messages of format 0 or 1 with their offsets; messages that are indexed together share a header."""

    buffer: memoryview
    batches: list[tuple[int, BatchHeader]]
    base_offset: int
    end_offset: int

    def assign_offsets(self, base_offset: int) -> int:
        """The next offset; raises WrongBaseOffset when they were given offsets for another base offset."""
        if base_offset != self.base_offset:
            raise WrongBaseOffset
        return self.end_offset


Storable = CheckedBatches | LegacyMessages | OffsetMessages
"""Checked records that may be stored."""


def check_batch(
    records: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int, produce_version: int, budget: WorkBudget
) -> LegacyMessages:
    """Check the one version 2 batch that fills `records`, to be stored in format 0 or 1.

    Raises BrokerError: UNSUPPORTED_FOR_MESSAGE_FORMAT for what those formats lack, else as `check_produced`.
    """
    codec = check_header(records, header, rules, produce_version)
    if header.producer_id >= 0:
        raise _unsupported("an idempotent producer", rules)
    body = bytes(records[HEADER_SIZE:])
    if codec != NO_CODEC:
        body = decompress(codec, body, rules.expanded_bytes_max, budget)
    check_records(body, header, rules, now_ms, budget)
    budget.spend(header.record_count * 2 * RECORD_STEPS)
    messages = list(read_records(records, header, expanded_bytes_max=rules.expanded_bytes_max))
    if any(message.headers for message in messages):
        raise _unsupported("a record with headers", rules)
    _check_dates(messages)
    return _stored(messages, codec, rules, now_ms, budget)


def accept_own_batch(records: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int) -> LegacyMessages:
    """A batch built by the broker, for a topic that stores format 0 or 1; raises BrokerError MESSAGE_TOO_LARGE."""
    return _stored(list(read_records(records, header)), header.codec, rules, now_ms, UNBOUNDED)


def _unsupported(feature: str, rules: ProduceRules) -> BrokerError:
    return BrokerError(
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{feature} and a topic that stores message format {rules.magic}"
    )


def check_messages(
    records: memoryview,
    entries: list[legacy.RecordSetEntry],
    rules: ProduceRules,
    now_ms: int,
    budget: WorkBudget = UNBOUNDED,
) -> CheckedBatches | LegacyMessages:
    """Check a message set of format 0 or 1, for a topic of any format; raises BrokerError as `check_produced`."""
    magic = entries[0].magic
    source = _codec_of_set(records, entries, rules)
    messages: list[Record] = []
    for entry in entries:
        if entry.magic != magic:
            raise invalid(f"a message of format {entry.magic} among those of format {magic}")
        budget.spend(2 * RECORD_STEPS)
        messages += legacy.read_entry(records, entry, rules.expanded_bytes_max, budget=budget)
    _check_each(messages, rules, now_ms)
    if rules.magic == CURRENT_MAGIC:
        return _batched(messages, source, rules, now_ms, budget)
    codec = source if rules.codec is None else rules.codec
    if magic == rules.magic and codec == source:
        # Some old clients do not count the messages in a wrapper from 0; format 0 has absolute offsets.
        counted = magic == 1 and [message.offset for message in messages] == list(range(len(messages)))
        if source == NO_CODEC or counted:
            return _unchanged(records, entries, messages, rules, now_ms)
    return _stored(messages, source, rules, now_ms, budget)


def _codec_of_set(records: memoryview, entries: list[legacy.RecordSetEntry], rules: ProduceRules) -> int:
    """Check every outer message, and return the codec of the set."""
    source = NO_CODEC
    for entry in entries:
        if entry.size > rules.message_bytes_max:
            raise too_large(entry.size, rules)
        source = legacy.codec_of(records, entry) or source
        if entry.magic == 1 and records[entry.position + _ATTRIBUTES_AT] & LOG_APPEND_TIME_BIT:
            raise BrokerError(ErrorCode.INVALID_TIMESTAMP, "a client may not set the log append time")
    if source != NO_CODEC and len(entries) > 1:
        raise invalid("a compressed message does not stand alone")
    return source


def _check_each(messages: list[Record], rules: ProduceRules, now_ms: int) -> None:
    """Check keys and timestamps."""
    if rules.key_required:
        refusal = invalid_records_error(messages, ErrorCode.INVALID_RECORD, KEYLESS)
        if refusal is not None:
            raise refusal
    _check_dates(messages)
    if times_are_bounded(rules):
        refusal = invalid_records_error(messages, ErrorCode.INVALID_TIMESTAMP, window(rules, now_ms))
        if refusal is not None:
            raise refusal


def _check_dates(messages: list[Record]) -> None:
    for message in messages:
        if message.timestamp < NO_TIMESTAMP:
            raise BrokerError(ErrorCode.INVALID_TIMESTAMP, f"timestamp {message.timestamp}")


def _batched(
    messages: list[Record], source: int, rules: ProduceRules, now_ms: int, budget: WorkBudget
) -> CheckedBatches:
    """One version 2 batch."""
    check_target(source, rules)
    budget.spend(len(messages) * 2 * RECORD_STEPS)
    batch = build_batch(
        _numbered(messages, rules, now_ms),
        codec=source if rules.codec is None else rules.codec,
        codec_level=rules.codec_level,
        log_append_time=rules.log_append_time,
        budget=budget,
    )
    return rewritten(bytearray(batch), rules)


def _stored(
    messages: list[Record], source: int, rules: ProduceRules, now_ms: int, budget: WorkBudget
) -> LegacyMessages:
    """The messages rewritten in the topic's format and codec."""
    codec = source if rules.codec is None else rules.codec
    if codec >= ZSTD:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} has no message format {rules.magic}")
    budget.spend(len(messages) * 2 * RECORD_STEPS)
    numbered = _numbered(messages, rules, now_ms)
    if codec != NO_CODEC and rules.magic == 0:
        # Compressed when the base offset is known: charged now.
        charge_compression(codec, rules.codec_level, sum(map(_size, numbered)), budget)
        return LegacyMessages.unwritten(rules, numbered, codec)
    data = legacy_writing.write_messages(
        numbered,
        rules.magic,
        codec=codec,
        codec_level=rules.codec_level,
        log_append_time=rules.log_append_time,
        budget=budget,
    )
    return LegacyMessages.written(rules, memoryview(bytearray(data)), len(numbered))


def _size(message: Record) -> int:
    return legacy.ENTRY_BYTES_MIN + len(message.key or b"") + len(message.value or b"")


def _numbered(messages: list[Record], rules: ProduceRules, now_ms: int) -> list[Record]:
    return [
        message._replace(offset=index, timestamp=now_ms if rules.log_append_time else message.timestamp)
        for index, message in enumerate(messages)
    ]


def _unchanged(
    records: memoryview, entries: list[legacy.RecordSetEntry], messages: list[Record], rules: ProduceRules, now_ms: int
) -> LegacyMessages:
    """The received messages, or the one wrapper; only offsets and LogAppendTime are written."""
    end = entries[-1].position + entries[-1].size
    buffer = memoryview(bytearray(records[:end])) if records.readonly else records[:end]
    for entry in entries:
        _OFFSET.pack_into(buffer, entry.position, 0)  # A client may send any offset, and it is outside the CRC.
    if rules.magic == 1:
        if rules.log_append_time:
            for entry in entries:
                _stamp_time(buffer, entry, now_ms, LOG_APPEND_TIME_BIT)
        elif len(messages) != len(entries):
            _stamp_time(buffer, entries[0], max(message.timestamp for message in messages), 0)
    return LegacyMessages.written(rules, buffer, len(messages))


def _stamp_time(buffer: memoryview, entry: legacy.RecordSetEntry, timestamp: int, append_time_bit: int) -> None:
    """Write a message's timestamp, timestamp type and CRC, if they differ."""
    message = buffer[entry.position : entry.position + entry.size]
    attributes = message[_ATTRIBUTES_AT] & CODEC_MASK | append_time_bit
    if (attributes, timestamp) == _ATTRIBUTES_AND_TIME.unpack_from(message, _ATTRIBUTES_AT):
        return
    _ATTRIBUTES_AND_TIME.pack_into(message, _ATTRIBUTES_AT, attributes, timestamp)
    _CRC.pack_into(message, _CRC_AT, zlib.crc32(message[_MAGIC_AT:]))
