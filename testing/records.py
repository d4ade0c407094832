"""Records as tests write and read them: texts, bytes or values for JSON; and the difference between two lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from sordini.protocol.records.batch import Record

Value = bytes | str | None | Mapping[str, Any] | Sequence[Any] | int | float | bool
"""Texts are encoded as UTF-8; anything that is neither bytes nor text becomes JSON."""


class KitRecord(NamedTuple):
    """A record of a topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def text(self) -> str | None:
        """The value as text. Raises UnicodeDecodeError."""
        return None if self.value is None else self.value.decode()

    @property
    def json(self) -> Any:
        """The value as JSON. Raises ValueError."""
        return None if self.value is None else json.loads(self.value)


def kit_record(topic: str, partition: int, record: Record) -> KitRecord:
    """A record of a batch, with where it is from."""
    return KitRecord(topic, partition, record.offset, record.timestamp, record.key, record.value, record.headers)


def encoded(value: Value) -> bytes | None:
    """The bytes of a key or a value."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def difference(expected: Iterable[Value], records: Sequence[KitRecord], *, is_ordered: bool) -> str | None:
    """What differs between the expected values and the records, to be read by people; None when nothing does."""
    wanted = [encoded(value) for value in expected]
    found = [record.value for record in records]
    if not is_ordered:
        return _unordered(wanted, records)
    if wanted == found:
        return None
    lines = []
    for index in range(max(len(wanted), len(found))):
        want = shown(wanted[index]) if index < len(wanted) else "nothing"
        got = f"{shown(found[index])} at {_place(records[index])}" if index < len(found) else "nothing"
        same = index < len(wanted) and index < len(found) and wanted[index] == found[index]
        lines.append(f"  {index}: {want}" if same else f"- {index}: expected {want}\n+ {index}: found {got}")
    return "\n".join(lines)


def _unordered(wanted: list[bytes | None], records: Sequence[KitRecord]) -> str | None:
    missing = list(wanted)
    more = []
    for record in records:
        if record.value in missing:
            missing.remove(record.value)
        else:
            more.append(record)
    if not missing and not more:
        return None
    lines = [f"- missing: {shown(value)}" for value in missing]
    lines += [f"+ not expected: {shown(record.value)} at {_place(record)}" for record in more]
    return "\n".join(lines)


def shown(value: bytes | None) -> str:
    """A value for people: as text where it is text."""
    if value is None:
        return "a tombstone"
    try:
        return repr(value.decode())
    except UnicodeDecodeError:
        return repr(value)


def _place(record: KitRecord) -> str:
    return f"{record.topic}-{record.partition}@{record.offset}"
