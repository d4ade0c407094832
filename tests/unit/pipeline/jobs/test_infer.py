"""Job files that are proposed for a sample: they can be read, and the sample's records are rows by them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sordini.pipeline.jobs.infer import job_file
from sordini.pipeline.jobs.job import DecodeMode, Job
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.schemas.decoding import json_rows, pair_rows
from sordini.pipeline.schemas.inference import infer

EXAMPLES = 500 if os.environ.get("SORDINI_PIPELINE") == "all" else 30
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.dates().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = TEXTS | st.sampled_from(["a", "b", "offset", "Timestamp", "event_time"])


def proposed(folder: Path, values: list[bytes | None]) -> Job:
    file = folder / "job.yaml"
    file.write_text(job_file("some.topic", "127.0.0.1:9092", infer(values), {}, "delta"))
    return read_job(file, {})


@given(st.lists(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), min_size=1, max_size=4))
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_objects_of_json_are_rows_by_the_job_that_is_proposed_for_them(
    tmp_path: Path, objects: list[dict[str, Any]]
) -> None:
    values = [json.dumps(one).encode() for one in objects]
    job = proposed(tmp_path, [*values, None])
    if job.decode.schema is not None:
        read = json_rows(job.decode.schema)
        assert [read(value)[1] for value in values] == [None] * len(values)


@pytest.mark.parametrize("value", [b"{}", b'{"${": null}', b'{"${A}": 1}'])
def test_objects_without_a_field_that_can_be_a_column_are_kept_as_bytes(tmp_path: Path, value: bytes) -> None:
    assert infer([value]).seen[-1] == "none of them has a field that can be a column: bytes are kept"
    assert proposed(tmp_path, [value]).decode.mode is DecodeMode.RAW


def test_what_is_proposed_says_what_was_seen_and_has_nested_kinds(tmp_path: Path) -> None:
    lines = [{"sku": "a", "count": 1}, {"sku": "b", "count": 1.5, "at": "2026-11-22T08:00:00Z"}]
    order = {"id": 1, "timestamp": 5, "lines": lines, "ship to": {"zip": "8000"}, "tags": [], "ok": True}
    values = [json.dumps(order).encode(), json.dumps({**order, "id": None}).encode(), None]
    text = job_file("shop.orders", "", infer(values), {}, "iceberg")
    assert text.startswith("# 3 records were read, 1 of them without a value.\n# 2 of 2 values are JSON objects.\n")
    job = proposed(tmp_path, values)
    assert job.name == "some_topic"
    assert job.decode.record.timestamp == "kafka_timestamp"
    assert job.decode.schema is not None
    assert {field.name: (field.kind, field.sources) for field in job.decode.schema.fields} == {
        "id": ("long", ()),
        "timestamp": ("long", ()),
        "lines": ("list<struct<sku: string, count: double, at: timestamp>>", ()),
        "ship_to": ("struct<zip: string>", ("ship to",)),
        "tags": ("list<string>", ()),
        "ok": ("boolean", ()),
    }


def test_pairs_are_proposed_with_the_kinds_of_their_texts(tmp_path: Path) -> None:
    values: list[bytes | None] = [b"page=/home&n=7&ratio=1", b"page=/&n=8&ratio=1.5&day=2026-11-22"]
    job = proposed(tmp_path, values)
    assert job.decode.schema is not None
    kinds = {field.name: field.kind for field in job.decode.schema.fields}
    assert kinds == {"page": "string", "n": "long", "ratio": "double", "day": "date"}
    read = pair_rows(job.decode.schema, "&", "=")
    assert [read(value or b"")[1] for value in values] == [None, None]


def connect(*fields: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """The schema beside a payload, whose `after` has these fields: a name, a type, and what else is said."""
    after = {
        "type": "struct",
        "field": "after",
        "fields": [{"field": name, "type": kind, **more} for name, kind, more in fields],
    }
    return {"type": "struct", "fields": [{"type": "string", "field": "op"}, after]}


def change(op: str, source: dict[str, Any], before: object, after: object) -> dict[str, Any]:
    return {"op": op, "source": source, "before": before, "after": after, "ts_ms": 1}


def upserting(folder: Path, objects: list[Any], keys: list[bytes | None]) -> tuple[Job, str]:
    """The job that is proposed for these objects, and its text."""
    found = infer([None if one is None else json.dumps(one).encode() for one in objects], keys)
    file = folder / "job.yaml"
    file.write_text(job_file("shop.people", "", found, {}, "delta"))
    return read_job(file, {}), file.read_text()


def test_envelopes_are_proposed_as_upserts_by_the_keys_and_the_position_in_the_log_of_postgresql(
    tmp_path: Path,
) -> None:
    source = {"lsn": 5, "txId": 1}
    objects = [
        change("c", source, None, {"id": 1, "name": "Ada", "lsn": 3}),
        change("d", source, {"id": 1, "name": None}, None),
        None,
    ]
    job, text = upserting(tmp_path, objects, [b'{"id": 1}', b'{"id": 1}', b'{"id": 1}'])
    assert text.startswith("# 3 records were read, 1 of them without a value.\n# 2 of 2 values are JSON objects.\n")
    assert job.decode.schema is not None
    assert {field.name: field.kind for field in job.decode.schema.fields} == {
        "id": "long",
        "name": "string",
        "lsn": "long",
    }
    assert job.sink is not None
    assert job.sink.upsert is not None
    # The rows have a column of that name.
    assert (job.sink.upsert.keys, job.sink.upsert.sequence) == (("id",), ("source_lsn",))
    assert job.decode.columns["source_lsn"][0] == "source.lsn"


def test_the_schema_beside_a_payload_says_the_kinds_and_mysql_has_a_file_and_a_position(tmp_path: Path) -> None:
    decimal = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    schema = connect(
        ("id", "int32", {}),
        ("price", "bytes", decimal),
        ("day", "int32", {"name": "io.debezium.time.Date"}),
        ("at", "int64", {"name": "io.debezium.time.MicroTimestamp"}),
        ("zoned", "string", {"name": "io.debezium.time.ZonedTimestamp"}),
        ("tags", "array", {"items": {"type": "string"}}),
    )
    row = {"id": 1, "price": "BOI=", "day": 20000, "at": 1, "zoned": "2026-11-22T08:00:00Z", "tags": []}
    objects = [{"schema": schema, "payload": change("c", {"file": "binlog.1", "pos": 4}, None, row)}]
    job, _ = upserting(tmp_path, objects, [b'{"schema": {}, "payload": {"id": 1}}'])
    assert job.decode.schema is not None
    assert {field.name: field.kind for field in job.decode.schema.fields} == {
        "id": "int",
        "price": "decimal_base64(38,2)",
        "day": "date_days",
        "at": "timestamp_us",
        "zoned": "timestamp",
        "tags": "list<string>",
    }
    values, reason = json_rows(job.decode.schema)(json.dumps(row).encode())
    assert reason is None
    assert values is not None
    assert str(values[1]) == "12.50"
    assert job.sink is not None
    assert job.sink.upsert is not None
    assert (job.sink.upsert.keys, job.sink.upsert.sequence) == (("id",), ("file", "pos"))


def test_objects_with_an_op_and_no_rows_are_no_envelopes() -> None:
    assert infer([b'{"op": "c", "amount": 1}']).changes is None
    assert infer([b'{"payload": {"op": "c", "after": {"id": 1}}}']).changes is None


@pytest.mark.parametrize("op", [["c"], {"name": "c"}, 1, None])
def test_objects_whose_op_is_no_text_are_no_envelopes(tmp_path: Path, op: object) -> None:
    values = [json.dumps({"op": op, "after": {"id": 1}}).encode()]
    assert infer(values).changes is None
    assert proposed(tmp_path, [*values]).decode.mode is DecodeMode.JSON


NESTED: dict[str, Any] = {"type": "int64"}
for _ in range(30):
    NESTED = {"type": "array", "items": NESTED}


@pytest.mark.parametrize(
    "fields",
    [
        [("id", "array", {"items": "string"})],
        [("id", "array", {})],
        [("id", "struct", {"fields": ["name"]})],
        [("id", "int64", {}), ("ID", "int64", {})],
        [("id", "int64", {}), ("tags", "array", {"items": NESTED})],
        [],
    ],
)
def test_a_schema_beside_a_payload_that_has_no_columns_leaves_the_kinds_to_the_values(
    tmp_path: Path, fields: list[tuple[str, str, dict[str, Any]]]
) -> None:
    value = {"schema": connect(*fields), "payload": change("c", {"lsn": 1}, None, {"id": 1, "name": "Ada"})}
    job, _ = upserting(tmp_path, [value], [b'{"id": 1}'])
    assert job.decode.schema is not None
    assert [(field.name, field.kind) for field in job.decode.schema.fields] == [("id", "long"), ("name", "string")]


def test_a_part_of_the_records_keys_is_proposed_with_a_warning(tmp_path: Path) -> None:
    objects = [change("c", {"lsn": 1}, None, {"id": 1, "share": 1.5})]
    job, text = upserting(tmp_path, objects, [b'{"id": 1, "share": 1.5}'])
    assert job.sink is not None
    assert job.sink.upsert is not None
    assert job.sink.upsert.keys == ("id",)
    assert "sink.keys has a part of the records' keys, as share can be none here" in text


def test_a_guess_is_a_column_that_can_be_a_key_and_envelopes_without_a_row_propose_nothing(tmp_path: Path) -> None:
    objects = [change("c", {"lsn": 1}, None, {"at": 1.5, "tags": ["a"], "place": {"zip": "1"}, "name": "n", "LSN": 1})]
    job, _ = upserting(tmp_path, objects, [b'{"at": 1.5}'])
    assert job.sink is not None
    assert job.sink.upsert is not None
    assert (job.sink.upsert.keys, job.sink.upsert.sequence) == (("name",), ("source_lsn",))
    job, _ = upserting(tmp_path, [change("d", {"lsn": 1}, None, None)], [b"1"])
    assert job.sink is not None
    assert job.sink.upsert is None


def test_a_key_whose_name_is_none_of_a_column_is_the_column_that_has_its_values(tmp_path: Path) -> None:
    objects = [change("c", {"lsn": 1}, None, {"member id": 7, "id": 1})]
    job, _ = upserting(tmp_path, objects, [b'{"member id": 7}'])
    assert job.sink is not None
    assert job.sink.upsert is not None
    assert job.sink.upsert.keys == ("member_id",)


def test_without_a_key_and_a_position_a_guess_is_proposed_and_said(tmp_path: Path) -> None:
    objects: list[Any] = [change("c", {"scn": None}, None, {"name": "a", "ID": 1})]
    job, text = upserting(tmp_path, objects, [None])
    assert job.sink is not None
    assert job.sink.upsert is not None
    assert (job.sink.upsert.keys, job.sink.upsert.sequence) == (("ID",), ())
    assert "sink.keys is a guess (ID)" in text
    assert "the order of the topic is that of the changes" in text


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        ([b"\0\0\0\0\7x", b"\0\0\0\0\7y"], "values begin with the ids of schemas (7): --registry URL"),
        ([b"\xff", b"{}"], "1 of 2 values are JSON objects, 0 pairs: bytes are kept"),
        ([None], "1 records were read, 1 of them without a value"),
    ],
)
def test_what_has_no_form_is_kept_as_bytes(tmp_path: Path, values: list[bytes | None], seen: str) -> None:
    assert infer(values).mode == "raw"
    assert seen in job_file("t", "", infer(values), {}, "delta")
    assert proposed(tmp_path, values).decode.schema is None
