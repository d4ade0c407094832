"""What makes a Delta table one of upserts: its protocol, its properties, and what its writers have to respect."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import uuid4

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction, create_table_with_add_actions

from sordini.pipeline.tables.delta.log import Action
from sordini.pipeline.tables.staging import Staged
from sordini.pipeline.tables.table import TableError
from sordini.pipeline.tables.upsert import Upsert

KEYS_PROPERTY: Final = "sordini.keys"
"""Of the table: the names of its keys, as a JSON list."""

WRITE_FEATURES: Final = frozenset(
    {
        "deletionVectors",
        "timestampNtz",
        "appendOnly",
        "invariants",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
    }
)
"""Features of a table that these commits respect. deltalake names variants with any property that it sets; a table
that has such columns is refused for them."""

USED_BY_PROPERTY: Final = {
    "changeDataFeed": ("delta.enableChangeDataFeed", "true"),
    "inCommitTimestamp": ("delta.enableInCommitTimestamps", "true"),
}
"""Features that stay in the protocol of a table that uses them no more: without the property they ask for nothing."""

CHECKED_BY_ROWS: Final = frozenset({"checkConstraints", "generatedColumns", "identityColumns"})
"""Features that `check_rows` finds in use, and names by what they ask for."""

VECTORS: Final = "delta.enableDeletionVectors"
"""Of the table: only if it is true may a writer make deletion vectors; those that exist stay in force."""

CONSTRAINT: Final = "delta.constraints."
"""Of the table: a CHECK constraint, whose name follows."""

CHECKED_COLUMN: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
"""Of a column: an expression that holds for its values, or makes them."""


CONFIGURATION: dict[str, str | None] = {"delta.checkpointInterval": "20"}
"""Of new tables of appended rows. deltalake reads the commits since the last checkpoint again with each commit."""


def create(
    uri: str,
    schema: pa.Schema,
    added: list[AddAction],
    partition_by: Sequence[str],
    storage_options: Mapping[str, str],
    properties: CommitProperties,
) -> None:
    """Create a table of appended rows, with its first batch. Raises DeltaError."""
    create_table_with_add_actions(
        uri,
        Schema.from_arrow(schema),
        added,
        partition_by=list(partition_by),
        configuration=CONFIGURATION,
        storage_options=dict(storage_options),
        commit_properties=properties,
    )


def creation(schema: pa.Schema, partition_by: Sequence[str], how: Upsert) -> list[Action]:
    """The actions that create a table of upserts."""
    text = Schema.from_arrow(schema).to_json()
    features = ["deletionVectors", *(["timestampNtz"] if '"timestamp_ntz"' in text else [])]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    metadata = {
        "id": str(uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": text,
        "partitionColumns": list(partition_by),
        "configuration": {VECTORS: "true", KEYS_PROPERTY: json.dumps(how.keys)},
        "createdTime": int(time.time() * 1000),
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def metadata_of(table: DeltaTable, schema: pa.Schema) -> Action:
    """The table's `metaData`, without its outer name, with other columns."""
    now = table.metadata()
    there = {field["name"]: field for field in json.loads(table.schema().to_json())["fields"]}
    wanted = json.loads(Schema.from_arrow(schema).to_json())["fields"]
    # What else the table says of a column stays.
    fields = [{**there.get(field["name"], field), "type": field["type"]} for field in wanted]
    return {
        "id": str(now.id),
        **({"name": now.name} if now.name else {}),
        **({"description": now.description} if now.description else {}),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(now.partition_columns),
        "configuration": dict(now.configuration),
        "createdTime": now.created_time,
    }


def lacks_feature_of(table: DeltaTable, schema: pa.Schema) -> bool:
    """Whether columns have timestamps without a zone, and the table's protocol does not know of them yet."""
    protocol = table.protocol()
    return '"timestamp_ntz"' in Schema.from_arrow(schema).to_json() and "timestampNtz" not in (
        protocol.reader_features or ()
    )


def stored_keys(table: DeltaTable) -> tuple[str, ...] | None:
    """The keys of a table of upserts; None for others."""
    text = table.metadata().configuration.get(KEYS_PROPERTY)
    return tuple(json.loads(text)) if text else None


def check_upserts(table: DeltaTable, location: str) -> None:
    """Check that the table takes upserts. Raises TableError."""
    check_features(table, location)
    check_rows(table, (), location)
    vectors = table.metadata().configuration.get(VECTORS, "")
    if vectors.lower() != "true" or "deletionVectors" not in (table.protocol().writer_features or ()):
        raise TableError(
            f"{location} lets its writers make no deletion vectors, which upserts need: set {VECTORS} to true again"
        )


def check_features(table: DeltaTable, location: str) -> None:
    """Check that a commit made here respects all that the table asks of its writers. Raises TableError."""
    configuration = table.metadata().configuration
    # Spark keeps truth values as they were written, and reads them in capitals, too.
    unused = {name for name, (key, value) in USED_BY_PROPERTY.items() if configuration.get(key, "").lower() != value}
    unknown = set(table.protocol().writer_features or ()) - WRITE_FEATURES - CHECKED_BY_ROWS - unused
    if configuration.get("delta.appendOnly", "").lower() == "true":
        unknown.add("delta.appendOnly")
    if unknown:
        raise TableError(f"{location} asks its writers for {', '.join(sorted(unknown))}, which upserts do not have")


def check_rows(table: DeltaTable, staged: Iterable[Staged], location: str) -> None:
    """Check that staged rows are such as the table asks for: deltalake takes files as they are. Raises TableError."""
    asked = [
        f"constraint {name.removeprefix(CONSTRAINT)}"
        for name in table.metadata().configuration
        if name.startswith(CONSTRAINT)
    ]
    fields = json.loads(table.schema().to_json())["fields"]
    for field in fields:
        asked += [f"{name} of {field['name']}" for name in CHECKED_COLUMN if name in field["metadata"]]
    if asked:
        raise TableError(
            f"{location} asks its writers for what is not checked here ({', '.join(asked)}): drop that, or write to "
            "another table"
        )
    filled = [field["name"] for field in fields if not field["nullable"]]
    if not filled:
        return
    for file in staged:
        nulls = json.loads(file.statistics)["nullCount"]
        for name in filled:
            is_null = file.partition[name] is None if name in file.partition else nulls.get(name, 0) > 0
            if is_null:
                raise TableError(f"rows of the batch have no value in '{name}', which is not null in {location}")
