"""Levels of compatibility, and what their messages say."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from sordini.schemas.registered.compatibility import SHOWN_CHARACTERS_MAX, incompatibilities
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.types import Level, ParsedSchema, SchemaSource, SchemaType


def avro(*fields: str, name: str = "R") -> ParsedSchema:
    """A record; a field with a ? has a default."""
    made = [{"name": one.strip("?"), "type": "int"} | ({"default": 0} if one.endswith("?") else {}) for one in fields]
    text = json.dumps({"type": "record", "name": name, "fields": made})
    return parse(SchemaSource(SchemaType.AVRO, text, (), {}))


def allowed(level: Level, new: ParsedSchema, earlier: Sequence[ParsedSchema]) -> bool:
    return not incompatibilities(level, new, earlier)


A, AB, AB_DEFAULT = avro("a"), avro("a", "b"), avro("a", "b?")


@pytest.mark.parametrize(
    ("level", "new", "earlier", "expected"),
    [
        (Level.NONE, AB, [A], True),
        (Level.BACKWARD, AB, [A], False),
        (Level.BACKWARD, A, [AB], True),
        (Level.FORWARD, AB, [A], True),
        (Level.FORWARD, A, [AB], False),
        (Level.FULL, AB, [A], False),
        (Level.FULL, A, [AB], False),
        (Level.FULL, AB_DEFAULT, [A], True),
        # The last one alone is compared, or all.
        (Level.BACKWARD, AB, [A, AB], True),
        (Level.BACKWARD_TRANSITIVE, AB, [A, AB], False),
        (Level.FORWARD, A, [AB, A], True),
        (Level.FORWARD_TRANSITIVE, A, [AB, A], False),
        (Level.FULL, AB, [A, AB], True),
        (Level.FULL_TRANSITIVE, AB, [A, AB], False),
        (Level.FULL_TRANSITIVE, AB_DEFAULT, [A, AB_DEFAULT], True),
    ],
)
def test_a_level_says_which_schemas_are_compared_and_in_which_direction(
    level: Level, new: ParsedSchema, earlier: list[ParsedSchema], expected: bool
) -> None:
    assert allowed(level, new, earlier) is expected


@pytest.mark.parametrize("level", list(Level))
def test_the_first_schema_of_a_subject_is_compatible(level: Level) -> None:
    assert allowed(level, AB, [])


def test_messages_say_what_clients_of_the_known_registry_read() -> None:
    fault = (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/1' in the new "
        "schema has no default value and is missing in the old schema', additionalInfo:'b'}"
    )
    assert incompatibilities(Level.BACKWARD, AB, [A], [7]) == [
        fault,
        "{oldSchemaVersion: 7}",
        """{oldSchema: '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'}""",
    ]


def test_forward_messages_call_the_old_schema_the_reader() -> None:
    first, *_ = incompatibilities(Level.FORWARD, A, [AB])
    assert "in the old schema has no default value and is missing in the new schema" in first


def test_full_messages_have_the_faults_of_both_directions_and_the_old_schema_once() -> None:
    found = incompatibilities(Level.FULL, avro("c"), [A])
    assert len(found) == 3
    assert "'a' at path '/fields/0' in the old schema" in found[0]
    assert "'c' at path '/fields/0' in the new schema" in found[1]
    assert found[2].startswith("{oldSchema: ")


def test_the_newest_schema_that_does_not_fit_is_named() -> None:
    found = incompatibilities(Level.BACKWARD_TRANSITIVE, avro("a", "b", "c"), [A, AB, avro("a", "b", "c")], [1, 4, 9])
    assert "{oldSchemaVersion: 4}" in found


def test_a_long_schema_is_shortened_in_messages() -> None:
    *_, shown = incompatibilities(Level.BACKWARD, AB, [avro(*(f"f{number}" for number in range(1_000)))])
    assert shown.startswith("{oldSchema: <truncated> '")
    assert len(shown) < SHOWN_CHARACTERS_MAX + 50


def test_another_kind_of_schema_is_never_compatible_but_with_none() -> None:
    other = parse(SchemaSource(SchemaType.JSON, "{}", (), {}))
    for level in Level:
        found = incompatibilities(level, other, [A])
        assert found == ([] if level is Level.NONE else ["Incompatible because of different schema type"])


def test_json_messages_have_the_path_of_the_keyword() -> None:
    old, new = (
        parse(SchemaSource(SchemaType.JSON, json.dumps(schema), (), {}))
        for schema in ({"properties": {"%s": {"maxLength": 5}}}, {"properties": {"%s": {"maxLength": 3}}})
    )
    found, _ = incompatibilities(Level.BACKWARD, new, [old])
    assert found == (
        '{errorType:"MAX_LENGTH_DECREASED", description:"The value at path \'#/properties/%s/maxLength\' in the new '
        "schema is less than its value in the old schema'}"
    )


def test_protobuf_messages_have_the_number_of_the_field() -> None:
    old, new = (
        parse(
            SchemaSource(SchemaType.PROTOBUF, f'syntax = "proto3"; message M {{ oneof o {{ {kind} a = 3; }} }}', (), {})
        )
        for kind in ("int32", "string")
    )
    found, _ = incompatibilities(Level.BACKWARD, new, [old])
    assert found == (
        '{errorType:"FIELD_SCALAR_KIND_CHANGED", description:"The kind of a SCALAR field at path \'#/M/o/3\' in the '
        'new schema does not match its kind in the old schema"}'
    )
