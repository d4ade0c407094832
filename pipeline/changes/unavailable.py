"""Values that a database did not send: an update that leaves a large value (TOAST of PostgreSQL) as it is lacks it.

Debezium's connectors write a placeholder in its place. A row with it would replace what the table has, so the change is
a dead letter, whose reason says what the connector can do. Texts, bytes, lists and maps can be so large.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sordini.pipeline.schemas.fields import Schema
from sordini.pipeline.schemas.kinds import Kind, ListOf, MapOf, Plain

if TYPE_CHECKING:
    from pyspark.sql import Column

PLACEHOLDER: Final = "__debezium_unavailable_value"
"""The connectors' `unavailable.value.placeholder`, as it is by default."""
_TEXTS: Final = (PLACEHOLDER, b64encode(PLACEHOLDER.encode()).decode(), PLACEHOLDER.encode().hex())
"""In a text, which may be that of bytes: by JSON's converter, or by the connectors' `binary.handling.mode`."""
UNSENT: Final = (
    "not sent by the database, as the update leaves a large value as it is: give its table REPLICA IDENTITY FULL, or "
    "the connector a ReselectColumnsPostProcessor"
)
"""The reason of dead letters, after the names of columns."""


def unavailable(schema: Schema, values: Mapping[str, Column]) -> dict[str, Column]:
    """Of the columns that may have it, whether they have the placeholder."""
    found = {each.name: _is_placeholder(each.type, values[each.name]) for each in schema.fields if each.name in values}
    return {name: condition for name, condition in found.items() if condition is not None}


def _is_placeholder(kind: Kind, value: Column) -> Column | None:
    """None for kinds that a placeholder does not fit, which is a reason of its own."""
    from pyspark.sql import functions as sql

    match kind:
        case Plain("string"):
            return value.isin(*_TEXTS)
        case Plain("binary"):
            return value == sql.lit(PLACEHOLDER.encode())
        case ListOf(Plain("string")):
            return value == sql.array(sql.lit(PLACEHOLDER))
        case MapOf(Plain("string")):
            return sql.map_keys(value) == sql.array(sql.lit(PLACEHOLDER))
        case _:
            return None
