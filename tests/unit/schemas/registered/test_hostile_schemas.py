"""Schemas that are made to harm: refused with a reason, in bounded time, and with no other error."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.schemas.registered.compatibility import incompatibilities
from sordini.schemas.registered.json.patterns import matches_name
from sordini.schemas.registered.parsing import parse
from sordini.schemas.registered.protobuf.canonical import canonical_proto
from sordini.schemas.registered.types import InvalidSchema, Level, ParsedSchema, Reference, SchemaSource, SchemaType
from tests.support.parts import examples

AVRO, JSON, PROTOBUF = SchemaType
_AVRO_WORDS = ["type", "record", "name", "fields", "R", "int", "items", "array", "symbols", "enum", "fixed", "size"]
_JSON_WORDS = [
    "$ref",
    "#",
    "#/a",
    "$id",
    "http://[",
    "properties",
    "anyOf",
    "allOf",
    "object",
    "definitions",
    "$schema",
]
_LATER_WORDS = ["prefixItems", "minContains", "dependentSchemas", "if", "const", "$dynamicRef", "unevaluatedItems"]
_OTHER_WORDS = ["aliases", "namespace", "default", "", ".", "a", "union", "required", "enum", "contains"]
_WORDS = st.sampled_from([*_AVRO_WORDS, *_JSON_WORDS, *_LATER_WORDS, *_OTHER_WORDS])
_ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_WORDS, inner, max_size=5)),
    max_leaves=20,
)


def parsed(kind: SchemaType, text: str) -> ParsedSchema:
    return parse(SchemaSource(kind, text, (), {}))


def refusal(kind: SchemaType, text: str) -> str:
    with pytest.raises(InvalidSchema) as refused:
        parsed(kind, text)
    return str(refused.value)


@settings(max_examples=examples(1500), deadline=None)
@given(st.sampled_from([AVRO, JSON]), _ANY_JSON)
def test_any_json_is_a_schema_or_is_refused(kind: SchemaType, value: Any) -> None:
    try:
        made = parsed(kind, json.dumps(value))
    except InvalidSchema:
        return
    again = parsed(kind, made.canonical)
    assert again.canonical == made.canonical
    normalized = parsed(kind, made.normalized)
    assert normalized.normalized == made.normalized
    assert incompatibilities(Level.FULL, again, [made]) == []


@settings(max_examples=examples(500), deadline=None)
@given(st.sampled_from([AVRO, JSON]), st.text())
def test_any_text_is_a_schema_or_is_refused(kind: SchemaType, text: str) -> None:
    try:
        parsed(kind, text)
    except InvalidSchema:
        return
    json.loads(text)


@settings(max_examples=examples(60), deadline=None)
@given(st.one_of(st.text(max_size=60), st.binary(max_size=60).map(lambda data: base64.b64encode(data).decode())))
def test_any_text_is_a_schema_of_protobuf_or_is_refused(text: str) -> None:
    try:
        made = parsed(PROTOBUF, text)
    except InvalidSchema:
        return
    assert parsed(PROTOBUF, made.canonical).canonical == made.canonical


@pytest.mark.parametrize("kind", [AVRO, JSON])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "[" * 1000 + "]" * 1000, '{"a":' * 1000 + "1" + "}" * 1000]
)
def test_json_that_is_nested_deeply_is_refused(kind: SchemaType, text: str) -> None:
    assert "levels deep" in refusal(kind, text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"' + "x" * 1_000_000 + '"', "a name of more than"),
        ('{"type":"record","name":"' + "x" * 1_000_000 + '","fields":[]}', "a name of more than"),
        (
            json.dumps(["null", *({"type": "enum", "name": f"E{n}", "symbols": []} for n in range(3_000))]),
            "a union of more than",
        ),
        ("[" + ",".join(["1"] * 60_000) + "]", "more than 50000 values"),
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"int","default":1e999}]}', "too large for a number"),
        ('{"type":"int","x":' + "9" * 5_000 + "}", "not JSON"),
        ('{"type":"int","x":"\\ud800"}', "half of a surrogate pair"),
        ('{"type":"int","x":NaN}', "NaN"),
    ],
)
def test_an_avro_schema_beyond_a_bound_is_refused(text: str, reason: str) -> None:
    found = refusal(AVRO, text)
    assert reason in found
    assert len(found) < 500


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"$ref": "#"}, "leads back to itself"),
        (
            {
                "$ref": "#/definitions/a",
                "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
            },
            "leads back",
        ),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "neither in the schema nor among its references"),
        ({"$ref": "file:///etc/passwd"}, "neither in the schema nor among its references"),
        ({"properties": {"a": {"$ref": "#/nowhere"}}}, "neither in the schema nor among its references"),
        ({"$ref": "#/title", "title": "x"}, "is no schema"),
        ({"anyOf": [{"const": number} for number in range(3_000)]}, "of more than 1000 schemas"),
        ({"enum": list(range(30_000))}, "more than 20000 values"),
        ({"type": "nothing"}, "is not valid"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "draft 3"),
        ({"$schema": 5}, "'$schema' is a text"),
        ([], "an object, true or false"),
    ],
)
def test_a_json_schema_beyond_a_bound_is_refused(schema: Any, reason: str) -> None:
    found = refusal(JSON, json.dumps(schema))
    assert reason in found
    assert len(found) < 500


def test_a_pattern_is_never_run_on_registration_and_on_names_only_if_it_is_cheap() -> None:
    bomb = "^(a+)+$"
    made = parsed(JSON, json.dumps({"pattern": bomb, "patternProperties": {bomb: {"type": "string"}, "\\p{L}": {}}}))
    new = parsed(JSON, json.dumps({"properties": {"a" * 400 + "!": {"type": "string"}}}))
    assert incompatibilities(Level.FULL, new, [made])
    assert not matches_name(bomb, "aaa")
    for hostile in ("(a|a)*b", "a*a*a*a*b", "(?=a)", r"(a)\1", "(((", "a{1,9}{1,9}{1,9}", "x" * 300, "[", "a**"):
        assert not matches_name(hostile, "aab")
    assert matches_name("^x_[a-z]+$", "x_abc")
    assert matches_name("b", "abc")
    assert not matches_name("^b", "abc")


def test_combinations_that_would_take_too_long_to_compare_are_not_compatible() -> None:
    def many(word: str) -> ParsedSchema:
        return parsed(
            JSON, json.dumps({"anyOf": [{"properties": {f"{word}{n}": {"type": "null"}}} for n in range(900)]})
        )

    found = incompatibilities(Level.BACKWARD, many("a"), [many("b")])
    assert "too large to be compared" in found[0]


@pytest.mark.parametrize("count", [5, 60])
def test_references_that_multiply_are_compared_in_bounded_time(count: int) -> None:
    def tangled(last: str) -> ParsedSchema:
        names = [f"#/definitions/d{number}" for number in range(count + 1)]
        definitions: dict[str, Any] = {
            f"d{number}": {"anyOf": [{"$ref": names[number + 1]}, {"type": "null"}, {"$ref": "#"}]}
            for number in range(count)
        }
        definitions[f"d{count}"] = {"type": last}
        return parsed(JSON, json.dumps({"items": {"$ref": names[0]}, "definitions": definitions}))

    old = tangled("string")
    assert incompatibilities(Level.FULL, tangled("string"), [old]) == []
    assert incompatibilities(Level.BACKWARD, tangled("integer"), [old])
    assert incompatibilities(Level.FORWARD, tangled("integer"), [old])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('syntax = "proto3"; import "other.proto"; message M {}', "other.proto"),
        ('syntax = "proto3"; import "/etc/passwd"; message M {}', "/etc/passwd"),
        ('syntax = "proto3"; import "../../x.proto"; message M {}', "../../x.proto"),
        ('syntax = "proto3"; import "default.proto"; message M {}', "imports itself"),
        ("message M { " * 1_000 + "}" * 1_000, "recursion limit"),
        ('syntax = "proto3"; option java_package = ' + "{ a " * 5_000 + "};", "default.proto:1"),
        ('syntax = "proto3"; message M { int32 a = 1; int32 b = 1; }', "1"),
        ('syntax = "proto9"; message M {}', "proto9"),
        ("\x00\x01", "default.proto:1:1"),
        ("message M { X x = 1; }", "default.proto:1"),
    ],
)
def test_a_schema_of_protobuf_that_does_not_compile_is_refused_with_the_place(text: str, reason: str) -> None:
    found = refusal(PROTOBUF, text)
    assert reason in found
    assert len(found) <= 1_000
    assert "/tmp" not in found


@pytest.mark.parametrize(
    "name", ["../up.proto", "/etc/x.proto", "a/../../b.proto", "a\\b.proto", "x" * 300, "", ".", "a//b", "a\nb"]
)
def test_a_reference_of_protobuf_with_a_name_outside_the_folder_is_refused(name: str) -> None:
    inner = SchemaSource(PROTOBUF, 'syntax = "proto3";', (), {})
    source = SchemaSource(PROTOBUF, 'syntax = "proto3";', (Reference(name, "s", 1),), {name: inner})
    with pytest.raises(InvalidSchema, match="no file can be imported as"):
        parse(source)


def test_defaults_that_multiply_are_checked_in_bounded_time() -> None:
    records = [
        {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": [f"R{n}" for n in range(9)]}]}
        for number in range(9)
    ]
    default: Any = 1
    for _ in range(60):
        default = {"a": default}
    field = {"name": "a", "type": [f"R{number}" for number in range(9)], "default": default}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "types", "type": records}, field]})
    assert "no default of its type" in refusal(AVRO, text)


def test_types_that_are_chained_are_refused_or_compared_without_another_error() -> None:
    def chained(count: int, kind: str) -> str:
        last = {"type": "record", "name": f"R{count}", "fields": [{"name": "a", "type": kind}]}
        records = [
            {"type": "record", "name": f"R{number}", "fields": [{"name": "a", "type": f"R{number + 1}"}]}
            for number in range(count)
        ]
        return json.dumps([last, *reversed(records)])

    assert incompatibilities(Level.BACKWARD, parsed(AVRO, chained(200, "int")), [parsed(AVRO, chained(200, "string"))])
    backwards = json.dumps(json.loads(chained(200, "int"))[::-1])
    assert "levels deep" in refusal(AVRO, backwards) or "too deep" in refusal(AVRO, backwards)


@pytest.mark.parametrize("kind", ["fields", "schemas"])
def test_json_schemas_that_are_chained_are_compared_without_another_error(kind: str) -> None:
    def chained(last: str) -> ParsedSchema:
        inner = "properties" if kind == "fields" else "patternProperties"
        definitions: dict[str, Any] = {
            f"d{number}": {inner: {"a": {"$ref": f"#/definitions/d{number + 1}"}}} for number in range(2_000)
        }
        definitions["d2000"] = {"type": last}
        return parsed(JSON, json.dumps({"$ref": "#/definitions/d0", "definitions": definitions}))

    assert "too large" in incompatibilities(Level.BACKWARD, chained("string"), [chained("null")])[0]
    assert incompatibilities(Level.FULL, chained("string"), [chained("string")]) == []


def test_messages_of_a_reference_that_are_chained_are_compared_without_another_error() -> None:
    def chained(kind: str) -> ParsedSchema:
        messages = " ".join(f"message M{number} {{ M{number + 1} a = 1; }}" for number in range(1_500))
        other = f'syntax = "proto3"; package q; {messages} message M1500 {{ {kind} a = 1; }}'
        text = 'syntax = "proto3"; import "q.proto"; message M { q.M0 a = 1; }'
        inner = SchemaSource(PROTOBUF, other, (), {})
        return parse(SchemaSource(PROTOBUF, text, (Reference("q.proto", "q", 1),), {"q.proto": inner}))

    assert "too large" in incompatibilities(Level.BACKWARD, chained("string"), [chained("int32")])[0]


def test_a_descriptor_that_is_not_whole_is_refused() -> None:
    message = descriptor_pb2.DescriptorProto(name="M")
    message.field.add(name="a", number=1, type=5, label=1, oneof_index=3)
    files = [
        descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3", public_dependency=[7]),
        descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="proto3", message_type=[message]),
        descriptor_pb2.FileDescriptorProto(name="a.proto", syntax="editions", edition=99999),
        descriptor_pb2.FileDescriptorProto(name="a.proto", package="a; import 'x.proto'"),
    ]
    for file in files:
        assert refusal(PROTOBUF, base64.b64encode(file.SerializeToString()).decode())


@pytest.mark.parametrize(
    "text", ["export message M {}", "message M { frobnicate X { } }", "service S { stream (A, B); }"]
)
def test_a_statement_that_is_not_known_is_refused_rather_than_lost(text: str) -> None:
    with pytest.raises(InvalidSchema, match="a statement that is not known"):
        canonical_proto(text)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        ("minContains", "x"),
        ("maxContains", None),
        ("prefixItems", 5),
        ("prefixItems", [1]),
        ("dependentSchemas", [1]),
        ("dependentSchemas", {"a": 5}),
        ("dependentRequired", {"a": 5}),
        ("unevaluatedProperties", 3),
        ("unevaluatedItems", "x"),
        ("$dynamicRef", 7),
        ("if", 3),
        ("contains", [1]),
        ("propertyNames", "x"),
    ],
)
def test_a_keyword_of_a_later_draft_with_a_value_that_it_cannot_have_means_nothing(keyword: str, value: Any) -> None:
    draft = {"$schema": "http://json-schema.org/draft-04/schema#", "then": 1, "minItems": 1}
    with_it, without = parsed(JSON, json.dumps({**draft, keyword: value})), parsed(JSON, json.dumps(draft))
    assert incompatibilities(Level.FULL, with_it, [without]) == []
