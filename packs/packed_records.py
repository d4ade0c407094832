"""Records as masks are given them, and as tests write and read them: texts, bytes or values for JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sordini.system.named_tuple import NamedTuple

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
