"""Columns that another program has renamed: the files written here know them by their former names.

Files of Sordini have no numbers of Iceberg's fields, so their columns are found by the table's name mapping, which has
all names that a field ever had. A new column with a former name takes it: the values of older files would be those of
the new column, and null in the one that was renamed. So rows that still have the former name are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table as IcebergTable
from pyiceberg.table.name_mapping import MappedField

from sordini.pipeline.tables.table import SchemaConflict


def check_names(table: IcebergTable, columns: pa.Schema) -> None:
    """Check that no column of the rows, or part of one, is a column of the table by its former name.

    Raises SchemaConflict.
    """
    mapping = table.name_mapping()
    known = set(table.schema().column_names)
    former = dict(_former_names(table.schema(), mapping.root if mapping else (), ""))
    for name in _names_of(columns, ""):
        if name in former and name not in known:
            raise SchemaConflict(
                f"column '{name}' of the rows was renamed to '{former[name]}' in {table.location()}: rename one of the "
                "two, so that they are the same"
            )


def _former_names(schema: Schema, fields: Iterable[MappedField], within: str) -> Iterator[tuple[str, str]]:
    """Each name that a field had, and the one that it has; not those of fields that the table has no more."""
    for field in fields:
        now = schema.find_column_name(field.field_id) if field.field_id is not None else None
        if now is None:
            continue
        yield from ((f"{within}{name}", now) for name in field.names if f"{within}{name}" != now)
        yield from _former_names(schema, field.fields, f"{now}.")


def _names_of(fields: Iterable[pa.Field], within: str) -> Iterator[str]:
    """Full names, as Iceberg has them."""
    for field in fields:
        yield f"{within}{field.name}"
        yield from _names_inside(field.type, f"{within}{field.name}.")


def _names_inside(kind: pa.DataType, within: str) -> Iterator[str]:
    if pa.types.is_struct(kind):
        yield from _names_of(kind, within)
    elif pa.types.is_list(kind):
        yield from _names_inside(kind.value_type, f"{within}element.")
    elif pa.types.is_map(kind):
        yield from _names_inside(kind.item_type, f"{within}value.")
