"""Turns lines of wal2json (format 2) into the changes that Debezium's connector for PostgreSQL sends, and those into JSON.

An update that changes a key is sent in one of two ways, by turns: as Debezium does (a deletion, its tombstone, and a
creation), and as one update with both keys, as other connectors do. Every other value has the schema envelope.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

OPS: Final = {"I": "c", "U": "u", "D": "d"}


class Record(NamedTuple):
    """A record of the topic; `value` is None for a tombstone."""

    key: bytes
    value: bytes | None


class Change(NamedTuple):
    """What a record says, before a converter writes it. Some converters write the schema beside it."""

    key: dict[str, Any]
    value: dict[str, Any] | None
    has_schema: bool = False

    @property
    def is_transaction(self) -> bool:
        """Whether it is of a transaction's begin or end, and not of a row."""
        return self.value is not None and "status" in self.value


def changes_of(lines: Iterable[str]) -> Iterator[Change]:
    """The changes of rows; begins and ends of transactions are records, too, as in Debezium's topic of them."""
    for line in lines:
        change = json.loads(line)
        action = change["action"]
        if action in ("B", "C"):
            status = {"status": "BEGIN" if action == "B" else "END", "id": str(change["xid"]), "ts_ms": 0}
            yield Change({"id": status["id"]}, status)
        else:
            yield from _changes(change)


def json_record(change: Change) -> Record:
    """As JSON's converter writes it."""
    value = None if change.value is None else _text(change.value, change.has_schema)
    return Record(_text(change.key, change.has_schema), value)


def sequence_of(text: str) -> int:
    """A log sequence number, written as two hexadecimal numbers, as Debezium sends it."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def _changes(change: dict[str, Any]) -> Iterator[Change]:
    op, lsn = OPS[change["action"]], sequence_of(change["lsn"])
    after = _values(change.get("columns"))
    before = _values(change.get("identity"))
    has_schema = lsn // 8 % 2 == 0
    if op == "d":
        assert before is not None, "it has a primary key"
        yield from _deletion(before, lsn, has_schema=has_schema)
        return
    assert after is not None, "it is no deletion"
    key = {"id": after["id"]}
    if before is not None and before["id"] != after["id"] and lsn // 16 % 2:
        yield from _deletion(before, lsn, has_schema=has_schema)
        op, before = "c", None
    yield Change(key, _envelope(op, before, after, lsn), has_schema)


def _deletion(before: dict[str, Any], lsn: int, *, has_schema: bool) -> Iterator[Change]:
    key = {"id": before["id"]}
    yield Change(key, _envelope("d", before, None, lsn), has_schema)
    yield Change(key, None, has_schema)


def _envelope(op: str, before: object, after: object, lsn: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "postgres", "schema": "public", "table": "people", "lsn": lsn}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 0, "transaction": None}


def _values(columns: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if columns is None else {column["name"]: column["value"] for column in columns}


def _text(payload: object, has_schema: bool) -> bytes:
    return json.dumps({"schema": {"type": "struct"}, "payload": payload} if has_schema else payload).encode()
