"""`sordini produce`, `consume` and `tail` with a registry, and other programs that read and write the same records."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from sordini.testing import Kafka
from tests.registry.clients.scripted_registry import ScriptedRegistry, answer
from tests.support.pasted import reader_environment, shell_session

PROGRAM = Path(sys.prefix) / "bin" / "sordini"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "schemas.md"
Run = Callable[..., subprocess.CompletedProcess[str]]
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]})
CHANGED = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})
POINT = json.dumps({"title": "Point", "type": "object", "properties": {"x": {"type": "integer"}}})
SHOP = (
    'syntax = "proto3"; message Order { message Line { string sku = 1; } int64 id = 1; } message Key { int32 n = 1; }'
)


@pytest.fixture
def run(kafka: Kafka) -> Run:
    def command(*words: str, lines: str = "", registry: str | None = None) -> subprocess.CompletedProcess[str]:
        words = (*words, "-b", kafka.bootstrap_servers, "--registry", registry or kafka.registry.url)
        return subprocess.run(
            [str(PROGRAM), *words], input=lines, capture_output=True, text=True, timeout=60, check=False
        )

    return command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("order.avsc", ORDER), ("changed.avsc", CHANGED), ("point.json", POINT), ("shop.proto", SHOP)):
        (tmp_path / name).write_text(text)
    return tmp_path


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def consumed(run: Run, topic: str, *options: str) -> list[str]:
    done = run("consume", topic, "--from", "beginning", "--exit-at-end", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def sent(kafka: Kafka, topic: str, value: bytes | None, key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, value, key, partition=0)
    assert producer.flush(30) == 0


def test_a_schema_in_a_file_is_registered_and_other_clients_read_the_values(
    run: Run, kafka: Kafka, client: SchemaRegistryClient, folder: Path
) -> None:
    topic = kafka.topic()
    done = run("produce", topic, "--avro", str(folder / "order.avsc"), lines='{"id":7}\n{"id":8}')
    assert done.returncode == 0, done.stderr
    latest = client.get_latest_version(f"{topic}-value")
    values = [record.value for record in kafka.records(topic)]
    assert [(value or b"")[:5] for value in values] == [b"\x00" + latest.schema_id.to_bytes(4, "big")] * 2
    read = AvroDeserializer(client)
    assert [read(value, value_of(topic)) for value in values] == [{"id": 7}, {"id": 8}]
    assert consumed(run, topic) == ['{"id":7}', '{"id":8}']


def test_values_of_json_schema_are_checked_and_other_clients_read_them(
    run: Run, kafka: Kafka, client: SchemaRegistryClient, folder: Path
) -> None:
    topic = kafka.topic()
    done = run("produce", topic, "--json-schema", str(folder / "point.json"), lines='{"x":1}\n{"x":"one"}')
    assert done.returncode == 1
    assert "line 2: the value: does not fit the JSON schema: $.x" in done.stderr
    (record,) = kafka.records(topic)
    assert JSONDeserializer(POINT, schema_registry_client=client)(record.value, value_of(topic)) == {"x": 1}
    assert consumed(run, topic) == ['{"x":1}']


@pytest.mark.parametrize(
    ("message", "line", "indexes"),
    [("Order", '{"id":"7"}', b"\x00"), ("Key", '{"n":7}', b"\x02\x02"), ("Order.Line", '{"sku":"a"}', b"\x04\x00\x00")],
)
def test_a_message_of_protobuf_is_named_by_its_place_in_the_file(
    run: Run, kafka: Kafka, folder: Path, message: str, line: str, indexes: bytes
) -> None:
    topic = kafka.topic()
    done = run("produce", topic, "--protobuf", f"{folder}/shop.proto:{message}", lines=line)
    assert done.returncode == 0, done.stderr
    (record,) = kafka.records(topic)
    assert (record.value or b"")[5:].startswith(indexes)
    assert consumed(run, topic) == [line]


def test_without_a_file_the_latest_schema_of_the_subject_is_used(
    run: Run, kafka: Kafka, client: SchemaRegistryClient
) -> None:
    topic = kafka.topic()
    refused = run("produce", topic, lines='{"id":7}')
    assert refused.returncode == 1
    assert f"has no schema of {topic}-value: --avro, --json-schema or --protobuf" in refused.stderr
    schema_id = client.register_schema(f"{topic}-value", Schema(ORDER))
    assert run("produce", topic, lines='{"id":7}').returncode == 0
    (record,) = kafka.records(topic)
    assert (record.value or b"")[1:5] == schema_id.to_bytes(4, "big")


def test_nothing_is_registered_where_that_is_not_allowed(
    run: Run, kafka: Kafka, client: SchemaRegistryClient, folder: Path
) -> None:
    topic = kafka.topic()
    words = ("produce", topic, "--avro", str(folder / "order.avsc"), "--no-register")
    refused = run(*words, lines='{"id":7}')
    assert refused.returncode == 1
    assert f"order.avsc is not registered in {topic}-value, and --no-register is given" in refused.stderr
    assert f"{topic}-value" not in client.get_subjects()
    client.register_schema(f"{topic}-value", Schema(ORDER))
    assert run(*words, lines='{"id":7}').returncode == 0
    assert consumed(run, topic) == ['{"id":7}']


def test_a_schema_that_may_not_follow_is_an_error_and_nothing_is_sent(run: Run, kafka: Kafka, folder: Path) -> None:
    topic = kafka.topic()
    run("produce", topic, "--avro", str(folder / "order.avsc"), lines='{"id":7}')
    refused = run("produce", topic, "--avro", str(folder / "changed.avsc"), lines='{"id":"x"}')
    assert refused.returncode == 1
    assert "(409)" in refused.stderr
    assert len(kafka.records(topic)) == 1


def test_a_message_that_is_not_in_the_file_leaves_nothing_registered(
    run: Run, kafka: Kafka, client: SchemaRegistryClient, folder: Path
) -> None:
    topic = kafka.topic()
    refused = run("produce", topic, "--protobuf", f"{folder}/shop.proto:Nothing", lines="{}")
    assert refused.returncode == 1
    assert "no message is called 'Nothing'" in refused.stderr
    assert f"{topic}-value" not in client.get_subjects()


def test_keys_have_a_schema_where_a_file_says_so_and_are_read_by_their_id(
    run: Run, kafka: Kafka, client: SchemaRegistryClient, folder: Path
) -> None:
    topic = kafka.topic()
    options = ("--key-protobuf", f"{folder}/shop.proto:Key", "--avro", str(folder / "order.avsc"), "-k", "|")
    assert run("produce", topic, *options, lines='{"n":1}|{"id":7}').returncode == 0
    assert {f"{topic}-key", f"{topic}-value"} <= set(client.get_subjects())
    assert run("produce", topic, "-k", "|", lines='plain|{"id":8}').returncode == 0
    lines = consumed(run, topic, "--format", "key-value", "-k", "|")
    assert sorted(lines) == ['plain|{"id":8}', '{"n":1}|{"id":7}']


def test_what_has_no_known_id_is_printed_as_it_is(run: Run, kafka: Kafka) -> None:
    topic = kafka.topic()
    unknown = b"\x00\x00\x0f\x42\x40rest"
    for value in (b"text", b"", None, unknown, b"\x00\x01"):
        sent(kafka, topic, value)
    records = [json.loads(line) for line in consumed(run, topic, "--format", "json")]
    assert [record["value"] for record in records] == ["text", "", None, unknown.decode(), "\x00\x01"]
    shown = run("tail", topic, "--json")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [json.loads(line)["value"] for line in shown.stdout.splitlines()] == [row["value"] for row in records]


def test_a_value_that_does_not_fit_its_schema_is_named_with_the_id(
    run: Run, kafka: Kafka, client: SchemaRegistryClient
) -> None:
    topic = kafka.topic()
    schema_id = client.register_schema(f"{topic}-value", Schema(ORDER))
    header = b"\x00" + schema_id.to_bytes(4, "big")
    sent(kafka, topic, header)
    sent(kafka, topic, header + b"\x0e")
    done = run("consume", topic, "--from", "beginning", "--exit-at-end")
    assert (done.returncode, done.stdout) == (1, '{"id":7}\n')
    assert f"{topic}-0 offset 0: schema {schema_id}: not Avro of this schema: it ends too early" in done.stderr
    shown = run("tail", topic)
    assert shown.returncode == 1
    assert '{"id":7}' in shown.stdout
    assert f"offset 0: schema {schema_id}: not Avro" in shown.stderr


def test_a_schema_with_references_is_read(run: Run, kafka: Kafka, client: SchemaRegistryClient) -> None:
    topic = kafka.topic()
    client.register_schema("money", Schema('{"type":"record","name":"Money","fields":[{"name":"cents","type":"int"}]}'))
    bill: dict[str, Any] = {"type": "record", "name": "Bill", "fields": [{"name": "sum", "type": "Money"}]}
    schema = Schema(json.dumps(bill), "AVRO", [SchemaReference("Money", "money", 1)])
    data = AvroSerializer(client, schema)({"sum": {"cents": 5}}, value_of(topic))
    sent(kafka, topic, data)
    assert consumed(run, topic) == ['{"sum":{"cents":5}}']


def test_a_registry_that_is_not_reached_is_an_error_before_the_first_record(run: Run, kafka: Kafka) -> None:
    topic = kafka.topic()
    sent(kafka, topic, b"\x00\x00\x00\x00\x01\x02")
    for words in (
        ("consume", topic, "--from", "beginning", "--exit-at-end"),
        ("tail", topic),
        ("produce", topic),
    ):
        done = run(*words, lines="{}", registry="http://127.0.0.1:1")
        assert (done.returncode, done.stdout) == (1, ""), words
        assert done.stderr == "sordini: the registry http://127.0.0.1:1 is not reached: connection refused\n", words


def test_a_group_commits_no_record_that_was_not_printed_for_want_of_its_schema(
    run: Run, kafka: Kafka, client: SchemaRegistryClient
) -> None:
    topic = kafka.topic()
    header = b"\x00" + client.register_schema(f"{topic}-value", Schema(ORDER)).to_bytes(4, "big")
    for value in (b"plain", header + b"\x0e", header + b"\x10"):
        sent(kafka, topic, value)
    words = ("consume", topic, "--group", "careful", "--from", "beginning", "--exit-at-end")
    failed = run(*words, registry="http://127.0.0.1:1")
    assert (failed.returncode, failed.stdout) == (1, "plain\n")
    assert run(*words).stdout.splitlines() == ['{"id":7}', '{"id":8}']


def test_a_member_of_a_group_sends_heartbeats_while_it_waits_for_a_schema(run: Run, kafka: Kafka) -> None:
    topic = kafka.topic()
    sent(kafka, topic, b"\x00\x00\x00\x00\x07\x0e")

    def script(path: str) -> bytes:
        before = len(kafka.requests("Heartbeat"))
        kafka.wait_for(lambda: len(kafka.requests("Heartbeat")) > before, 30)
        return answer({"schema": ORDER})

    with ScriptedRegistry(script) as registry:
        words = ("consume", topic, "--group", "waiting", "--from", "beginning", "--exit-at-end")
        done = run(*words, registry=registry.url)
    assert (done.returncode, done.stdout) == (0, '{"id":7}\n'), done.stderr


def test_the_page_is_as_run(kafka: Kafka, folder: Path) -> None:
    topic = kafka.topic()
    (folder / "orders.jsonl").write_text('{"id":7}\n')
    *_, block = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    block = re.sub(r"\borders\b(?!\.)", topic, block).replace("http://127.0.0.1:8081", kafka.registry.url)
    environment = reader_environment(SORDINI_BOOTSTRAP=kafka.bootstrap_servers)
    with shell_session(folder, environment, str) as shell:
        printed = shell.paste(block, 60)
    assert printed.count('{"id":7}') == 2
