"""Messages of formats 0 and 1 to Arrow: only old logs hold them, so they are read one by one."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from sordini.pipeline.source.decode.arrow_columns import MILLISECONDS_MAX, Constants, record_batch
from sordini.pipeline.source.decode.batch_scan import Batch
from sordini.pipeline.source.decode.expanded_batch import EXPANDED_BYTES_MAX
from sordini.protocol.records.batch import Record
from sordini.protocol.records.legacy import read_any

NO_TIMESTAMP_TYPE = -1


class OldRow(NamedTuple):
    """A message, and what kind of time it has: -1 none, 0 its producer's, 1 the log's."""

    message: Record
    timestamp_type: int


def read_old(records: memoryview, batch: Batch) -> list[OldRow]:
    """What a message of format 0 or 1 holds, itself or those wrapped in it; raises BrokerError, also for its CRC."""
    header = batch.header
    kind = int(header.is_log_append_time) if header.magic else NO_TIMESTAMP_TYPE
    data = records[batch.position : batch.position + header.size]
    return [OldRow(record, kind) for record in read_any(data, header, EXPANDED_BYTES_MAX)]


def build_old(schema: pa.Schema, rows: list[OldRow], constants: Constants) -> pa.RecordBatch:
    """The rows as a record batch."""
    messages = [row.message for row in rows]

    def column(name: str) -> list[object]:
        match name:
            case "key":
                return [message.key for message in messages]
            case "value":
                return [message.value for message in messages]
            case "offset":
                return [message.offset for message in messages]
            case "timestamp":
                return [
                    message.timestamp * 1000 if abs(message.timestamp) <= MILLISECONDS_MAX else None
                    for message in messages
                ]
            case "timestampType":
                return [row.timestamp_type for row in rows]
            case _:
                return [None] * len(messages)  # These formats have no headers.

    columns = [
        constants.column(field.name, len(messages))
        if field.name in Constants.NAMES
        else pa.array(column(field.name), field.type)
        for field in schema
    ]
    return record_batch(columns, schema, len(messages))
