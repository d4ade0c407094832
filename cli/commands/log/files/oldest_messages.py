"""Messages as Kafka 0.7 wrote them, in its `.kafka` files and fetch results: read only, and without trust.

    message    length N (4)   magic 0 (1)                   CRC-32 of the payload (4)   payload (N - 5)
               length N (4)   magic 1 (1)   attributes (1)  CRC-32 of the payload (4)   payload (N - 6)

The lowest two bits of the attributes are the codec: 0 none, 1 gzip, 2 snappy. A compressed payload is a set of such
messages. A message has no offset in it: its offset is the number in the file's name plus its position in the file, and
those in a compressed payload have that of the message around them.

    fetch result (MessageSetSend)             length (4)   error code (2)   messages
    multi-fetch result (MultiMessageSetSend)  length (4)   error code (2)   fetch results

The length counts what follows it. A fetch result may end inside a message, which the reader then fetches again.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Final

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.compression import CODEC_NAMES, GZIP, NO_CODEC, SNAPPY
from sordini.protocol.records.expansion import EXPANDED_BYTES_MAX, decompress
from sordini.system.named_tuple import NamedTuple

DEPTH_MAX: Final = 4
"""How deep compressed sets may nest."""

_NAME: Final = re.compile(r"([0-9]{11,20})\.kafka")
"""0.7 wrote 20 digits; its documentation shows 11."""
_LENGTH: Final = struct.Struct(">i")
_RESULT: Final = struct.Struct(">ih")
_ERROR_CODE_BYTES: Final = 2
_CRC: Final = struct.Struct(">I")
_HEADER_BYTES: Final = {0: 5, 1: 6}  # By magic.
_CODEC_MASK: Final = 3
_CODECS: Final = (NO_CODEC, GZIP, SNAPPY)

Read = Callable[[int, int], bytes]
"""`read(position, size)`: so many bytes, or fewer at the end."""


class Message(NamedTuple):
    """One message, whose CRC may be wrong."""

    position: int
    magic: int
    codec: int
    crc: int
    payload: bytes

    @property
    def size(self) -> int:
        """With its length field."""
        return _LENGTH.size + _HEADER_BYTES[self.magic] + len(self.payload)

    @property
    def compression(self) -> str:
        return CODEC_NAMES[self.codec] if self.codec in _CODECS else f"codec {self.codec}"

    @property
    def is_valid(self) -> bool:
        """Whether the CRC is that of the payload."""
        return zlib.crc32(self.payload) == self.crc


class Fault(NamedTuple):
    """Where reading ends too early, and why."""

    position: int
    reason: str
    is_cut: bool = False
    """Whether a message begins there that is longer than what is left."""


class FetchResult(NamedTuple):
    """The frame around what is between `start` and `end`, which is never beyond the end of the bytes."""

    position: int
    length: int
    error_code: int
    start: int
    end: int


def base_of(name: str) -> int | None:
    """The offset at which a `.kafka` file begins, by its name; None for other names."""
    match = _NAME.fullmatch(name)
    return None if match is None else int(match[1])


def messages(read: Read, start: int, end: int) -> Iterator[Message | Fault]:
    """All that lie between two positions; a fault is the last."""
    position = start
    while position < end:
        found = _message(read, position, end)
        yield found
        if isinstance(found, Fault):
            return
        position += found.size


def _message(read: Read, position: int, end: int) -> Message | Fault:
    left = end - position
    prefix = read(position, min(_LENGTH.size + 1, left))
    if len(prefix) <= _LENGTH.size:
        return Fault(position, f"{left} bytes are left, too few for a message", is_cut=True)
    (length,), magic = _LENGTH.unpack_from(prefix), prefix[_LENGTH.size]
    least = _HEADER_BYTES.get(magic)
    if least is None:
        return Fault(position, f"magic {magic}, where 0.7 has 0 or 1; {left} bytes are not read")
    if length < least:
        return Fault(position, f"a length of {length}, where magic {magic} takes {least}; {left} bytes are not read")
    if length > left - _LENGTH.size:
        size = length + _LENGTH.size
        return Fault(position, f"a message of {size} bytes begins, and {left} are left", is_cut=True)
    data = read(position + _LENGTH.size, length)
    if len(data) < length:
        return Fault(position, "the file became shorter while it was read")
    (crc,) = _CRC.unpack_from(data, least - _CRC.size)
    return Message(position, magic, data[1] & _CODEC_MASK if magic else NO_CODEC, crc, data[least:])


def inner_messages(message: Message, depth: int = 1) -> Iterator[Message | Fault]:
    """The messages in a compressed one, with positions in the set that it expands to; faults say where they are."""
    if message.codec not in _CODECS:
        yield Fault(message.position, f"{message.compression}, where 0.7 has 1 (gzip) and 2 (snappy)")
        return
    if depth > DEPTH_MAX:
        yield Fault(message.position, f"more than {DEPTH_MAX} compressed sets in each other")
        return
    where = f"in the {message.compression} set"
    try:
        expanded = decompress(message.codec, message.payload, EXPANDED_BYTES_MAX)
    except BrokerError as error:
        yield Fault(message.position, f"{where}: {error}")
        return
    for one in messages(lambda position, size: expanded[position : position + size], 0, len(expanded)):
        if isinstance(one, Fault):
            yield one._replace(reason=f"{where}, at byte {one.position}: {one.reason}")
        elif not one.is_valid:
            yield Fault(one.position, f"{where}, at byte {one.position}: the CRC is wrong")
        elif one.codec == NO_CODEC:
            yield one
        else:
            for found in inner_messages(one, depth + 1):
                yield Fault(found.position, f"{where}, {found.reason}") if isinstance(found, Fault) else found


def fetch_results(read: Read, start: int, end: int) -> Iterator[FetchResult | Fault]:
    """The fetch results that follow each other between two positions; a fault is the last."""
    position = start
    while position < end:
        left = end - position
        head = read(position, min(_RESULT.size, left))
        if len(head) < _RESULT.size:
            yield Fault(position, f"{left} bytes are left, too few for a fetch result")
            return
        length, error_code = _RESULT.unpack(head)
        if length < _ERROR_CODE_BYTES:
            yield Fault(position, f"a length of {length}, where a fetch result takes 2; {left} bytes are not read")
            return
        size = _LENGTH.size + length
        yield FetchResult(position, length, error_code, position + _RESULT.size, min(position + size, end))
        if size > left:
            yield Fault(position, f"a fetch result of {size} bytes begins, and {left} are left")
        position += size
