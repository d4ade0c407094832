"""Schemas that refer to others."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.schemas.registered.parsing import formatted, parse
from sordini.schemas.registered.references import REFERENCED_MAX, REFERENCES_DEPTH_MAX, TEXT_BYTES_MAX, referenced
from sordini.schemas.registered.registered_codecs import codec_of
from sordini.schemas.registered.types import InvalidSchema, Reference, SchemaSource, SchemaType


def source(kind: SchemaType, text: str, **others: SchemaSource) -> SchemaSource:
    """With references by name, `__` is a dot."""
    named = {name.replace("__", "."): other for name, other in others.items()}
    return SchemaSource(kind, text, tuple(Reference(name, name, 1) for name in named), named)


COLOR = source(SchemaType.AVRO, '{"type":"enum","name":"Color","namespace":"m","symbols":["RED"]}')
PAINT = source(
    SchemaType.AVRO, '{"type":"record","name":"m.Paint","fields":[{"name":"c","type":"Color"}]}', m__Color=COLOR
)
CAR = source(
    SchemaType.AVRO,
    '{"type":"record","name":"Car","fields":[{"name":"p","type":"m.Paint"},{"name":"c","type":"m.Color"}]}',
    m__Paint=PAINT,
)


def test_avro_names_types_of_references_and_of_their_references() -> None:
    car = parse(CAR)
    assert car.canonical == CAR.text
    assert list(car.names) == ["Car"]
    assert '"symbols":["RED"]' in formatted(car, "resolved")
    codec = codec_of(CAR)
    assert codec.decode(codec.encode({"p": {"c": "RED"}, "c": "RED"})) == {"p": {"c": "RED"}, "c": "RED"}


def test_json_refers_by_name_and_relative_to_its_id() -> None:
    item = source(SchemaType.JSON, '{"type": "string"}')
    for ref, name in (("item.json", "item__json"), ("http://e.org/item.json", "item__json")):
        text = f'{{"$id":"http://e.org/order.json","properties":{{"a":{{"$ref":"{ref}"}}}}}}'
        order = source(SchemaType.JSON, text, **{name: item})
        assert parse(order).canonical == text
        assert codec_of(order).encode({"a": "x"}) == b'{"a":"x"}'


def test_protobuf_imports_references_and_files_of_google() -> None:
    money = source(SchemaType.PROTOBUF, 'syntax = "proto3"; package shop; message Money { int32 cents = 1; }')
    text = (
        'syntax = "proto3"; import "money.proto"; import "google/protobuf/any.proto"; '
        "message Order { shop.Money price = 1; google.protobuf.Any rest = 2; message Line { int32 a = 1; } }"
    )
    order = source(SchemaType.PROTOBUF, text, money__proto=money)
    assert list(parse(order).names) == ["Order"]
    codec = codec_of(order)
    assert codec.decode(codec.encode({"price": {"cents": 5}})) == {"price": {"cents": 5}}
    line = codec_of(order, [0, 0])
    assert line.decode(line.encode({"a": 7})) == {"a": 7}
    with pytest.raises(InvalidSchema, match=r"no message \[1\]"):
        codec_of(order, [1])


def test_a_message_of_a_reference_that_changed_is_an_incompatible_field() -> None:
    old, new = (
        parse(
            source(
                SchemaType.PROTOBUF,
                'syntax = "proto3"; import "q.proto"; message M { q.Q a = 1; }',
                q__proto=source(SchemaType.PROTOBUF, f'syntax = "proto3"; package q; message Q {{ {kind} x = 1; }}'),
            )
        )
        for kind in ("int32", "string")
    )
    from sordini.schemas.registered.compatibility import incompatibilities
    from sordini.schemas.registered.types import Level

    found = " ".join(incompatibilities(Level.BACKWARD, new, [old]))
    assert "FIELD_SCALAR_KIND_CHANGED" in found
    assert "'#/Q/1'" in found
    assert "FIELD_NAMED_TYPE_CHANGED" in found
    assert incompatibilities(Level.BACKWARD, new, [new]) == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"type":"record","name":"R","fields":[{"name":"a","type":"Color"}]}', "'Color' is not defined"),
        ('{"type":"enum","name":"m.Color","symbols":["A"]}', "defined twice"),
    ],
)
def test_avro_that_does_not_fit_its_references_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        parse(source(SchemaType.AVRO, text, m__Color=COLOR))


@pytest.mark.parametrize("kind", list(SchemaType))
def test_an_unknown_reference_is_refused(kind: SchemaType) -> None:
    with pytest.raises(InvalidSchema, match="version 3 of 'orders' is not known"):
        parse(SchemaSource(kind, "{}", (Reference("x", "orders", 3),), {}))


def test_a_reference_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="is JSON, not AVRO"):
        parse(source(SchemaType.AVRO, '"int"', x=source(SchemaType.JSON, "{}")))


def test_references_that_lead_back_are_refused() -> None:
    resolved: dict[str, SchemaSource] = {}
    turning = SchemaSource(SchemaType.JSON, "{}", (Reference("a", "a", 1),), resolved)
    resolved["a"] = turning
    with pytest.raises(InvalidSchema, match="leads back to itself: a -> a"):
        parse(turning)


def test_too_many_and_too_deep_references_are_refused() -> None:
    leaf = source(SchemaType.JSON, "{}")
    with pytest.raises(InvalidSchema, match=f"more than {REFERENCED_MAX}"):
        parse(source(SchemaType.JSON, "{}", **{f"a{number}": leaf for number in range(REFERENCED_MAX + 1)}))
    deep = leaf
    for number in range(REFERENCES_DEPTH_MAX + 1):
        deep = source(SchemaType.JSON, "{}", **{f"a{number}": deep})
    with pytest.raises(InvalidSchema, match=f"more than {REFERENCES_DEPTH_MAX} levels"):
        parse(deep)


def test_a_reference_that_many_name_is_followed_once_and_read_before_them() -> None:
    class Counted(dict[str, SchemaSource]):
        def get(self, name: str, default: Any = None) -> Any:
            found.append(name)
            return super().get(name, default)

    # Each level names the next twice: as a tree these were 2^15 schemas.
    found: list[str] = []
    inner = source(SchemaType.JSON, "{}")
    for number in range(15):
        reference = Reference(f"a{number}", "s", 1)
        inner = SchemaSource(SchemaType.JSON, "{}", (reference, reference), Counted({reference.name: inner}))
    assert list(referenced(inner)) == [f"a{number}" for number in range(15)]
    assert len(found) == 2 * 15


def test_texts_that_are_too_long_together_are_refused() -> None:
    half = f'{{"title": "{"x" * (TEXT_BYTES_MAX // 2)}"}}'
    with pytest.raises(InvalidSchema, match=f"more than {TEXT_BYTES_MAX}"):
        parse(source(SchemaType.JSON, half, b=source(SchemaType.JSON, half)))
