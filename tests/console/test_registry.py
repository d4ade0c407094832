"""Keys and values whose schema is in a registry."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from sordini.testing import Kafka, make_kafka
from tests.console.console_process import ConsoleProcess, Visitor, words
from tests.registry.clients.scripted_registry import ScriptedRegistry, answer
from tests.support.polling import eventually

ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]}'
SLOW_PATTERN = '{"type": "string", "pattern": "^(a+)+$"}'
SHOP = 'syntax = "proto3"; message Order { int64 id = 1; } message Key { string code = 1; }'
PAGE = "/topic/records?name=orders&start=beginning"


def header(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big")


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with make_kafka(topics={"orders": 1}, registry=True) as kafka:
        with SchemaRegistryClient({"url": kafka.registry.url}) as client:
            order = client.register_schema("orders-value", Schema(ORDER))
            pattern = client.register_schema("<b>texts", Schema(SLOW_PATTERN, "JSON"))
            shop = client.register_schema("shop", Schema(SHOP, "PROTOBUF"))
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for key, value in (
            (header(shop) + b"\x02\x02\x0a\x01k", header(order) + b"\x0e\x08<i>x"),
            (b"plain", header(pattern) + b'"' + b"a" * 100 + b'!"'),
            (None, header(order) + b"\x0e"),
            (None, header(999) + b"no schema"),
        ):
            producer.produce("orders", value, key, partition=0)
        assert producer.flush(30) == 0
        yield kafka


@pytest.fixture(scope="module")
def visitor(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    folder = tmp_path_factory.mktemp("console")
    with ConsoleProcess(folder, kafka.bootstrap_servers, "--registry", kafka.registry.url) as console:
        yield console.logged_in()


def test_keys_and_values_are_shown_by_their_ids_with_the_subjects_of_the_schema(visitor: Visitor) -> None:
    page = visitor.get(PAGE).text
    text = words(page)
    assert '{"id": 7, "note": "<i>x"}' in text
    assert '{"code": "k"}' in text
    assert "schema 1: orders-value version 1" in text
    assert "<b>" not in page
    assert "<i>" not in page
    assert '"id": 7,' in words(visitor.get("/topic/record?name=orders&partition=0&offset=0").text)


def test_no_pattern_of_a_schema_is_run_on_a_value(visitor: Visitor) -> None:
    assert f'"{"a" * 100}!"' in words(visitor.get(PAGE).text)


def test_a_value_that_does_not_fit_and_one_without_a_schema_are_shown_as_bytes(visitor: Visitor) -> None:
    text = words(visitor.get(PAGE).text)
    assert "not Avro of this schema: it ends too early" in text
    assert "6e 6f 20 73 63 68 65 6d 61" in text


def test_records_that_arrive_are_shown_by_their_ids(visitor: Visitor, kafka: Kafka) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    with ThreadPoolExecutor(1) as threads:
        following = threads.submit(visitor.events, "/live/records?name=orders", 3)

        def has_arrived() -> bool | None:
            """Written again and again: when the stream has begun to read is not known."""
            producer.produce("orders", header(1) + b"\x10\x08live")
            assert producer.flush(30) == 0
            return following.done() or None

        eventually(has_arrived, "a record that was written", 30)
        markup = "".join(fields["html"] for kind, fields in following.result() if kind == "records")
    assert '{"id": 8, "note": "live"}' in words(markup)


def test_subjects_are_listed_and_found_and_escaped(visitor: Visitor) -> None:
    page = visitor.get("/schemas").text
    assert "Compatibility, where a subject has no other: BACKWARD ." in words(page)
    assert "&lt;b&gt;texts" in page
    assert "<b>" not in page
    found = visitor.get("/schemas?find=orders").text
    assert 'href="/schema?subject=orders-value"' in found
    assert "shop" not in found


def test_a_subject_has_its_versions_its_level_and_the_text_of_one(visitor: Visitor, kafka: Kafka) -> None:
    more = '{"type": "record", "name": "Bill", "fields": [{"name": "order", "type": "Order"}]}'
    with SchemaRegistryClient({"url": kafka.registry.url}) as client:
        client.register_schema("bills", Schema('"int"'))
        client.set_compatibility("bills", "NONE")
        client.register_schema("bills", Schema(more, "AVRO", [SchemaReference("Order", "orders-value", 1)]))
    page = visitor.get("/schema?subject=bills").text
    text = words(page)
    assert "Version 2 Id" in text
    assert "Kind AVRO Compatibility NONE" in text
    assert '"name": "Bill"' in text
    assert 'href="/schema?subject=orders-value&amp;version=1"' in page
    assert 'href="/schema?subject=bills&amp;version=1"' in page
    assert '"int"' in words(visitor.get("/schema?subject=bills&version=1").text)
    assert "refused: Version 9 not found" in words(visitor.get("/schema?subject=bills&version=9").text)
    assert "refused: Subject" in words(visitor.get("/schema?subject=nothing").text)


@pytest.mark.parametrize(
    ("data", "drips", "reason"),
    [
        (b"", True, "did not answer within 2 s"),
        (answer({"message": "not now"}, "503 No"), False, "refused: not now (503)"),
        (answer([1]), False, "is no registry"),
    ],
)
def test_a_registry_that_fails_leaves_the_bytes_and_says_why(
    kafka: Kafka,
    tmp_path: Path,
    data: bytes,
    drips: bool,
    reason: str,
) -> None:
    with (
        ScriptedRegistry(lambda _: data, drips=drips) as server,
        ConsoleProcess(tmp_path, kafka.bootstrap_servers, "--registry", server.url) as console,
    ):
        text = words(console.logged_in().get(PAGE).text)
        assert reason in text
        assert "08 3c 69 3e 78" in text
        assert len(server.requests) == 1
        assert reason in words(console.logged_in().get("/schemas").text)
