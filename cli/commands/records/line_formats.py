"""Conversion of input lines to records, and of records to output lines. Pure.

`produce --input json` reads what `consume --format json` prints, and the record is the same afterwards except for its
offset and topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from sordini.cli.common.output import bytes_from_json, bytes_in_json, json_line
from sordini.protocol.records.batch import NO_TIMESTAMP, Record
from sordini.schemas.codecs import Unregistered, ValueRefused
from sordini.system.named_tuple import NamedTuple

if TYPE_CHECKING:
    from sordini.cli.commands.records.schema_options import RecordCodecs
    from sordini.schemas.codecs import Codec

Headers = list[tuple[str, bytes | None]]
FromJson = Callable[[Any], bytes | None]
ToJson = Callable[[bytes | None], Any]
EscapeBytes = Callable[[bytes], bytes]
"""Escapes a key or value for the terminal, or leaves it unchanged."""


class OutgoingRecord(NamedTuple):
    """One record to send; a partition or timestamp of None is chosen by the producer."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp: int | None = None


class BadLine(Exception):
    """A line that is not a record; the text says why."""


class LineFormat(NamedTuple):
    """The format of a line: `[headers TAB] [key SEPARATOR] value`."""

    key_separator: bytes | None = None
    with_headers: bool = False
    null_value: bytes | None = None

    def read(self, line: bytes) -> OutgoingRecord:
        """Read one line without its end. Raises BadLine."""
        headers: Headers = []
        if self.with_headers:
            written, tab, line = line.partition(b"\t")
            if not tab:
                raise BadLine("no tab ends the headers")
            headers = _headers(written)
        key = None
        if self.key_separator is not None:
            key, separator, line = line.partition(self.key_separator)
            if not separator:
                raise BadLine(f"no {self.key_separator.decode(errors='replace')!r} ends the key")
        return OutgoingRecord(key, None if line == self.null_value else line, headers)


def read_json(
    line: bytes, key_bytes: FromJson = bytes_from_json, value_bytes: FromJson = bytes_from_json
) -> OutgoingRecord:
    """Read one line as `consume --format json` writes it; only the value is required. Raises BadLine."""
    try:
        read = json.loads(line)
        if not isinstance(read, dict) or "value" not in read:
            raise BadLine('not a JSON object with a "value"')
        headers = [(str(header["key"]), bytes_from_json(header.get("value"))) for header in read.get("headers") or []]
        partition, timestamp = _whole(read, "partition"), _whole(read, "timestamp", least=NO_TIMESTAMP)
        timestamp = None if timestamp == NO_TIMESTAMP else timestamp
        return OutgoingRecord(key_bytes(read.get("key")), value_bytes(read["value"]), headers, partition, timestamp)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadLine(f"not a record in JSON: {error}") from None


def encoded_line(read: Callable[[bytes], OutgoingRecord], codecs: RecordCodecs) -> Callable[[bytes], OutgoingRecord]:
    """Read keys and values that have a codec as JSON, and encode them. Raises BadLine."""

    def read_encoded(line: bytes) -> OutgoingRecord:
        record = read(line)
        key, value = _encoded(codecs.key, record.key, "key"), _encoded(codecs.value, record.value, "value")
        return record._replace(key=key, value=value)

    return read_encoded if codecs.key or codecs.value else read


def from_json(codec: Codec | None) -> FromJson:
    """How `read_json` makes the bytes of a key or value; what it raises is a ValueError."""
    if codec is None:
        return bytes_from_json
    encode = codec.encode
    return lambda value: None if value is None else encode(value)


def to_json(codec: Codec | None) -> ToJson:
    """The reverse of `from_json`."""
    if codec is None:
        return bytes_in_json
    decode = codec.decode

    def decoded(data: bytes | None) -> Any:
        try:
            return None if data is None else decode(data)
        except Unregistered:
            return bytes_in_json(data)

    return decoded


def to_text(codec: Codec | None, show: EscapeBytes) -> EscapeBytes:
    """How a key or value is printed alone: as it is, or decoded as one line of JSON. Raises ValueRefused."""
    if codec is None:
        return show
    decode = codec.decode

    def shown(data: bytes) -> bytes:
        try:
            return show(json_line(decode(data))[:-1])
        except Unregistered:
            return show(data)

    return shown


def _encoded(codec: Codec | None, data: bytes | None, what: str) -> bytes | None:
    if codec is None or data is None:
        return data
    try:
        return codec.encode(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise BadLine(f"the {what}: {error if isinstance(error, ValueRefused) else f'not JSON: {error}'}") from None


def with_headers(read: Callable[[bytes], OutgoingRecord], headers: Headers) -> Callable[[bytes], OutgoingRecord]:
    """Add the same headers to every record, before its own."""

    def read_with_headers(line: bytes) -> OutgoingRecord:
        record = read(line)
        return record._replace(headers=[*headers, *record.headers])

    return read_with_headers if headers else read


def _whole(read: dict[str, Any], name: str, *, least: int = 0) -> int | None:
    value = read.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise BadLine(f'"{name}" is {value!r}, not a whole number')
    return value


def _headers(written: bytes) -> Headers:
    """Read `key:value,key:value`."""
    headers: Headers = []
    for pair in filter(None, written.split(b",")):
        key, colon, value = pair.partition(b":")
        if not colon:
            raise BadLine(f"the header {pair.decode(errors='replace')!r} is not KEY:VALUE")
        headers.append((key.decode(errors="replace"), value))
    return headers


def value_line(record: Any, null: bytes, show: EscapeBytes = bytes) -> bytes:
    """The value alone."""
    return (null if record.value is None else show(record.value)) + b"\n"


def key_value_line(
    record: Any, separator: bytes, null: bytes, show_key: EscapeBytes = bytes, show_value: EscapeBytes = bytes
) -> bytes:
    """Key, separator, value."""
    return (null if record.key is None else show_key(record.key)) + separator + value_line(record, null, show_value)


def record_line(record: Any, key: ToJson = bytes_in_json, value: ToJson = bytes_in_json) -> bytes:
    """The whole record of a consumer as JSON."""
    return json_line(
        record_document(
            (record.topic, record.partition, record.offset, record.timestamp),
            key(record.key),
            value(record.value),
            record.headers,
            is_log_append_time=record.timestamp_type == 1,
        )
    )


def packed_line(topic: str, partition: int, record: Record, *, is_log_append_time: bool) -> bytes:
    """The same of a record of a pack."""
    headers = [(key.encode(errors="surrogateescape").decode(errors="replace"), one) for key, one in record.headers]
    return json_line(
        record_document(
            (topic, partition, record.offset, record.timestamp),
            bytes_in_json(record.key),
            bytes_in_json(record.value),
            headers,
            is_log_append_time=is_log_append_time,
        )
    )


def record_document(
    place: tuple[str, int, int, int],
    key: Any,
    value: Any,
    headers: Iterable[tuple[str, bytes | None]],
    *,
    is_log_append_time: bool,
) -> dict[str, Any]:
    """A record as commands print it in JSON; `place` is topic, partition, offset and timestamp (ms)."""
    topic, partition, offset, timestamp = place
    return {
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "timestamp": timestamp,
        "timestamp_type": "append" if is_log_append_time else "create",
        "key": key,
        "value": value,
        "headers": [{"key": name, "value": bytes_in_json(data)} for name, data in headers],
    }
