"""Arrow columns from fields: nothing is done in Python for a single record.

Keys and values lie in the buffer with other bytes between them. The whole buffer is described to Arrow as consecutive
strings (gap, value, gap, value); taking every other one is one copy inside Arrow.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sordini.pipeline.source.decode.fields import Fields
from sordini.pipeline.source.decode.record_headers import HeaderTable
from sordini.pipeline.source.decode.spans import Span
from sordini.pipeline.source.decode.varints import Bytes, Numbers

MILLISECONDS_MAX: Final = (2**63 - 1) // 1000
"""Spark's times are microseconds in 64 bits."""


class Constants:
    """The columns that are the same in every row of a partition; created once, and again only for more rows."""

    NAMES: Final = ("topic", "partition")

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic.encode()
        self._partition = partition
        self._rows = 0
        self._columns: dict[str, pa.Array] = {}

    def column(self, name: str, rows: int) -> pa.Array:
        """The column `topic` or `partition` with this many rows."""
        if rows > self._rows:
            size = len(self._topic)
            ends = np.arange(0, (rows + 1) * size, size, dtype=np.int32) if size else np.zeros(rows + 1, np.int32)
            buffers = [None, pa.py_buffer(ends), pa.py_buffer(self._topic * rows)]
            self._columns["topic"] = pa.Array.from_buffers(pa.string(), rows, buffers)
            self._columns["partition"] = pa.array(np.full(rows, self._partition, np.int32))
            self._rows = rows
        return self._columns[name].slice(0, rows)


def build(schema: pa.Schema, fields: Fields, buffer: Bytes, constants: Constants) -> pa.RecordBatch:
    """The rows of all records of `fields`, whose byte strings lie in `buffer`. The rows do not reference it."""
    rows = len(fields.offset)

    def column(name: str, kind: pa.DataType) -> pa.Array:
        match name:
            case "key":
                return _binaries(buffer, fields.key, kind)
            case "value":
                return _binaries(buffer, fields.value, kind)
            case "offset":
                return _numbers(fields.offset, kind)
            case "timestamp":
                return _times(fields.timestamp, kind)
            case "timestampType":
                return _numbers(fields.timestamp_type, kind)
            case "headers":
                return _lists(buffer, fields.headers, kind)
            case _:
                return constants.column(name, rows)

    return record_batch([column(field.name, field.type) for field in schema], schema, rows)


def record_batch(columns: list[pa.Array], schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A record batch, which has its number of rows even when it has no columns."""
    if columns:
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def _numbers(numbers: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def _times(milliseconds: Numbers, kind: pa.DataType) -> pa.Array:
    if milliseconds.min() >= -MILLISECONDS_MAX and milliseconds.max() <= MILLISECONDS_MAX:
        return _numbers(milliseconds * 1000, kind)
    is_there = (milliseconds >= -MILLISECONDS_MAX) & (milliseconds <= MILLISECONDS_MAX)
    buffers = [_bitmap(is_there), pa.py_buffer(milliseconds * 1000)]
    return pa.Array.from_buffers(kind, len(milliseconds), buffers)


def _binaries(buffer: Bytes, span: Span, kind: pa.DataType) -> pa.Array:
    """The consecutive byte strings of a span as an array."""
    is_null = span.is_null
    rows, nulls = len(is_null), int(np.count_nonzero(is_null))
    if nulls == rows:
        return pa.nulls(rows, kind)
    edges = np.empty(2 * rows + 1, np.int32)
    edges[0] = 0
    edges[1::2] = span.start
    edges[2::2] = np.maximum(span.start, span.end) if nulls else span.end
    all_of_it = pa.Array.from_buffers(kind, 2 * rows, [None, pa.py_buffer(edges), pa.py_buffer(buffer)])
    taken = pc.take(all_of_it, pa.array(np.arange(1, 2 * rows, 2)), boundscheck=False)
    if not nulls:
        return taken
    _, ends, content = taken.buffers()
    return pa.Array.from_buffers(kind, rows, [_bitmap(~is_null), ends, content], null_count=nulls)


def _bitmap(is_there: npt.NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(is_there, bitorder="little"))


def _lists(buffer: Bytes, table: HeaderTable, kind: pa.DataType) -> pa.Array:
    """Lists of headers; null for a record that has none, as in Spark's own source."""
    pairs = kind.value_type
    key = _texts(_binaries(buffer, table.key, pa.binary()))
    value = _binaries(buffer, table.value, pa.binary())
    items = pa.StructArray.from_arrays([key, value], fields=list(pairs))
    is_there = table.first[1:] > table.first[:-1]
    buffers = [_bitmap(is_there), pa.py_buffer(table.first.astype(np.int32))]
    return pa.Array.from_buffers(kind, len(is_there), buffers, children=[items])


def _texts(names: pa.Array) -> pa.Array:
    """Header keys as text; bytes that are no UTF-8 become U+FFFD, as Java reads them."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode(errors="replace") for name in names.to_pylist()], pa.string())
