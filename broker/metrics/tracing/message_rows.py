"""The messages of a slow request, decoded once more from what was kept of them: partitions and error codes. Pure.

Messages name their rows differently (`topics`, `topic_data`, `responses`), so the names are tried one after the other.
Bytes that are cut off or malformed are no message. At most ROWS_MAX rows are read, and names are cut to TEXT_MAX.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from sordini.broker.metrics.tracing.slow_request import Pieces
from sordini.protocol import codecs
from sordini.protocol.errors import WireError
from sordini.protocol.headers import read_response_header
from sordini.protocol.primitives import ROW_COST, ZERO_UUID, read_varint
from sordini.protocol.served_apis import Api
from sordini.protocol.types import TopicId, topic_id_text
from sordini.system.named_tuple import NamedTuple

ROWS_MAX: Final = 1_000
TEXT_MAX: Final = 256
FILE_BYTES_MAX: Final = 1024 * 1024
"""Of records in files: their place in a response is filled with zeros to decode it."""
COST_MAX: Final = 2 * ROWS_MAX * ROW_COST
_LENGTH_BYTES: Final = 4
_INT16: Final = struct.Struct(">h")
_NO_TRANSACTIONS_BEFORE: Final = 3
"""Below this version a Produce has no transactional id."""

TOPIC_ROWS: Final = ("topics", "topic_data", "responses")
TOPIC_NAMES: Final = ("name", "topic")
PARTITION_ROWS: Final = ("partitions", "partition_data", "partition_responses", "partition_indexes")
PARTITION_NUMBERS: Final = ("index", "partition", "partition_index")

NameOf = Callable[[TopicId], str | None]
"""The name of the topic with an id, where there is one."""


class Row(NamedTuple):
    """A topic partition, or a topic (`partition` is None), with its error code; 0 in a request."""

    topic: str
    partition: int | None
    error_code: int

    def __str__(self) -> str:
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


def request_message(api: Api, version: int, head: bytes, position: int) -> Any:
    """The request whose body is at `position`; None where it cannot be decoded."""
    return _decoded(api.request, version, memoryview(head), position)


def response_message(api: Api, version: int, pieces: Pieces | None) -> Any:
    """The response of a frame in pieces; None where it cannot be decoded."""
    if pieces is None or sum(piece for piece in pieces if isinstance(piece, int)) > FILE_BYTES_MAX:
        return None
    frame = memoryview(b"".join(bytes(piece) if isinstance(piece, int) else piece for piece in pieces))
    try:
        _, position = read_response_header(api, version, frame[_LENGTH_BYTES:])
    except WireError:
        return None
    return _decoded(api.response, version, frame, _LENGTH_BYTES + position)


def _decoded(kind: type, version: int, frame: memoryview, position: int) -> Any:
    try:
        return codecs.decoder(kind, version)(frame, position, COST_MAX)[0]
    except WireError:
        return None


def produce_acks(version: int, head: bytes, position: int) -> int | None:
    """The acks of a Produce, whose records may be cut off; None where they are not to be read."""
    frame = memoryview(head)
    try:
        if version >= _NO_TRANSACTIONS_BEFORE:
            position = _behind_transactional_id(version, frame, position)
        found: int = _INT16.unpack_from(frame, position)[0]
    except (WireError, struct.error, IndexError):
        return None
    return found


_FLEXIBLE_PRODUCE: Final = 9


def _behind_transactional_id(version: int, frame: memoryview, position: int) -> int:
    if version >= _FLEXIBLE_PRODUCE:
        size, position = read_varint(frame, position)
        return position + max(size - 1, 0)
    length: int = _INT16.unpack_from(frame, position)[0]
    return position + _INT16.size + max(length, 0)


def rows_of(message: Any, name_of: NameOf) -> list[Row]:
    """The topic partitions of a message, at most ROWS_MAX."""
    return list(islice(_rows(message, name_of), ROWS_MAX))


def _rows(message: Any, name_of: NameOf) -> Iterator[Row]:
    for topic in _first(message, TOPIC_ROWS) or ():
        if isinstance(topic, (str, int)):
            continue
        name = _topic_name(topic, name_of)
        partitions = _first(topic, PARTITION_ROWS)
        if not partitions:
            yield Row(name, None, getattr(topic, "error_code", 0))
            continue
        for partition in partitions:
            if isinstance(partition, int):
                yield Row(name, partition, 0)
            else:
                number = _first(partition, PARTITION_NUMBERS)
                yield Row(name, number, getattr(partition, "error_code", 0))


def _topic_name(topic: Any, name_of: NameOf) -> str:
    name = _first(topic, TOPIC_NAMES)
    topic_id = getattr(topic, "topic_id", ZERO_UUID)
    if not name and topic_id != ZERO_UUID:
        name = name_of(TopicId(topic_id)) or topic_id_text(TopicId(topic_id))
    return str(name or "")[:TEXT_MAX]


def _first(owner: Any, names: tuple[str, ...]) -> Any:
    """The value of the first of these fields that a message has."""
    for name in names:
        if hasattr(owner, name):
            return getattr(owner, name)
    return None
