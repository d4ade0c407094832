"""The columns of many records: each value is parsed, and read field by field, with a reason for each that does not fit.

Runs in Spark's Python workers, one Arrow array of values at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from sordini.pipeline.schemas.column_types import arrow_type
from sordini.pipeline.schemas.fields import Field, Schema
from sordini.pipeline.schemas.sources import FieldReader, reading
from sordini.pipeline.schemas.values.misfit import Misfit

if TYPE_CHECKING:
    import pyarrow as pa

REASON: Final = "_corrupt"
"""The last member of a row: the reason why there is none, or null."""
REASON_CHARACTERS_MAX: Final = 1000


class Unreadable(Exception):
    """A value that cannot be parsed at all; the text is the reason."""


Parse = Callable[[bytes], dict[str, Any]]
"""From a record's value to names and values. Raises Unreadable."""
Row = tuple[list[Any] | None, str | None]
"""The values of the columns, or the reason why there are none."""


class RowReader:
    """The fields of one schema, read from objects of one form."""

    def __init__(self, schema: Schema, readers: Sequence[FieldReader]) -> None:
        """`readers` are those of the fields, in order."""
        self._plan = [
            (field.name, *reading(field.name, field.sources, reader), field.is_required)
            for field, reader in zip(schema.fields, readers, strict=True)
        ]

    def row(self, value: dict[str, Any]) -> Row:
        """The values of the columns, or the reasons why there are none: of each field the first."""
        found: list[Any] = []
        wrong: list[str] = []
        for name, find, reader, is_required in self._plan:
            item = find(value)
            if item is None:
                if is_required:
                    wrong.append(f"{name} is missing")
                found.append(None)
                continue
            try:
                found.append(reader(item))
            except Misfit as misfit:
                wrong.append(str(misfit.within(name)))
        return (found, None) if not wrong else (None, shortened(", ".join(wrong)))

    def fitting(self, value: dict[str, Any]) -> list[Any]:
        """The values of the columns; None for those that do not fit."""
        found: list[Any] = []
        for _, find, reader, _ in self._plan:
            item = find(value)
            try:
                found.append(None if item is None else reader(item))
            except Misfit:
                found.append(None)
        return found


ReadOne = Callable[[bytes], Row]


def columns(values: pa.Array, schema: Schema, read: ReadOne) -> pa.Array:
    """A struct of each value: the schema's fields and REASON. A value that is null has neither."""
    import pyarrow as pa

    read_rows: list[Row] = [(None, None) if value is None else read(value) for value in values.to_pylist()]
    arrays = arrays_of([row for row, _ in read_rows], schema.fields)
    names = [*(field.name for field in schema.fields), REASON]
    return pa.StructArray.from_arrays([*arrays, pa.array([reason for _, reason in read_rows], pa.string())], names)


def arrays_of(rows: Sequence[list[Any] | None], fields: Sequence[Field]) -> list[pa.Array]:
    """The columns of rows, as Spark takes them; a row that is None is null in all of them."""
    nothing: list[Any] = [None] * len(fields)
    items = zip(*(nothing if row is None else row for row in rows), strict=True) if rows else [()] * len(fields)
    return [column(list(of_field), arrow_type(field.type)) for field, of_field in zip(fields, items, strict=True)]


def column(items: list[Any], kind: pa.DataType) -> pa.Array:
    """A column as Spark takes it: its times of the day are in nanoseconds."""
    import pyarrow as pa

    made = pa.array(items, kind)
    return made.cast(for_spark(kind)) if for_spark(kind) != kind else made


def for_spark(kind: pa.DataType) -> pa.DataType:
    """The type that Spark takes for one of ours."""
    import pyarrow as pa

    if pa.types.is_time64(kind):
        return pa.time64("ns")
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", for_spark(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, for_spark(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, for_spark(each.type)) for each in kind])
    return kind


def shortened(reason: str) -> str:
    """A reason of bounded length."""
    return reason if len(reason) <= REASON_CHARACTERS_MAX else f"{reason[:REASON_CHARACTERS_MAX]}..."
