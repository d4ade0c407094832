"""Keys and values of topics that the console has a schema of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from sordini.cli.__main__ import main
from sordini.schemas.schema_files import read_schema
from sordini.testing import make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schemas") / "order.avsc"
    path.write_text(json.dumps(ORDER))
    return path


@pytest.fixture(scope="module")
def visitor(schema: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    key_schema = schema.with_name("key.json")
    key_schema.write_text('{"type": "integer"}')
    with make_kafka(topics={"orders": 1, "others": 1}) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        codec = read_schema("avro", str(schema))
        for value in (
            codec.encode({"id": 7, "note": "by hand"}),
            codec.encode({"id": 8, "note": HOSTILE}),
            b"\xff no Avro",
            codec.encode({"id": 9, "note": "x" * 40_000}),
            None,
        ):
            producer.produce("orders", value, b"12", partition=0)
        producer.produce("others", codec.encode({"id": 7, "note": "by hand"}))
        assert producer.flush(30) == 0
        options = ("--schema", f"orders=avro:{schema}", "--key-schema", f"orders=json-schema:{key_schema}")
        with ConsoleProcess(tmp_path_factory.mktemp("console"), kafka.bootstrap_servers, *options) as console:
            yield console.logged_in()


def test_values_of_a_topic_with_a_schema_are_shown_as_json(visitor: Visitor) -> None:
    page = visitor.get("/topic/records?name=orders&start=beginning").text
    assert '{"id": 7, "note": "by hand"}' in words(page)
    one = visitor.get("/topic/record?name=orders&partition=0&offset=0").text
    assert '"id": 7,' in words(one)
    assert 'class="badge quiet">schema</span>' in one


def test_what_a_schema_yields_is_escaped(visitor: Visitor) -> None:
    page = visitor.get("/topic/records?name=orders&start=beginning").text
    assert "&lt;script&gt;alert(1)" in page
    for raw in ("<script>alert(1)", "\x1b", "\u202e"):
        assert raw not in page


def test_a_value_that_is_not_of_the_schema_is_shown_with_the_reason(visitor: Visitor) -> None:
    text = words(visitor.get("/topic/record?name=orders&partition=0&offset=2").text)
    assert "ff 20 6e 6f 20 41 76 72 6f" in text
    assert "not Avro of this schema" in text


def test_a_long_value_is_decoded_on_its_own_page_only(visitor: Visitor) -> None:
    listed = words(visitor.get("/topic/records?name=orders&start=beginning").text)
    assert "not decoded by the schema: it is longer than 16 KiB" in listed
    assert '"id": 9' in words(visitor.get("/topic/record?name=orders&partition=0&offset=3").text)


def test_bytes_are_shown_as_they_are_when_asked_for_and_for_other_topics(visitor: Visitor) -> None:
    assert "0e 0e 62 79 20 68 61 6e 64" in words(
        visitor.get("/topic/record?name=orders&partition=0&offset=0&value_as=hex").text
    )
    other = visitor.get("/topic/records?name=others").text
    assert '"id": 7' not in words(other)
    assert '<option value="schema"' not in other
    assert visitor.get("/topic/records?name=orders").text.count('<option value="schema"') == 2


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("orders", "allowed is TOPIC=KIND:FILE"),
        ("orders=order.avsc", "allowed is TOPIC=KIND:FILE"),
        ("orders=xml:order.xsd", "with the kind avro, protobuf or json-schema"),
        ("orders=avro:no-such-file.avsc", "no-such-file.avsc: no such file"),
    ],
)
def test_a_wrong_schema_is_refused_at_the_start(written: str, reason: str) -> None:
    result = CliRunner().invoke(main, ["console", "--schema", written])
    assert result.exit_code in (1, 2)
    assert reason in result.output


def test_a_topic_has_one_schema(schema: Path) -> None:
    given = f"orders=avro:{schema}"
    result = CliRunner().invoke(main, ["console", "--schema", given, "--schema", given])
    assert result.exit_code == 2
    assert "is there twice" in result.output
