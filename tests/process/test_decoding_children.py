"""The children that decode values for `sordini.schema.validate=full`: what hostile values and schemas cost, and whom."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sordini.broker.records.jobs.child import MEMORY_BYTES_MAX
from sordini.broker.records.jobs.children import RecordWorkerProcesses
from sordini.broker.records.jobs.ports import JobResult
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.jobs import Decoded, DecodeJob
from tests.outside.processes import SordiniProcess
from tests.process.test_cleaning_children import running
from tests.process.test_record_jobs import a_produce, answer_of, children_of, create, send, served_meanwhile
from tests.support import worst_batches
from tests.support.builders import a_batch
from tests.support.wire_client import Client

Connect = Callable[..., Client]
DECODER = "sordini.broker.records.schemas.decoding_child"
NOW_MS = 1_700_000_000_000
BACKTRACKING = json.dumps({"properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}})
HOSTILE = json.dumps({"x": "a" * 60 + "!"}).encode()
LIBRARIES = ("fastavro", "jsonschema", "google/_upb", "rpds")


def framed(schema_id: int, payload: bytes) -> bytes:
    return struct.pack(">bi", 0, schema_id) + payload


def values(*payloads: bytes, codec: int = 0) -> bytes:
    records = [Record(index, NOW_MS, b"k", framed(7, payload)) for index, payload in enumerate(payloads)]
    return bytes(build_batch(records, codec=codec))


def a_job(records: bytes, kind: str, text: str, expanded_bytes_max: int = 2**26) -> DecodeJob:
    schema = {"type": kind, "text": text, "references": []}
    return DecodeJob(memoryview(records), expanded_bytes_max, [schema], {7: 0})


def decoded(result: JobResult) -> Decoded:
    assert isinstance(result.outcome, Decoded), result.outcome
    return result.outcome


@pytest.fixture
async def children() -> AsyncIterator[RecordWorkerProcesses]:
    made = RecordWorkerProcesses()
    yield made
    await made.close()
    assert running(DECODER) == []


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SordiniProcess]:
    with SordiniProcess(tmp_path_factory.mktemp("decoding")) as made:
        yield made


async def test_values_are_decoded_in_a_child_that_is_used_again(children: RecordWorkerProcesses) -> None:
    job = a_job(values(b"\x0e", b"", b"\x0e"), "AVRO", '"long"')
    first = decoded(await children.run(job, 5_000))
    processes = running(DECODER)
    assert first == Decoded([(1, "schema id 7: not Avro of this schema: it ends too early")], 1)
    assert decoded(await children.run(job, 5_000)) == first
    assert (len(processes), running(DECODER)) == (1, processes)


async def test_a_pattern_that_backtracks_refuses_its_value_within_the_limit_of_one(
    children: RecordWorkerProcesses,
) -> None:
    result = await children.run(a_job(values(b"{}", HOSTILE, HOSTILE), "JSON", BACKTRACKING), 5_000)
    [(index, why)] = decoded(result).misfits
    assert (index, "1000 ms of processor time" in why) == (1, True)
    assert (children.died, len(running(DECODER))) == (0, 1)
    assert decoded(await children.run(a_job(values(b"{}"), "JSON", BACKTRACKING), 5_000)).total == 0


async def test_a_batch_that_takes_more_than_a_job_may_is_refused(children: RecordWorkerProcesses) -> None:
    result = await children.run(a_job(values(HOSTILE), "JSON", BACKTRACKING), 200)
    assert isinstance(result.outcome, BrokerError)
    assert (result.outcome.code, "processor time" in str(result.outcome)) == (ErrorCode.MESSAGE_TOO_LARGE, True)
    assert children.died == 0


async def test_a_batch_that_takes_more_memory_than_a_child_may_is_refused(children: RecordWorkerProcesses) -> None:
    bomb = worst_batches.endless_zstd(2 * MEMORY_BYTES_MAX)
    result = await children.run(a_job(bomb, "AVRO", '"bytes"', 4 * MEMORY_BYTES_MAX), 60_000)
    assert isinstance(result.outcome, BrokerError)
    assert (result.outcome.code, children.died) == (ErrorCode.MESSAGE_TOO_LARGE, 0)


async def test_a_child_that_hangs_is_killed_its_values_are_refused_and_the_next_has_a_new_one(tmp_path: Path) -> None:
    flag = tmp_path / "hung"
    script = (
        f"import pathlib, time; flag = pathlib.Path({str(flag)!r})\n"
        "if not flag.exists(): flag.touch(); time.sleep(1000)\n"
        f"from {DECODER} import main; main()"
    )
    children = RecordWorkerProcesses(decoder=(sys.executable, "-c", script), decoding_patience_s=15.0)
    hanging = RecordWorkerProcesses(decoder=(sys.executable, "-c", script), decoding_patience_s=0.5)
    job = a_job(values(b"\x0e"), "AVRO", '"long"')
    try:
        refused = (await hanging.run(job, 1_000)).outcome
        assert isinstance(refused, BrokerError)
        assert (refused.code, "no answer after 0.5 s" in str(refused)) == (ErrorCode.INVALID_RECORD, True)
        assert (hanging.died, running(str(flag))) == (1, [])
        assert decoded(await children.run(job, 1_000)).total == 0
    finally:
        await hanging.close()
        await children.close()


@pytest.mark.parametrize(
    ("kind", "text", "payload"),
    [
        ("AVRO", '{"type": "array", "items": "null"}', b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("AVRO", "[" * 5_000, b""),
        ("AVRO", '"bytes"', b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"),
        ("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}', b""),
        ("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}', b"\2" * 200_000),
        ("JSON", '{"$ref": "#"}', b"1"),
        ("JSON", '{"$ref": "http://127.0.0.1:1/x.json"}', b"1"),
        ("JSON", '{"type": "integer"}', b"9" * 100_000),
        ("JSON", '{"items": {"$ref": "#"}}', b"[" * 900 + b"]" * 900 + b"x"),
        ("JSON", '{"properties": {"x": {"pattern": "["}}}', b'{"x": ""}'),
        ("PROTOBUF", 'import "nowhere.proto";', b"\0"),
        ("PROTOBUF", 'syntax = "proto3"; message M { M m = 1; }', b"\0" + b"\x0a\x7f" * 5_000),
        ("PROTOBUF", 'syntax = "proto3"; message M {}', b"\xfe\xff\xff\xff\x0f" + b"\2" * 100),
    ],
)
async def test_hostile_schemas_and_values_are_refused_and_the_child_goes_on(
    children: RecordWorkerProcesses, kind: str, text: str, payload: bytes
) -> None:
    result = decoded(await children.run(a_job(values(payload), kind, text), 5_000))
    assert [index for index, _ in result.misfits] == [0]
    assert all(0 < len(why) <= 400 for _, why in result.misfits)
    assert decoded(await children.run(a_job(values(b"\x0e"), "AVRO", '"long"'), 5_000)).total == 0
    assert (children.died, len(running(DECODER))) == (0, 1)


async def test_values_that_end_every_child_are_refused_and_not_asked_for_again() -> None:
    script = f"import os; from {DECODER} import main; os.read(0, 1); os.kill(os.getpid(), 11)"
    children = RecordWorkerProcesses(decoder=(sys.executable, "-c", script))
    try:
        refused = (await children.run(a_job(values(b"\x0e"), "AVRO", '"long"'), 5_000)).outcome
        assert isinstance(refused, BrokerError)
        assert (refused.code, children.died) == (ErrorCode.INVALID_RECORD, 2)
    finally:
        await children.close()


async def test_values_whose_child_was_killed_from_outside_are_decoded_by_another(tmp_path: Path) -> None:
    flag = tmp_path / "killed"
    script = (
        f"import os, pathlib; flag = pathlib.Path({str(flag)!r})\n"
        "if not flag.exists(): flag.touch(); os.kill(os.getpid(), 9)\n"
        f"from {DECODER} import main; main()"
    )
    children = RecordWorkerProcesses(decoder=(sys.executable, "-c", script))
    try:
        assert decoded(await children.run(a_job(values(b"\x0e"), "AVRO", '"long"'), 1_000)).total == 0
        assert children.died == 1
    finally:
        await children.close()


async def test_without_a_schema_s_library_producers_are_to_send_again_and_are_sent_its_name() -> None:
    script = f"import sys; sys.modules['fastavro'] = None; from {DECODER} import main; main()"
    children = RecordWorkerProcesses(decoder=(sys.executable, "-c", script))
    try:
        for _ in range(2):
            refused = (await children.run(a_job(values(b"\x0e"), "AVRO", '"long"'), 1_000)).outcome
            assert isinstance(refused, BrokerError)
            assert (refused.code, "Avro needs fastavro" in str(refused)) == (ErrorCode.NOT_ENOUGH_REPLICAS, True)
        assert decoded(await children.run(a_job(values(b"1"), "JSON", "true"), 1_000)).total == 0
        assert children.died == 0
    finally:
        await children.close()


def register(
    client: Client,
    subject: str,
    kind: str,
    text: str,
    schema_id: int = 7,
    references: Sequence[tuple[str, str, int]] = (),
) -> None:
    """What a registry writes, as the version of a subject that has the number of the id."""
    named = [dict(zip(("name", "subject", "version"), row, strict=True)) for row in references]
    version = {"subject": subject, "version": schema_id}
    value = {**version, "id": schema_id, "schemaType": kind, "schema": text, "references": named, "deleted": False}
    key = {"keytype": "SCHEMA", **version, "magic": 1}
    record = Record(0, NOW_MS, json.dumps(key).encode(), json.dumps(value).encode())
    assert client.produce("_schemas", [bytes(build_batch([record]))])[0].error_code == 0


def mapped(process_id: int) -> set[str]:
    """Which of the libraries' compiled parts a process has loaded."""
    found = Path(f"/proc/{process_id}/maps").read_text()
    return {library for library in LIBRARIES if library in found}


def test_others_are_served_while_hostile_values_are_decoded_and_the_broker_loads_no_library(
    broker: SordiniProcess, connect: Connect
) -> None:
    attacker, neighbour, checked = connect(broker), connect(broker), connect(broker)
    create(attacker, "_schemas", cleanup_policy="compact")
    create(attacker, "hostile", sordini_schema_validate="full")
    create(attacker, "opened", cleanup_policy="compact", compression_type="gzip")
    register(attacker, "hostile-value", "JSON", BACKTRACKING)
    [row] = attacker.produce("hostile", [values(b"{}")])
    assert (row.error_code, row.base_offset) == (0, 0), row.error_message
    send(attacker, ApiKey.PRODUCE, 9, a_produce("hostile", values(HOSTILE)))
    # Records that have to be opened have children of their own.
    assert checked.produce("opened", [a_batch(key=b"k", codec=4)])[0].error_code == 0
    assert served_meanwhile(attacker, neighbour) >= 20
    [refused] = answer_of(attacker, ApiKey.PRODUCE, 9).responses[0].partition_responses
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in refused.record_errors] == [0]
    assert attacker.produce("hostile", [values(b"{}")])[0].base_offset == 1
    [child] = children_of(broker, DECODER)
    assert "rpds" in mapped(child)
    assert mapped(broker.pid) == set()


def test_schemas_that_are_too_long_for_one_batch_or_not_all_there_refuse_it(
    broker: SordiniProcess, connect: Connect
) -> None:
    client = connect(broker)
    client.create("_schemas")  # Another test may have created it.
    create(client, "long", sordini_schema_validate="full")
    text = json.dumps({"type": "integer", "description": "x" * 900_000})
    for schema_id in (11, 12, 13):
        register(client, "long-value", "JSON", text, schema_id)
    records = [Record(index, NOW_MS, b"k", framed(number, b"1")) for index, number in enumerate((11, 12, 13))]
    assert client.produce("long", [bytes(build_batch(records[:2]))])[0].error_code == 0
    [refused] = client.produce("long", [bytes(build_batch(records))])
    assert refused.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "2097152 characters" in refused.error_message
    register(client, "long-value", "AVRO", '{"type": "array", "items": "There"}', 14, [("There", "there", 1)])
    [refused] = client.produce("long", [bytes(build_batch([Record(0, NOW_MS, b"k", framed(14, b"\0"))]))])
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [one.batch_index for one in refused.record_errors] == [0]


class WithoutAvro(SordiniProcess):
    """A broker in whose Python the library of Avro is not installed."""

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self.directory / "blocking")}


def test_a_broker_without_a_library_refuses_the_setting_and_the_records_of_topics_that_have_it(
    tmp_path: Path, connect: Connect
) -> None:
    with SordiniProcess(tmp_path) as before:
        client = connect(before)
        create(client, "_schemas", cleanup_policy="compact")
        create(client, "full", sordini_schema_validate="full")
        create(client, "plain")
        register(client, "full-value", "AVRO", '"long"')
        assert client.produce("full", [values(b"\x0e")])[0].error_code == 0
    (tmp_path / "blocking").mkdir()
    (tmp_path / "blocking" / "sitecustomize.py").write_text("import sys; sys.modules['fastavro'] = None")
    with WithoutAvro(tmp_path) as broker:
        client = connect(broker)
        [row] = client.produce("full", [values(b"\x0e")])
        assert (row.error_code, row.base_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        assert "Avro needs fastavro, which is not installed" in row.error_message
        assert "values not decoded" in broker.output()
        setting = CreatableTopicConfig(name="sordini.schema.validate", value="full")
        wanted = CreatableTopic(name="other", num_partitions=1, replication_factor=1, configs=[setting])
        created = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted], timeout_ms=20_000)).topics[0]
        edit = AlterableConfig(name="sordini.schema.validate", config_operation=0, value="full")
        resource = AlterConfigsResource(resource_type=2, resource_name="plain", configs=[edit])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        altered = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0]
        for refused in (created, altered):
            assert refused.error_code == ErrorCode.INVALID_CONFIG
            assert "has not installed fastavro: pip install '../sordini[schemas]'" in refused.error_message
