"""Which texts are schemas of Avro, and their canonical and normalized form. Avro 1.12.1 for Java gives the same answers."""

from __future__ import annotations

import pytest

from sordini.schemas.registered.avro.parsed import ParsedAvro, parse_avro
from sordini.schemas.registered.types import InvalidSchema, SchemaSource, SchemaType


def parsed(text: str) -> ParsedAvro:
    return parse_avro(SchemaSource(SchemaType.AVRO, text, (), {}))


def record(field: str, more: str = "") -> str:
    return f'{{"type":"record","name":"R",{more}"fields":[{field}]}}'


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (' "string" ', '"string"'),
        ("[]", "[]"),
        ('{"type":"string","name":"N","doc":"d","size":4}', '"string"'),
        ('{"type":"int","a":1,"a":2}', '{"type":"int","a":2}'),
        (
            '{"type":"array","name":"N","items":"int","default":[],"aliases":["x"]}',
            '{"type":"array","items":"int","default":[]}',
        ),
        # A name with dots has its namespace.
        ('{"name":"a.b.R","type":"record","fields":[]}', '{"type":"record","name":"R","namespace":"a.b","fields":[]}'),
        ('{"type":"record","name":".R","fields":[]}', '{"type":"record","name":"R","fields":[]}'),
        # Members have an order, properties stay behind them, an empty doc and ascending order are what they are.
        (
            (
                '{"p":1,"aliases":["z.Q","W"],"fields":[{"q":{"b":1,"a":2},"order":"ignore","default":"A","name":"y",'
                '"aliases":["k","b"],"doc":"d","type":{"symbols":["A"],"default":"A","type":"enum","name":"S"}}],'
                '"doc":"","namespace":"a","name":"R","type":"record"}'
            ),
            (
                '{"type":"record","name":"R","namespace":"a","doc":"","fields":[{"name":"y","type":{"type":"enum","name":"S",'
                '"symbols":["A"],"default":"A"},"doc":"d","default":"A","order":"ignore","aliases":["k","b"],'
                '"q":{"b":1,"a":2}}],"p":1,"aliases":["z.Q","W"]}'
            ),
        ),
        (record('{"name":"a","type":"int","order":"ASCENDING"}'), record('{"name":"a","type":"int"}')),
        (record("", '"doc":3,'), record("")),
        # Within a namespace, a type without one says so, and is found by its name alone.
        (
            (
                '{"type":"record","name":"a.R","fields":[{"name":"y","type":{"type":"enum","name":"S","namespace":"",'
                '"symbols":["A"]}},{"name":"x","type":"S"}]}'
            ),
            (
                '{"type":"record","name":"R","namespace":"a","fields":[{"name":"y","type":{"type":"enum","name":"S",'
                '"namespace":"","symbols":["A"]}},{"name":"x","type":"S"}]}'
            ),
        ),
        # A type may be used before it is defined: it is written where it is used first.
        (
            record('{"name":"x","type":"S"},{"name":"y","type":{"type":"enum","name":"S","symbols":["A"]}}'),
            record('{"name":"x","type":{"type":"enum","name":"S","symbols":["A"]}},{"name":"y","type":"S"}'),
        ),
        # A type that is called as a primitive is named in full.
        (
            '{"type":"record","name":"a.string","fields":[{"name":"x","type":["null","a.string"]}]}',
            '{"type":"record","name":"string","namespace":"a","fields":[{"name":"x","type":["null","a.string"]}]}',
        ),
        (
            (
                '{"type":"record","name":"n.R","fields":[{"name":"a","type":{"type":"error","name":"m.Q","fields":'
                '[{"name":"b","type":"n.R"},{"name":"c","type":"Q"}]}},{"name":"d","type":"m.Q"}]}'
            ),
            (
                '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":{"type":"error","name":"Q",'
                '"namespace":"m","fields":[{"name":"b","type":"n.R"},{"name":"c","type":"Q"}]}},{"name":"d","type":"m.Q"}]}'
            ),
        ),
        (
            record('{"name":"y","type":"float","default":"3"}'),
            record('{"name":"y","type":"float","default":3.0}'),
        ),
        (
            record('{"name":"y","type":"double","default":1E3}'),
            record('{"name":"y","type":"double","default":1000.0}'),
        ),
    ],
)
def test_the_canonical_text_is_that_of_avro_for_java(text: str, canonical: str) -> None:
    assert parsed(text).canonical == canonical
    assert parsed(canonical).canonical == canonical


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ('["null","int"]', "3"),
        ('["null","int"]', "null"),
        ('"double"', "3"),
        ('"double"', '"NaN"'),
        ('"long"', "-9223372036854775808"),
        ('"bytes"', '"\\u00ff"'),
        ('{"type":"array","items":"int"}', "[1,2]"),
        ('{"type":"map","values":"int"}', '{"a":1}'),
        (
            '{"type":"record","name":"S","fields":[{"name":"a","type":"int","default":1},{"name":"b","type":"int"}]}',
            '{"b":1}',
        ),
    ],
)
def test_a_default_that_fits_is_taken(kind: str, default: str) -> None:
    assert f'"default":{default}' in parsed(
        record(f'{{"name":"y","type":{kind},"default":{default}}}')
    ).canonical.replace("\u00ff", "\\u00ff")


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ('["null","int"]', '"x"'),
        ('"int"', "3000000000"),
        ('"int"', "3.0"),
        ('"int"', "true"),
        ('"long"', "9223372036854775808"),
        ('"string"', "null"),
        ('"boolean"', "1"),
        ('"null"', "0"),
        ('"float"', '"x"'),
        ('{"type":"array","items":"int"}', '[1,"x"]'),
        ('{"type":"map","values":"int"}', '{"a":"x"}'),
        ('{"type":"record","name":"S","fields":[{"name":"a","type":"int"}]}', "{}"),
    ],
)
def test_a_default_that_does_not_fit_is_refused(kind: str, default: str) -> None:
    with pytest.raises(InvalidSchema, match=r"\$\.fields\[0\] \(y\): .* is no default of its type"):
        parsed(record(f'{{"name":"y","type":{kind},"default":{default}}}'))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('"Nope"', "'Nope' is not defined"),
        ("string", "not JSON"),
        ('{"type":"int"} x', "not JSON"),
        ("3", "a type is a name, an array or an object"),
        ('{"name":"x"}', "needs a 'type'"),
        ('{"type":["int"]}', "needs a 'type'"),
        ('["int","int"]', "'int' twice"),
        ('["int",{"type":"int","logicalType":"date"}]', "'int' twice"),
        ('["int",["string"]]', "immediately inside a union"),
        ('{"type":"array"}', "an array needs 'items'"),
        ('{"type":"map"}', "a map needs 'values'"),
        ('{"type":"record","fields":[]}', "a record needs a 'name'"),
        ('{"type":"enum","symbols":[]}', "an enum needs a 'name'"),
        ('{"type":"record","name":"R"}', "needs 'fields'"),
        ('{"type":"record","name":"9R","fields":[]}', "'9R' is no name"),
        ('{"type":"record","name":"é","fields":[]}', "'é' is no name"),
        ('{"type":"record","name":"R","namespace":"a..b","fields":[]}', "'' is no name"),
        ('{"type":"record","name":"string","fields":[]}', "is a primitive type"),
        ('{"type":"record","name":"R","aliases":"x","fields":[]}', "'aliases' is an array of names"),
        ('{"type":"record","name":"R","aliases":["9x"],"fields":[]}', "'9x' is no name"),
        (record('{"name":"a"}'), "a field is an object"),
        (record('{"name":"a","type":"int"},{"name":"a","type":"int"}'), "the field 'a' twice"),
        (record('{"name":"a","type":"int","order":"up"}'), "'order' is one of"),
        (record('{"name":"a","type":{"type":"record","name":"R","fields":[]}}'), "'R' is defined twice"),
        (
            record('{"name":"a","type":{"type":"record","name":"m.Q","fields":[{"name":"b","type":"m.R"}]}}'),
            "'m.R' is not",
        ),
        ('{"type":"enum","name":"S","symbols":["A","A"]}', "a symbol twice"),
        ('{"type":"enum","name":"S","symbols":["A-b"]}', "'A-b' is no name"),
        ('{"type":"enum","name":"S","symbols":["A"],"default":"B"}', "the default 'B' is no symbol"),
        ('{"type":"fixed","name":"S","size":-1}', "a fixed needs a 'size'"),
        ('{"type":"fixed","name":"S","size":"3"}', "a fixed needs a 'size'"),
    ],
)
def test_a_text_that_is_no_schema_is_refused_with_the_place_and_the_reason(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema) as refused:
        parsed(text)
    assert reason in str(refused.value)


def test_the_normalized_text_does_not_depend_on_what_has_no_order() -> None:
    one = parsed(
        '{"type":"fixed","name":"F","size":4,"b":{"d":1,"c":2},"a":1,"scale":1,"precision":3,"logicalType":"decimal","aliases":["Z","A"],"doc":""}'
    )
    other = parsed(
        '{"name":"F","aliases":["A","Z"],"logicalType":"decimal","precision":3,"a":1,"b":{"c":2,"d":1},"size":4,"scale":1,"type":"fixed"}'
    )
    assert one.canonical != other.canonical
    assert one.normalized == other.normalized
    assert one.normalized == (
        '{"type":"fixed","name":"F","size":4,"logicalType":"decimal","precision":3,"scale":1,"a":1,"b":{"c":2,"d":1},'
        '"aliases":["A","Z"]}'
    )
