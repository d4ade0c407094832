"""What a producer sent, where the message formats before batches come in: sent by an old client, or to be stored.

Which format a topic stores is its configuration's (`ProduceRules.magic`). From any format to any other the keys,
values and order stay; times are lost in format 0; what only a batch can say - headers, producer ids - is refused.

Offsets are not known yet when records are checked, and a wrapper of format 0 holds absolute ones: it is compressed
when the log says where it ends (`OldMessages.place`). Everything else is written here, and an offset is only stamped.
Messages that already are what the topic stores are not written again at all, wrappers of format 1 included (KIP-31).
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy
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
from sordini.protocol.records.compression import NO_CODEC, ZSTD, charge_compression, decompress
from sordini.protocol.records.produce_validation import (
    KEYLESS,
    CheckedBatches,
    ProduceRules,
    check_header,
    check_records,
    check_target,
    invalid,
    refusal_of,
    rewritten,
    times_are_bounded,
    too_large,
    window,
)
from sordini.protocol.records.work_budget import RECORD_STEPS, UNBOUNDED, Effort

_OFFSET = struct.Struct(">q")
_CRC = struct.Struct(">I")
_ATTRIBUTES_AND_TIME = struct.Struct(">Bq")
_CRC_AT = 12
_MAGIC_AT = 16
_ATTRIBUTES_AT = 17


class OldMessages:
    """Checked messages of format 0 or 1, to be stored as such. `place` makes `buffer` and `batches` ready.

    The headers are those of `legacy.message_header`, with a last offset delta that counts what a wrapper holds.
    """

    __slots__ = ("_rules", "_unwritten", "batches", "buffer")

    def __init__(self, rules: ProduceRules) -> None:
        self.buffer = memoryview(b"")
        self.batches: list[tuple[int, BatchHeader]] = []
        self._rules = rules
        self._unwritten: tuple[list[Record], int] | None = None

    @classmethod
    def written(cls, rules: ProduceRules, buffer: memoryview, count: int) -> OldMessages:
        """`count` messages back to back, or a wrapper of so many; raises BrokerError MESSAGE_TOO_LARGE."""
        made = cls(rules)
        made._lay(buffer, count)
        return made

    @classmethod
    def unwritten(cls, rules: ProduceRules, messages: list[Record], codec: int) -> OldMessages:
        """A wrapper of format 0."""
        made = cls(rules)
        made._unwritten = messages, codec
        return made

    def _lay(self, buffer: memoryview, count: int) -> None:
        self.buffer = buffer
        for entry in legacy.entries(buffer):
            if entry.size > self._rules.message_bytes_max:
                raise too_large(entry.size, self._rules)
            header = legacy.message_header(buffer, entry.position, entry.size)
            assert header is not None, "what was read or written is a message"
            self.batches.append((entry.position, header))
        if len(self.batches) == 1:
            self.batches = [(0, self.batches[0][1]._replace(last_offset_delta=count - 1))]

    def place(self, base_offset: int) -> int:
        """Give the messages offsets from `base_offset` on; the offset behind them. To be called once.

        Raises BrokerError MESSAGE_TOO_LARGE.
        """
        if self._unwritten is not None:
            messages, codec = self._unwritten
            moved = [message._replace(offset=base_offset + number) for number, message in enumerate(messages)]
            data = legacy.write_messages(moved, 0, codec=codec, codec_level=self._rules.codec_level)
            self._lay(memoryview(bytearray(data)), len(moved))
        offset = base_offset
        for number, (position, header) in enumerate(self.batches):
            self.batches[number] = position, header._replace(base_offset=offset)
            offset += header.last_offset_delta
            _OFFSET.pack_into(self.buffer, position, offset)
            offset += 1
        return offset


class Misplaced(Exception):
    """Messages carry offsets for another place than the log's end."""


class PlacedMessages(NamedTuple):
    """Checked messages of format 0 or 1 that have their offsets; those that are indexed together have one header."""

    buffer: memoryview
    batches: list[tuple[int, BatchHeader]]
    base_offset: int
    end_offset: int

    def place(self, base_offset: int) -> int:
        """The offset behind them; raises Misplaced when they are not for `base_offset`."""
        if base_offset != self.base_offset:
            raise Misplaced
        return self.end_offset


Storable = CheckedBatches | OldMessages | PlacedMessages
"""What was checked and may be stored."""


def check_batch(
    records: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int, produce_version: int, effort: Effort
) -> OldMessages:
    """Check the one version 2 batch that fills `records`, to be stored in format 0 or 1.

    Raises BrokerError: UNSUPPORTED_FOR_MESSAGE_FORMAT for what those formats cannot say, else as `check_produced`.
    """
    codec = check_header(records, header, rules, produce_version)
    if header.producer_id >= 0:
        raise _unsupported("an idempotent producer", rules)
    body = bytes(records[HEADER_SIZE:])
    if codec != NO_CODEC:
        body = decompress(codec, body, rules.expanded_bytes_max, effort)
    check_records(body, header, rules, now_ms, effort)
    effort.spend(header.record_count * 2 * RECORD_STEPS)
    messages = list(read_records(records, header, expanded_bytes_max=rules.expanded_bytes_max))
    if any(message.headers for message in messages):
        raise _unsupported("a record with headers", rules)
    _check_dates(messages)
    return _stored(messages, codec, rules, now_ms, effort)


def take_own(records: memoryview, header: BatchHeader, rules: ProduceRules, now_ms: int) -> OldMessages:
    """A batch of the broker's own, for a topic that stores format 0 or 1; raises BrokerError MESSAGE_TOO_LARGE."""
    return _stored(list(read_records(records, header)), header.codec, rules, now_ms, UNBOUNDED)


def _unsupported(what: str, rules: ProduceRules) -> BrokerError:
    return BrokerError(
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, f"{what} and a topic that stores message format {rules.magic}"
    )


def check_messages(
    records: memoryview,
    entries: list[legacy.Entry],
    rules: ProduceRules,
    now_ms: int,
    effort: Effort = UNBOUNDED,
) -> CheckedBatches | OldMessages:
    """Check a message set of format 0 or 1, for a topic of any format; raises BrokerError as `check_produced`."""
    magic = entries[0].magic
    source = _codec_of_set(records, entries, rules)
    messages: list[Record] = []
    for entry in entries:
        if entry.magic != magic:
            raise invalid(f"a message of format {entry.magic} among those of format {magic}")
        effort.spend(2 * RECORD_STEPS)
        messages += legacy.read_entry(records, entry, rules.expanded_bytes_max, effort=effort)
    _check_each(messages, rules, now_ms)
    if rules.magic == CURRENT_MAGIC:
        return _batched(messages, source, rules, now_ms, effort)
    codec = source if rules.codec is None else rules.codec
    if magic == rules.magic and codec == source:
        # Some old clients do not count the messages in a wrapper from 0; those of format 0 never count so.
        counted = magic == 1 and [message.offset for message in messages] == list(range(len(messages)))
        if source == NO_CODEC or counted:
            return _as_they_are(records, entries, messages, rules, now_ms)
    return _stored(messages, source, rules, now_ms, effort)


def _codec_of_set(records: memoryview, entries: list[legacy.Entry], rules: ProduceRules) -> int:
    """Check what one look at every outer message tells."""
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
    """The keys and times of old messages."""
    if rules.key_required:
        refusal = refusal_of(messages, ErrorCode.INVALID_RECORD, KEYLESS)
        if refusal is not None:
            raise refusal
    _check_dates(messages)
    if times_are_bounded(rules):
        refusal = refusal_of(messages, ErrorCode.INVALID_TIMESTAMP, window(rules, now_ms))
        if refusal is not None:
            raise refusal


def _check_dates(messages: list[Record]) -> None:
    for message in messages:
        if message.timestamp < NO_TIMESTAMP:
            raise BrokerError(ErrorCode.INVALID_TIMESTAMP, f"timestamp {message.timestamp}")


def _batched(messages: list[Record], source: int, rules: ProduceRules, now_ms: int, effort: Effort) -> CheckedBatches:
    """One version 2 batch."""
    check_target(source, rules)
    effort.spend(len(messages) * 2 * RECORD_STEPS)
    batch = build_batch(
        _numbered(messages, rules, now_ms),
        codec=source if rules.codec is None else rules.codec,
        codec_level=rules.codec_level,
        log_append_time=rules.log_append_time,
        effort=effort,
    )
    return rewritten(bytearray(batch), rules)


def _stored(messages: list[Record], source: int, rules: ProduceRules, now_ms: int, effort: Effort) -> OldMessages:
    """Messages of the topic's format and codec, all written anew."""
    codec = source if rules.codec is None else rules.codec
    if codec >= ZSTD:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {codec} has no message format {rules.magic}")
    effort.spend(len(messages) * 2 * RECORD_STEPS)
    numbered = _numbered(messages, rules, now_ms)
    if codec != NO_CODEC and rules.magic == 0:
        # Compressed when the log says where it ends: charged now.
        charge_compression(codec, rules.codec_level, sum(map(_size, numbered)), effort)
        return OldMessages.unwritten(rules, numbered, codec)
    data = legacy.write_messages(
        numbered,
        rules.magic,
        codec=codec,
        codec_level=rules.codec_level,
        log_append_time=rules.log_append_time,
        effort=effort,
    )
    return OldMessages.written(rules, memoryview(bytearray(data)), len(numbered))


def _size(message: Record) -> int:
    return legacy.ENTRY_BYTES_MIN + len(message.key or b"") + len(message.value or b"")


def _numbered(messages: list[Record], rules: ProduceRules, now_ms: int) -> list[Record]:
    return [
        message._replace(offset=index, timestamp=now_ms if rules.log_append_time else message.timestamp)
        for index, message in enumerate(messages)
    ]


def _as_they_are(
    records: memoryview, entries: list[legacy.Entry], messages: list[Record], rules: ProduceRules, now_ms: int
) -> OldMessages:
    """The messages that came, or the one wrapper, with no more rewritten than a time that is the log's."""
    end = entries[-1].position + entries[-1].size
    buffer = memoryview(bytearray(records[:end])) if records.readonly else records[:end]
    for entry in entries:
        _OFFSET.pack_into(buffer, entry.position, 0)  # A client's may be anything, and outside the CRC.
    if rules.magic == 1:
        if rules.log_append_time:
            for entry in entries:
                _stamp_time(buffer, entry, now_ms, LOG_APPEND_TIME_BIT)
        elif len(messages) != len(entries):
            _stamp_time(buffer, entries[0], max(message.timestamp for message in messages), 0)
    return OldMessages.written(rules, buffer, len(messages))


def _stamp_time(buffer: memoryview, entry: legacy.Entry, timestamp: int, append_time_bit: int) -> None:
    """Write a message's time and whose it is, and its CRC, if that says anything new."""
    message = buffer[entry.position : entry.position + entry.size]
    attributes = message[_ATTRIBUTES_AT] & CODEC_MASK | append_time_bit
    if (attributes, timestamp) == _ATTRIBUTES_AND_TIME.unpack_from(message, _ATTRIBUTES_AT):
        return
    _ATTRIBUTES_AND_TIME.pack_into(message, _ATTRIBUTES_AT, attributes, timestamp)
    _CRC.pack_into(message, _CRC_AT, zlib.crc32(message[_MAGIC_AT:]))
