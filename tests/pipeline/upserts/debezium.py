"""Turns lines of wal2json (format 2) into the records that Debezium's connector for PostgreSQL sends.

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


def records_of(lines: Iterable[str]) -> Iterator[Record]:
    """The records of changes; begins and ends of transactions are records, too, as in Debezium's topic of them."""
    for line in lines:
        change = json.loads(line)
        action = change["action"]
        if action in ("B", "C"):
            status = {"status": "BEGIN" if action == "B" else "END", "id": str(change["xid"]), "ts_ms": 0}
            yield Record(json.dumps({"id": status["id"]}).encode(), json.dumps(status).encode())
        else:
            yield from _records(change)


def sequence_of(text: str) -> int:
    """A log sequence number, written as two hexadecimal numbers, as Debezium sends it."""
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


def _records(change: dict[str, Any]) -> Iterator[Record]:
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
    yield Record(_text(key, has_schema), _text(_envelope(op, before, after, lsn), has_schema))


def _deletion(before: dict[str, Any], lsn: int, *, has_schema: bool) -> Iterator[Record]:
    key = _text({"id": before["id"]}, has_schema)
    yield Record(key, _text(_envelope("d", before, None, lsn), has_schema))
    yield Record(key, None)


def _envelope(op: str, before: object, after: object, lsn: int) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "postgres", "schema": "public", "table": "people", "lsn": lsn}
    return {"before": before, "after": after, "source": source, "op": op, "ts_ms": 0, "transaction": None}


def _values(columns: list[dict[str, Any]] | None) -> dict[str, Any] | None:
    return None if columns is None else {column["name"]: column["value"] for column in columns}


def _text(payload: object, has_schema: bool) -> bytes:
    return json.dumps({"schema": {"type": "struct"}, "payload": payload} if has_schema else payload).encode()
