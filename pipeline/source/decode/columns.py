"""The columns of a Kafka record in Spark, as Arrow types: the same names and types as those of Spark's own source."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])),
}
COLUMNS: Final = tuple(_TYPES)
"""All columns, in their order."""


def arrow_schema(columns: Iterable[str]) -> pa.Schema:
    """The schema of the named columns, in the order of `COLUMNS`.

    `timestampType` is -1 for messages without a timestamp (format 0, whose timestamp is -1 ms), 0 for the producer's
    time, 1 for the log's. `timestamp` is null beyond 292,000 years, where microseconds leave 64 bits. `headers` is null
    for a record that has none. Raises ValueError for a name that is no column.
    """
    wanted = set(columns)
    if unknown := sorted(wanted - _TYPES.keys()):
        raise ValueError(f"no column of a Kafka record: {', '.join(unknown)}; there are {', '.join(COLUMNS)}")
    return pa.schema([pa.field(name, _TYPES[name]) for name in COLUMNS if name in wanted])
