"""What becomes of a table's columns when rows bring others: new ones, in structs too, and wider types.

A column keeps its type, or gets one that has all its values: a whole number of more bits, a double for a float, a
decimal of more digits with the same scale. Rows of a narrower type are written as the table's. Nothing else changes a
type: a text is no number, and a table that changed its columns' meaning would have rows of both.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sordini.pipeline.tables.table import SchemaConflict

WIDER: Final = {
    pa.int8(): (pa.int16(), pa.int32(), pa.int64()),
    pa.int16(): (pa.int32(), pa.int64()),
    pa.int32(): (pa.int64(),),
    pa.float32(): (pa.float64(),),
}
"""The wider types of a narrower one."""


def merged_type(table: pa.DataType, rows: pa.DataType, name: str) -> pa.DataType:
    """The type of a column, or of a part of one, that takes the values of both. Raises SchemaConflict."""
    if table == rows or table in WIDER.get(rows, ()):
        return table
    if rows in WIDER.get(table, ()):
        return rows
    if pa.types.is_decimal(table) and pa.types.is_decimal(rows):
        return _decimal(table, rows, name)
    if pa.types.is_list(table) and pa.types.is_list(rows):
        return pa.list_(pa.field("element", merged_type(table.value_type, rows.value_type, f"{name}.element")))
    if pa.types.is_map(table) and pa.types.is_map(rows) and table.key_type == rows.key_type:
        return pa.map_(table.key_type, merged_type(table.item_type, rows.item_type, f"{name}.value"))
    if pa.types.is_struct(table) and pa.types.is_struct(rows):
        return pa.struct(merged_fields(list(table), list(rows), f"{name}."))
    raise _conflict(table, rows, name)


def merged_fields(table: list[pa.Field], rows: list[pa.Field], within: str = "") -> list[pa.Field]:
    """The fields of a table or struct, those that the rows add behind them. Raises SchemaConflict."""
    known = {field.name.lower(): field for field in table}
    found = {field.name: field for field in table}
    for field in rows:
        there = known.get(field.name.lower())
        if there is None:
            found[field.name] = field
        elif there.name != field.name:
            raise SchemaConflict(f"the rows have a column '{within}{field.name}' where the table has '{there.name}'")
        else:
            found[field.name] = pa.field(field.name, merged_type(there.type, field.type, f"{within}{field.name}"))
    return list(found.values())


def is_widened(table: pa.Schema, schema: pa.Schema) -> bool:
    """Whether a column of the table, or a part of one, has a wider type in `schema`: its files have another one."""
    return any(_is_wider(field.type, schema.field(field.name).type) for field in table)


def fields_to_add(table: pa.Schema | None, schema: pa.Schema) -> list[pa.Field]:
    """The columns of `schema` that the table lacks, and those that have more inside than in the table."""
    return [
        field for field in schema if table is None or field.name not in table.names or table.field(field.name) != field
    ]


def cast(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values of a narrower type, or of a struct with fewer fields, as another one."""
    if values.type == kind:
        return values
    if pa.types.is_struct(kind):
        names = [field.name for field in values.type]
        children = [
            cast(pc.struct_field(values, [names.index(field.name)]), field.type)
            if field.name in names
            else pa.nulls(len(values), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=pc.is_null(values))
    if pa.types.is_list(kind) and pa.types.is_list(values.type):
        inside = cast(_inside(values, values.values), kind.value_type)
        return pa.ListArray.from_arrays(_offsets(values), inside, type=kind, mask=pc.is_null(values))
    if pa.types.is_map(kind) and pa.types.is_map(values.type):
        keys, items = _inside(values, values.keys), cast(_inside(values, values.items), kind.item_type)
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=kind, mask=pc.is_null(values))
    return values.cast(kind)


def _offsets(values: pa.Array) -> pa.Array:
    """The offsets of lists or maps, from 0: an array may be a slice of another one."""
    offsets = values.offsets
    return pc.subtract(offsets, offsets[0])


def _inside(values: pa.Array, elements: pa.Array) -> pa.Array:
    """The elements of a slice of lists or maps."""
    offsets = values.offsets
    first, end = offsets[0].as_py(), offsets[len(offsets) - 1].as_py()
    return elements.slice(first, end - first)


def _decimal(table: pa.DataType, rows: pa.DataType, name: str) -> pa.DataType:
    if rows.scale <= table.scale and rows.precision - rows.scale <= table.precision - table.scale:
        return table
    if rows.scale == table.scale:
        return pa.decimal128(max(rows.precision, table.precision), table.scale)
    raise _conflict(table, rows, name)


def _conflict(table: pa.DataType, rows: pa.DataType, name: str) -> SchemaConflict:
    return SchemaConflict(
        f"column '{name}' is {rows} in the rows and {table} in the table, which keeps its type: give the new column "
        "another name, or use another table"
    )


def _is_wider(table: pa.DataType, other: pa.DataType) -> bool:
    if pa.types.is_struct(table):
        names = [field.name for field in other]
        return any(_is_wider(field.type, other.field(names.index(field.name)).type) for field in table)
    if pa.types.is_list(table):
        return _is_wider(table.value_type, other.value_type)
    if pa.types.is_map(table):
        return _is_wider(table.item_type, other.item_type)
    return bool(table != other)
