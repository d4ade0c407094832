"""A record as people see it, and whether a search finds it. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from sordini.protocol.records.batch import Record
from sordini.protocol.records.control import ABORT, COMMIT
from sordini.protocol.records.returned_records import SeenBatch
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

KEPT_BYTES: Final = 64 * 1024
"""Of a key, a value or a header's value in a list, so that many large ones are not in memory together."""
HEADERS_KEPT: Final = 50
JSON_SEARCHED_BYTES: Final = 1024 * 1024
RECORD, ABORTED, COMMIT_MARKER, ABORT_MARKER, CONTROL = (
    "record",
    "aborted",
    "commit marker",
    "abort marker",
    "control record",
)
_STEP: Final = re.compile(r"\.?([^.\[\]=]+)|\[(\d+)\]")
PATH_STEPS_MAX: Final = 20


class SeenRecord(NamedTuple):
    """A record, or a marker; keys and values may be cut, their sizes are those of the whole."""

    name: TopicPartition
    offset: int
    timestamp_ms: int
    is_log_append_time: bool
    kind: str
    key: bytes | None
    key_size: int
    value: bytes | None
    value_size: int
    headers: tuple[tuple[str, bytes | None], ...]
    headers_omitted: int
    producer_id: int | None

    @property
    def partition(self) -> int:
        return self.name.partition


def records_of(name: TopicPartition, batch: SeenBatch) -> Iterator[tuple[Record | None, SeenRecord]]:
    """The records of a batch, each as it was and as it is shown; a marker has none of the first."""
    producer = batch.header.producer_id if batch.header.producer_id >= 0 else None
    if batch.header.is_control:
        yield None, _marker(name, batch, producer)
        return
    kind = ABORTED if batch.is_aborted else RECORD
    for record in batch.records:
        yield record, _seen(name, batch, record, kind, producer)


def _seen(name: TopicPartition, batch: SeenBatch, record: Record, kind: str, producer: int | None) -> SeenRecord:
    return SeenRecord(
        name,
        record.offset,
        record.timestamp,
        batch.is_log_append_time,
        kind,
        _cut(record.key),
        len(record.key or b""),
        _cut(record.value),
        len(record.value or b""),
        tuple((header[:KEPT_BYTES], _cut(value)) for header, value in record.headers[:HEADERS_KEPT]),
        max(len(record.headers) - HEADERS_KEPT, 0),
        producer,
    )


def _marker(name: TopicPartition, batch: SeenBatch, producer: int | None) -> SeenRecord:
    number = None if batch.marker is None else batch.marker.kind
    kind = {COMMIT: COMMIT_MARKER, ABORT: ABORT_MARKER}.get(-1 if number is None else number, CONTROL)
    offset, time_ms = batch.header.base_offset, batch.header.max_timestamp
    return SeenRecord(name, offset, time_ms, batch.is_log_append_time, kind, None, 0, None, 0, (), 0, producer)


def _cut(data: bytes | None) -> bytes | None:
    return data if data is None or len(data) <= KEPT_BYTES else bytes(data[:KEPT_BYTES])


class RecordFilter(NamedTuple):
    """What a search finds. A filter without a text finds all."""

    text: str = ""
    where: str = "any"
    """`any`, `key`, `value`, `header`; or `json`: the text is a path such as `$.customer.id` or `items[0].name=pen`."""

    def finds(self, record: Record) -> bool:
        if not self.text:
            return True
        if self.where == "json":
            return _has_path(record.value, self.text)
        sought = self.text.encode(errors="surrogatepass")
        match self.where:
            case "key":
                return sought in (record.key or b"")
            case "value":
                return sought in (record.value or b"")
            case "header":
                return _in_headers(record, sought)
        return sought in (record.key or b"") or sought in (record.value or b"") or _in_headers(record, sought)


RecordFilters = tuple[RecordFilter, ...]
"""All of them hold for what is found; none: everything is found."""


def _in_headers(record: Record, sought: bytes) -> bool:
    return any(
        sought in name.encode(errors="surrogateescape") or sought in (value or b"") for name, value in record.headers
    )


def _has_path(data: bytes | None, sought: str) -> bool:
    """Whether a JSON document has a value at a path, and if the path has `=text`, whether that is the value.

    Numbers are compared as they are written.
    """
    if data is None or len(data) > JSON_SEARCHED_BYTES:
        return False
    path, equals, wanted = sought.partition("=")
    try:
        value: Any = json.loads(data, parse_int=str, parse_float=str)
        for step in path_steps(path.strip()):
            value = value[step]
    except (ValueError, RecursionError, LookupError, TypeError):
        return False
    if not equals:
        return True
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text == wanted.strip()


def path_steps(path: str) -> list[str | int]:
    """`$.items[0].name` as `["items", 0, "name"]`. Raises ValueError, which says what is allowed."""
    text = path.removeprefix("$")
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or len(steps) == PATH_STEPS_MAX:
            raise ValueError(f"{path!r} is no path: allowed is one such as $.customer.id or items[0].name")
        steps.append(match[1] if match[1] is not None else int(match[2]))
        position = match.end()
    if not steps:
        raise ValueError("the path is empty: allowed is one such as $.customer.id or items[0].name")
    return steps
