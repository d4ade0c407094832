"""Writes changes as Avro's converter of a schema registry does, by confluent-kafka's serializers."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any, Final

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from tests.pipeline.upserts.debezium import Change, Record
from tests.pipeline.upserts.suite import TOPIC, Values
from tests.pipeline.upserts.workload import COLUMNS
from tests.support.debezium_avro import connect, key_schema, optional, value_schema

KINDS: Final = {"age": "int", "score": "double", "active": "boolean", "born": connect("int", "io.debezium.time.Date")}
"""Of columns that are no texts."""
EPOCH: Final = dt.date(1970, 1, 1).toordinal()
ID: Final = {"name": "id", "type": "long"}
VALUE: Final = value_schema([ID, *(optional(name, KINDS.get(name, "string")) for name in COLUMNS if name != "id")])
KEY: Final = key_schema([ID])
TRANSACTION: Final = json.dumps(
    {
        "type": "record",
        "name": "TransactionMetadataValue",
        "namespace": "io.debezium.connector.common",
        "fields": [{"name": "status", "type": "string"}, {"name": "id", "type": "string"}],
    }
)
TRANSACTION_KEY: Final = json.dumps(
    {"type": "record", "name": "TransactionMetadataKey", "fields": [{"name": "id", "type": "string"}]}
)


class AvroRecords:
    """Registers the schemas in subjects of the topic; those of transactions, which have a topic of their own, of another."""

    def __init__(self, url: str) -> None:
        self._client = SchemaRegistryClient({"url": url})
        self._rows = AvroSerializer(self._client, KEY), AvroSerializer(self._client, VALUE)
        self._transactions = AvroSerializer(self._client, TRANSACTION_KEY), AvroSerializer(self._client, TRANSACTION)

    def record_of(self, change: Change) -> Record:
        topic = f"{TOPIC}-transactions" if change.is_transaction else TOPIC
        to_key, to_value = self._transactions if change.is_transaction else self._rows
        value = change.value if change.value is None or change.is_transaction else _envelope(change.value)
        key = to_key(change.key, SerializationContext(topic, MessageField.KEY))
        if key is None:
            raise SerializationError("a key is no bytes")
        written = None if value is None else to_value(value, SerializationContext(topic, MessageField.VALUE))
        return Record(key, written)


def avro_values(url: str) -> Values:
    """Envelopes in Avro; the columns are those of their subject."""
    decode = f"mode: schema_id_prefix\n  registry: {{url: '{url}', wait: 1 minute}}"
    return Values(decode, AvroRecords(url).record_of)


def _envelope(value: dict[str, Any]) -> dict[str, Any]:
    source = {**value["source"], "ts_ms": 0, "scn": None}
    return {**value, "before": _row(value["before"]), "after": _row(value["after"]), "source": source}


def _row(row: dict[str, Any] | None) -> dict[str, Any] | None:
    if row is None:
        return None
    found = {name: row.get(name) for name in COLUMNS}
    born, score = found["born"], found["score"]
    days = None if born is None else dt.date.fromisoformat(born).toordinal() - EPOCH
    return {**found, "born": days, "score": None if score is None else float(score)}
