"""The columns of all versions of a subject: fields that were renamed, and names that are given again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sordini.pipeline.schemas.registered_columns import is_envelope, names_within, schema_of_versions
from sordini.schemas.registered.types import SchemaSource, SchemaType


def version(**aliases: list[str]) -> SchemaSource:
    """A record with these fields, and their former names."""
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "long", **({"aliases": former} if former else {})} for name, former in aliases.items()
    ]
    return SchemaSource(SchemaType.AVRO, json.dumps({"type": "record", "name": "r", "fields": fields}), (), {})


@pytest.mark.parametrize(
    ("versions", "columns"),
    [
        ([version(a=[]), version(b=["a"])], {"b": ("b", "a")}),
        ([version(a=[]), version(b=["a"]), version(c=["b"])], {"c": ("c", "b", "a")}),
        ([version(a=[]), version(b=["a"]), version(b=[])], {"b": ("b", "a")}),
        # A name that another field has now is none that this one had.
        ([version(a=[]), version(b=["a"], a=[])], {"b": (), "a": ()}),
        ([version(a=[], b=[]), version(a=["b"], b=["a"])], {"a": (), "b": ()}),
        ([version(a=[]), version(b=["a"]), version(b=["a"], a=[])], {"b": (), "a": ()}),
        ([version(a=[], x=[]), version(b=["a"])], {"b": ("b", "a"), "x": ()}),
    ],
)
def test_a_field_is_read_from_the_names_that_it_had_and_no_other_has(
    versions: list[SchemaSource], columns: dict[str, tuple[str, ...]]
) -> None:
    found = {field.name: field.sources or (field.name,) for field in schema_of_versions("s", versions).fields}
    assert found == {name: sources or (name,) for name, sources in columns.items()}


def of_json(*choices: dict[str, Any], **more: Any) -> SchemaSource:
    """An object whose property `after` is null or one of these."""
    properties = {"after": {"oneOf": [{"type": "null"}, *choices]}, "op": {"type": "string"}, **more}
    return SchemaSource(SchemaType.JSON, json.dumps({"type": "object", "properties": properties}), (), {})


def test_a_part_that_may_be_one_of_two_objects_has_no_columns() -> None:
    one: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}}
    assert names_within(of_json(one), "after") == {"x"}
    assert names_within(of_json(one, {**one, "properties": {"y": {"type": "string"}}}), "after") == set()


def test_values_without_a_source_are_no_envelopes() -> None:
    assert is_envelope(of_json(source={"type": "object"}))
    assert not is_envelope(of_json())
