"""Envelopes as Debezium's connectors write them with Avro's converter of a schema registry."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any, Final

import fastavro

NAMESPACE: Final = "shop.public.people"
SOURCE: Final = {
    "type": "record",
    "name": "Source",
    "namespace": "io.debezium.connector.postgresql",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "lsn", "type": ["null", "long"], "default": None},
        {"name": "scn", "type": ["null", "string"], "default": None},
    ],
}
TRANSACTION: Final = {
    "type": "record",
    "name": "block",
    "namespace": "event",
    "fields": [{"name": "id", "type": "string"}, {"name": "total_order", "type": "long"}],
}


def optional(name: str, kind: object, **more: object) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, **more}


def connect(base: str, name: str) -> dict[str, Any]:
    """A type with its name in Kafka Connect."""
    return {"type": base, "connect.version": 1, "connect.name": name}


def value_schema(fields: Sequence[dict[str, Any]]) -> str:
    """The schema of envelopes whose rows have these fields."""
    row = {"type": "record", "name": "Value", "fields": list(fields), "connect.name": f"{NAMESPACE}.Value"}
    return json.dumps(
        {
            "type": "record",
            "name": "Envelope",
            "namespace": NAMESPACE,
            "connect.name": f"{NAMESPACE}.Envelope",
            "fields": [
                optional("before", row),
                optional("after", "Value"),
                {"name": "source", "type": SOURCE},
                {"name": "op", "type": "string"},
                optional("ts_ms", "long"),
                optional("transaction", TRANSACTION),
            ],
        }
    )


def key_schema(fields: Sequence[dict[str, Any]]) -> str:
    """The schema of keys with these fields."""
    return json.dumps({"type": "record", "name": "Key", "namespace": NAMESPACE, "fields": list(fields)})


def envelope(op: str, lsn: int | None, before: object = None, after: object = None, **more: object) -> dict[str, Any]:
    """A value of `value_schema`."""
    source = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "scn": None if lsn is None else str(lsn)}
    return {
        "before": before,
        "after": after,
        "source": source,
        "op": op,
        "ts_ms": 1_764_000_000_000,
        "transaction": None,
        **more,
    }


def framed(schema: str, value: object, schema_id: int) -> bytes:
    """A value behind the id of its schema."""
    buffer = io.BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
    buffer.seek(5)
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(json.loads(schema)), value)
    return buffer.getvalue()
