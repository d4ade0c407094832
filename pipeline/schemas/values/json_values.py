"""Readers of values that JSON's parser returns, and of Protobuf's in its JSON form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from sordini.pipeline.schemas.fields import Field
from sordini.pipeline.schemas.kinds import NUMBERED, PLAIN, Decimal, Kind, ListOf, MapOf, Plain, StructOf, column_of
from sordini.pipeline.schemas.sources import FieldReader, reading
from sordini.pipeline.schemas.values.misfit import Misfit, Reader, key_step, misfit, never
from sordini.pipeline.schemas.values.plain_values import plain_reader, unscaled_reader


def json_reader(kind: Kind, *, numbers_as_text: bool = False) -> Reader:
    """The reader of a kind; see `plain_reader` for `numbers_as_text`."""
    match kind:
        case ListOf():
            return list_reader(kind, json_reader(kind.items, numbers_as_text=numbers_as_text))
        case MapOf():
            return map_reader(kind, json_reader(kind.values, numbers_as_text=numbers_as_text))
        case StructOf():
            readers = ((field, json_reader(field.type, numbers_as_text=numbers_as_text)) for field in kind.fields)
            return struct_reader(kind, readers)
        case _:
            return plain_reader(kind, numbers_as_text=numbers_as_text)


def json_reader_of(field: Field, written: Mapping[str, Kind]) -> FieldReader:
    """The reader of a field, of values whose writer says of its fields what kinds they are.

    Numbers are times in the writer's unit, texts of decimals have the writer's scale, at any depth. A number that is a
    time of one sort is none of another.
    """
    sources = field.sources or (field.name,)
    first = next((written[name] for name in sources if name in written), None)
    said = [written.get(name, first) for name in sources]
    if all(one == first for one in said):
        return _reader_as(field.type, first)
    return tuple(_reader_as(field.type, one) for one in said)


def _reader_as(kind: Kind, said: Kind | None) -> Reader:
    match kind, said:
        case Plain(name), Plain(other) if other in NUMBERED and (name in NUMBERED or name in _ALSO[NUMBERED[other].of]):
            return plain_reader(said) if name in _ALSO[NUMBERED[other].of] else never(kind)
        case Decimal(), Decimal(is_unscaled=True):
            return unscaled_reader(kind, said.scale)
        case Decimal(is_unscaled=True), Decimal():
            return plain_reader(replace(kind, is_unscaled=False))
        case ListOf(), ListOf():
            return list_reader(kind, _reader_as(kind.items, said.items))
        case MapOf(), MapOf():
            return map_reader(kind, _reader_as(kind.values, said.values))
        case StructOf(), StructOf():
            inside = {field.name: field.type for field in said.fields}
            return struct_reader(kind, ((field, json_reader_of(field, inside)) for field in kind.fields))
        case _:
            return json_reader(kind)


_ALSO: Final = {
    of: ({name for name in PLAIN if column_of(name) == of} | ({"timestamp_ntz"} if of == "timestamp" else set()))
    for of in ("date", "time", "timestamp")
}
"""Kinds whose columns take a number that is a date, a time or a timestamp."""


def list_reader(kind: Kind, items: Reader) -> Reader:
    """The reader of a list, by that of its elements."""

    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            raise misfit(kind)
        found = []
        try:
            for item in value:
                found.append(None if item is None else items(item))  # noqa: PERF401 - the index is needed below.
        except Misfit as error:
            raise error.within(f"[{len(found)}]") from None
        return found

    return read


def map_reader(kind: Kind, values: Reader) -> Reader:
    """The reader of a map, by that of its values: pairs, as Arrow takes maps."""

    def read(value: Any) -> list[tuple[str, Any]]:
        if type(value) is not dict:
            raise misfit(kind)
        found = []
        for key, item in value.items():
            try:
                found.append((key, None if item is None else values(item)))
            except Misfit as error:
                raise error.within(key_step(key)) from None
        return found

    return read


def struct_reader(kind: Kind, readers: Iterable[tuple[Field, FieldReader]]) -> Reader:
    """The reader of a struct, by those of its fields."""
    plan = [(field.name, *reading(field.name, field.sources, reader), field.is_required) for field, reader in readers]

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise misfit(kind)
        found: dict[str, Any] = {}
        for name, find, reader, is_required in plan:
            item = find(value)
            if item is None:
                if is_required:
                    raise Misfit("is missing", name)
                found[name] = None
                continue
            try:
                found[name] = reader(item)
            except Misfit as error:
                raise error.within(name) from None
        return found

    return read
