"""What the rules of JSON Schema permit is what jsonschema permits."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sordini.schemas.registered.json.comparison import json_faults
from sordini.schemas.registered.json.parsed import ParsedJsonSchema, parse_json_schema
from sordini.schemas.registered.types import SchemaSource, SchemaType
from tests.support.json_schemas import SCHEMAS, VALUES, schema_pairs
from tests.support.parts import examples


def parsed(schema: Any) -> ParsedJsonSchema:
    return parse_json_schema(SchemaSource(SchemaType.JSON, json.dumps(schema), (), {}))


@settings(max_examples=examples(800), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(schema_pairs(), st.lists(VALUES, min_size=5, max_size=10))
def test_a_value_that_a_schema_permits_is_permitted_by_all_that_may_follow_it(
    pair: tuple[Any, Any], values: list[Any]
) -> None:
    old, new = pair
    if json_faults(parsed(old).shape, parsed(new).shape):
        return
    before, after = jsonschema.Draft7Validator(old), jsonschema.Draft7Validator(new)
    for value in values:
        assert after.is_valid(value) or not before.is_valid(value)


@settings(max_examples=examples(300), deadline=None)
@given(SCHEMAS)
def test_a_schema_may_follow_itself_and_be_followed_by_anything_goes(schema: Any) -> None:
    shape = parsed(schema).shape
    assert json_faults(shape, parsed(schema).shape) == []
    assert json_faults(shape, parsed(True).shape) == []
    assert json_faults(parsed(False).shape, shape) == []


@settings(max_examples=examples(200), deadline=None)
@given(SCHEMAS)
def test_the_canonical_text_is_the_schema_and_the_normalized_one_has_an_order(schema: Any) -> None:
    made = parsed(schema)
    assert json.loads(made.canonical) == json.loads(made.normalized) == schema
    assert parsed(json.loads(made.canonical)).canonical == made.canonical
    backwards = json.loads(json.dumps(schema), object_pairs_hook=lambda members: dict(reversed(members)))
    assert parsed(backwards).normalized == made.normalized
