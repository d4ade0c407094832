"""Messages of formats 0 and 1 in a file, including damaged ones: for `log dump`, which shows what it can.

The broker's own reader (`protocol/records/legacy.py`) refuses a message with a wrong CRC; for diagnosis its contents
are shown as far as possible.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from sordini.cli.commands.log.files.segment_walk import MAGIC_AT, LogEntry
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import legacy
from sordini.protocol.records.batch import CODEC_MASK, LENGTH_PREFIX, LOG_APPEND_TIME_BIT, NO_TIMESTAMP
from sordini.protocol.records.compression import LZ4, NO_CODEC
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.protocol.records.lz4_checksums import lz4_with_frame_checksum
from sordini.system.named_tuple import NamedTuple

_KEY_AT: Final = {0: 18, 1: 26}
_HEAD: Final = struct.Struct(">qiIbb")
_LENGTH: Final = struct.Struct(">i")
_TIMESTAMP: Final = struct.Struct(">q")


class OldMessage(NamedTuple):
    """One message; its key and value are decoded when they are accessed."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    data: memoryview
    """From the offset on."""

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return self.magic > 0 and self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def is_valid(self) -> bool:
        """Whether the CRC is that of the bytes."""
        return zlib.crc32(self.data[MAGIC_AT:]) == self.crc

    @property
    def key_size(self) -> int:
        """The size in the message, which may be wrong; -1 for null."""
        return self._length(_KEY_AT[self.magic])

    @property
    def value_size(self) -> int:
        return self._length(self._value_at())

    @property
    def key(self) -> bytes | None:
        return self._bytes(_KEY_AT[self.magic])

    @property
    def value(self) -> bytes | None:
        return self._bytes(self._value_at())

    def _value_at(self) -> int:
        return _KEY_AT[self.magic] + _LENGTH.size + max(self.key_size, 0)

    def _length(self, at: int) -> int:
        if at + _LENGTH.size > len(self.data):
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, "a message ends inside its key or value")
        return int(_LENGTH.unpack_from(self.data, at)[0])

    def _bytes(self, at: int) -> bytes | None:
        size = self._length(at)
        if size < 0:
            return None
        start = at + _LENGTH.size
        if start + size > len(self.data):
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, f"a length of {size} with {len(self.data) - start} bytes left")
        return bytes(self.data[start : start + size])


def read_old(data: memoryview) -> OldMessage:
    """The message at the beginning of these bytes, which hold all of it."""
    offset, length, crc, magic, attributes = _HEAD.unpack_from(data)
    timestamp = _TIMESTAMP.unpack_from(data, _KEY_AT[magic] - _TIMESTAMP.size)[0] if magic else NO_TIMESTAMP
    return OldMessage(offset, crc, magic, attributes, timestamp, data[: length + LENGTH_PREFIX])


def messages_in(entry: LogEntry) -> Iterator[OldMessage]:
    """The messages of an old-format entry, with the offsets and timestamps that a consumer gets.

    Raises BrokerError if it cannot be decompressed.
    """
    outer = read_old(entry.data)
    if outer.codec == NO_CODEC:
        yield outer
        return
    inner = _inner(outer)
    if outer.magic == 0:
        yield from inner
        return
    shift = outer.offset - inner[-1].offset
    time_bit = outer.attributes & LOG_APPEND_TIME_BIT
    for message in inner:
        yield message._replace(
            offset=message.offset + max(shift, 0),
            attributes=message.attributes & ~LOG_APPEND_TIME_BIT | time_bit,
            timestamp=outer.timestamp if time_bit else message.timestamp,
        )


def _inner(outer: OldMessage) -> list[OldMessage]:
    value = outer.value
    if value is None:
        raise BrokerError(ErrorCode.INVALID_RECORD, "a compressed message without a value")
    if outer.codec == LZ4 and outer.magic == 0:
        value = lz4_with_frame_checksum(value)
    expanded = memoryview(decompress(outer.codec, value, EXPANDED_BYTES_MAX))
    messages = []
    for one in legacy.entries(expanded):
        if one.magic != outer.magic or one.size < _KEY_AT[one.magic] + 2 * _LENGTH.size:
            raise BrokerError(ErrorCode.INVALID_RECORD, f"{one.size} bytes of format {one.magic} in a wrapper")
        messages.append(read_old(expanded[one.position : one.position + one.size]))
    if not messages:
        raise BrokerError(ErrorCode.INVALID_RECORD, "a compressed message that holds none")
    return messages
