"""Conversion of input lines to records, and of records to output lines. Pure.

`produce --input json` reads what `consume --format json` prints, and the record is the same afterwards except for its
offset and topic.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from sordini.cli.common.output import bytes_from_json, bytes_in_json, json_line
from sordini.protocol.records.batch import NO_TIMESTAMP, Record

Headers = list[tuple[str, bytes | None]]
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


def read_json(line: bytes) -> OutgoingRecord:
    """Read one line as `consume --format json` writes it; only the value is required. Raises BadLine."""
    try:
        read = json.loads(line)
        if not isinstance(read, dict) or "value" not in read:
            raise BadLine('not a JSON object with a "value"')
        headers = [(str(header["key"]), bytes_from_json(header.get("value"))) for header in read.get("headers") or []]
        partition, timestamp = _whole(read, "partition"), _whole(read, "timestamp", least=NO_TIMESTAMP)
        timestamp = None if timestamp == NO_TIMESTAMP else timestamp
        return OutgoingRecord(
            bytes_from_json(read.get("key")), bytes_from_json(read["value"]), headers, partition, timestamp
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadLine(f"not a record in JSON: {error}") from None


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


def key_value_line(record: Any, separator: bytes, null: bytes, show: EscapeBytes = bytes) -> bytes:
    """Key, separator, value."""
    return (null if record.key is None else show(record.key)) + separator + value_line(record, null, show)


def record_line(record: Any) -> bytes:
    """The whole record of a consumer as JSON."""
    return _json_line(record.topic, record.partition, record, is_log_append_time=record.timestamp_type == 1)


def packed_line(topic: str, partition: int, record: Record, *, is_log_append_time: bool) -> bytes:
    """The same of a record of a pack."""
    headers = tuple((key.encode(errors="surrogateescape").decode(errors="replace"), one) for key, one in record.headers)
    return _json_line(topic, partition, record._replace(headers=headers), is_log_append_time=is_log_append_time)


def _json_line(topic: str, partition: int, record: Any, *, is_log_append_time: bool) -> bytes:
    return json_line(
        {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": "append" if is_log_append_time else "create",
            "key": bytes_in_json(record.key),
            "value": bytes_in_json(record.value),
            "headers": [{"key": key, "value": bytes_in_json(value)} for key, value in record.headers],
        }
    )
