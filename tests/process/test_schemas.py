"""`produce` and `consume` with schemas, against a running broker."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import fastavro
import pytest
from kafka import KafkaConsumer, KafkaProducer

from tests.outside.processes import SordiniProcess
from tests.support.pasted import reader_environment, shell_session

PROGRAM = Path(sys.prefix) / "bin" / "sordini"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "schemas.md"
Run = Callable[..., subprocess.CompletedProcess[str]]
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; string note = 2; } message Id { int32 number = 1; }'
JSON_SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "order.avsc").write_text(json.dumps(AVRO))
    (folder / "order.proto").write_text(PROTO)
    (folder / "order.json").write_text(json.dumps(JSON_SCHEMA))
    return folder


@pytest.fixture
def run(sordini_broker: SordiniProcess) -> Run:
    def command(*words: str, lines: str = "") -> subprocess.CompletedProcess[str]:
        words = (*words, "-b", sordini_broker.bootstrap)
        return subprocess.run(
            [str(PROGRAM), *words], input=lines, capture_output=True, text=True, timeout=60, check=False
        )

    return command


def consumed(run: Run, topic: str, *options: str) -> list[str]:
    done = run("consume", topic, "--from", "beginning", "--exit-at-end", *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_values_of_avro_are_sent_and_printed_as_json_and_other_clients_read_them(
    run: Run, sordini_broker: SordiniProcess, topic: str, schemas: Path
) -> None:
    lines = ['{"id":1,"note":{"string":"x"}}', '{"id":2,"note":null}']
    option = ("--avro", str(schemas / "order.avsc"))
    assert run("produce", topic, *option, lines="\n".join(lines)).returncode == 0
    assert consumed(run, topic, *option) == lines
    records = [json.loads(line) for line in consumed(run, topic, *option, "--format", "json")]
    assert [record["value"] for record in records] == [json.loads(line) for line in lines]
    reader = KafkaConsumer(topic, bootstrap_servers=sordini_broker.bootstrap, auto_offset_reset="earliest")
    record = next(reader)
    reader.close()
    made = fastavro.schemaless_reader(BytesIO(record.value), fastavro.parse_schema(AVRO), None)
    assert made == {"id": 1, "note": "x"}


def test_keys_have_a_schema_of_their_own(run: Run, topic: str, schemas: Path) -> None:
    options = ("--protobuf", f"{schemas}/order.proto:Order", "--key-protobuf", f"{schemas}/order.proto:Id")
    line = '{"number":7}|{"id":"1","note":"hi"}'
    assert run("produce", topic, *options, "--key-separator", "|", lines=line).returncode == 0
    assert consumed(run, topic, *options, "--format", "key-value", "--key-separator", "|") == [line]


def test_what_is_printed_as_json_is_sent_again_as_it_was(run: Run, topic: str, schemas: Path) -> None:
    options = ("--protobuf", f"{schemas}/order.proto:Order")
    run("produce", topic, *options, lines='{"id":"1","note":"hi"}')
    copied = consumed(run, topic, *options, "--format", "json")
    assert run("produce", topic, *options, "--input", "json", lines="\n".join(copied)).returncode == 0
    first, second = (json.loads(line)["value"] for line in consumed(run, topic, *options, "--format", "json"))
    assert first == second == {"id": "1", "note": "hi"}


def test_a_line_that_does_not_fit_is_named_and_nothing_after_it_is_sent(run: Run, topic: str, schemas: Path) -> None:
    lines = '{"id":1}\n{"id":"x"}\n{"id":3}'
    done = run("produce", topic, "--json-schema", str(schemas / "order.json"), lines=lines)
    assert done.returncode == 1
    assert "line 2: the value: does not fit the JSON schema: $.id: 'x' is not of type 'integer'" in done.stderr
    assert consumed(run, topic) == ['{"id":1}']


def test_a_record_that_does_not_fit_is_named_and_the_others_are_printed(
    run: Run, sordini_broker: SordiniProcess, topic: str, schemas: Path
) -> None:
    option = ("--avro", str(schemas / "order.avsc"))
    run("produce", topic, *option, lines='{"id":1,"note":null}')
    producer = KafkaProducer(bootstrap_servers=sordini_broker.bootstrap)
    producer.send(topic, b"")
    producer.close()
    run("produce", topic, *option, lines='{"id":2,"note":null}')
    done = run("consume", topic, "--from", "beginning", "--exit-at-end", *option)
    assert done.stdout.splitlines() == ['{"id":1,"note":null}', '{"id":2,"note":null}']
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"sordini: {topic}-0 offset 1: not Avro of this schema: it ends too early",
        "sordini: 1 record was not printed: the schema does not fit",
    ]


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["--avro", "no.avsc"], 1, "no.avsc: no such file or directory"),
        (["--avro", "a", "--protobuf", "b"], 2, "--avro and --protobuf: a value is of one schema"),
        (["--key-avro", "a", "--key-json-schema", "b"], 2, "--key-avro and --key-json-schema: a key is of one schema"),
    ],
)
def test_options_that_name_no_schema_are_refused(run: Run, topic: str, options: list[str], code: int, why: str) -> None:
    for command in ("produce", "consume"):
        done = run(command, topic, *options)
        assert (done.returncode, done.stdout) == (code, "")
        assert why in done.stderr


def test_the_page_is_as_run(sordini_broker: SordiniProcess, topic: str, tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8").replace("orders", topic)
    _, first, second, _ = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    printed, refused = re.findall(r"\n```\n\n```\n(.*?)```\n", text, re.DOTALL)
    environment = reader_environment(SORDINI_BOOTSTRAP=sordini_broker.bootstrap)
    with shell_session(tmp_path, environment, str) as shell:
        assert shell.paste(first, 60).endswith(printed)
        assert refused.strip() in shell.paste(f"{second.strip()} || true\n", 60)
