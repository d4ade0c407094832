"""Jobs that upsert: changes in Debezium's envelope and plain ones become a table of the newest rows."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from sordini.pipeline.changes.unavailable import PLACEHOLDER, UNSENT
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.audit import counts_of
from sordini.pipeline.jobs.backfill import Range, backfill
from sordini.pipeline.jobs.batch_writer import decode, open_sink_table
from sordini.pipeline.jobs.compact import compact
from sordini.pipeline.jobs.status import status
from tests.pipeline.sent import KEEP
from tests.pipeline.test_jobs import a_job, run_load, run_stream
from tests.pipeline.topics import KafkaAdminClient  # noqa: F401 - Its import hides kafka-python's warning.

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from sordini.pipeline.jobs.job import Job

JOB = """\
name: people
source: {bootstrap: $bootstrap, topics: [$topic], records_max: 11}
decode:
  mode: json
  changes: debezium
  schema: {fields: {id: long!, name: string!, age: int}}
  columns: {lsn: source.lsn long}
sink:
  kind: $kind
  location: tables/people
  mode: upsert
  keys: id
  sequence: lsn
"""
PLAIN = """\
name: stock
source: {bootstrap: $bootstrap, topics: [$topic]}
decode: {mode: json, schema: {fields: {sku: string!, count: int, gone: boolean}}}
sink: {kind: $kind, location: tables/stock, mode: upsert, keys: [sku], delete_when: gone}
"""
Record = tuple[Any, Any]
"""The key and the value: values of JSON, bytes as they are, or None."""


def envelope(op: str, lsn: int | None, before: object = None, after: object = None, *, has_schema: bool = False) -> Any:
    payload = {"op": op, "before": before, "after": after, "source": {"lsn": lsn}, "ts_ms": 1}
    return {"schema": {"type": "struct"}, "payload": payload} if has_schema else payload


def produce(job: Job, records: Sequence[Record]) -> None:
    from kafka import KafkaProducer

    with closing(KafkaProducer(bootstrap_servers=job.source.bootstrap)) as producer:
        for key, value in records:
            texts = (
                each if each is None or isinstance(each, bytes) else json.dumps(each).encode() for each in (key, value)
            )
            key_bytes, value_bytes = texts
            producer.send(job.source.topics[0], value_bytes, key=key_bytes, partition=0)
        producer.flush(timeout=30)


def rows(job: Job, *columns: str) -> list[tuple[Any, ...]]:
    """What a reader that knows nothing of us sees, by its first column."""
    assert job.sink is not None
    found = pa.table(DeltaTable(job.sink.location).scan()).select(list(columns)).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def reasons(job: Job) -> list[tuple[Any, ...]]:
    assert job.dead_letters is not None
    found = pa.table(DeltaTable(job.dead_letters.location).scan()).select(["offset", "reason"]).to_pylist()
    return sorted(tuple(row.values()) for row in found)


@pytest.fixture
def made(bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> Callable[[str], Job]:
    return lambda text: a_job(tmp_path, bootstrap, make_topic(1, configs=KEEP), "delta", text)


def ada(age: int, key: int = 1) -> dict[str, object]:
    return {"id": key, "name": "Ada", "age": age}


CHANGES: list[Record] = [
    ({"id": 1}, envelope("c", 1, None, ada(30))),
    ({"payload": {"id": 2}}, envelope("r", 1, None, {"id": 2, "name": "Bo", "age": None}, has_schema=True)),
    ({"id": 1}, envelope("u", 3, None, ada(31))),
    ({"id": 3}, envelope("c", 4, None, {"id": 3, "name": "Cy", "age": 1})),
    ({"id": 3}, envelope("d", 5, {"id": 3}, None)),
    ({"id": 3}, None),
    (None, {"status": "BEGIN", "id": "571", "ts_ms": 1}),
    ({"id": 2}, envelope("u", 6, {"id": 2, "name": "Bo"}, {"id": 20, "name": "Bo", "age": 5}, has_schema=True)),
    ({"id": 1}, envelope("u", 2, None, ada(99))),
    ({"id": 30}, envelope("c", 6, None, {"id": 30, "name": "Di", "age": 3})),
    ({"id": 20}, envelope("d", 7, None, None)),
    # A new batch, with what is late, or wrong.
    ({"id": 3}, envelope("u", 4, None, {"id": 3, "name": "Cy", "age": 2})),
    (None, envelope("d", 8, None, None)),
    ({"id": 1}, envelope("x", 8, None, ada(1))),
    ({"id": 1}, envelope("t", 8)),
    ({"id": 1}, envelope("u", 9, None, {"id": "one", "name": "Ada"})),
    ({"id": 1}, envelope("u", 9, None, {"id": 1, "age": 4})),
    ({"id": 4}, envelope("c", None, None, ada(4, 4))),
    ({"id": 4}, b"no JSON"),
    ({"id": 5}, envelope("c", 10, None, ada(5, 5))),
    ({"id": 5}, envelope("u", 11, None, {"id": 5, "name": PLACEHOLDER, "age": 6})),
]
LEFT = [(1, "Ada", 31), (5, "Ada", 5), (30, "Di", 3)]
REASONS = [
    (12, "a deletion without a key, in the value and in the record"),
    (13, "op x is none of c, u, d, r, t"),
    (14, "the source table was truncated (op t): no key names its rows, load the table again"),
    (15, "id is not a long"),
    (16, "name is missing"),
    (17, "lsn is missing"),
    (18, "no change of Debezium's: it has no op"),
    (20, f"name: {UNSENT}"),
]


def test_a_table_follows_the_changes_of_a_database_and_each_that_cannot_be_is_a_dead_letter(
    made: Callable[[str], Job], spark: SparkSession
) -> None:
    job = made(JOB)
    produce(job, CHANGES)
    batches = run_load(job, spark)
    assert [(batch.records, batch.dead) for batch in batches] == [(11, 0), (10, 8)]
    assert rows(job, "id", "name", "age") == LEFT
    assert reasons(job) == REASONS
    assert [place.lag for place in status(job)] == [0]
    assert job.sink is not None
    read = open_sink_table(job.sink, job.name).read(spark).select("id", "age").collect()
    assert sorted(map(tuple, read)) == [(1, 31), (5, 5), (30, 3)]


@pytest.mark.slow
def test_plain_records_are_rows_and_delete_by_their_condition_or_as_tombstones(
    made: Callable[[str], Job], spark: SparkSession
) -> None:
    job = made(PLAIN)
    first = [{"sku": sku, "count": number} for number, sku in enumerate(["a", "b", "c", "7"])]
    produce(job, [(each["sku"], each) for each in first])
    run_stream(job, spark)
    produce(
        job,
        [
            (b"a", None),
            ("b", {"sku": "b", "gone": True}),
            (b"7", None),
            ("c", {"sku": "c", "count": 9}),
            ({"x": 1}, None),
        ],
    )
    run_stream(job, spark)
    assert rows(job, "sku", "count") == [("c", 9)]
    assert reasons(job) == [(8, "sku is missing")]


@pytest.mark.long
def test_stream_load_backfill_and_compact_agree_and_an_audit_says_why_not(
    made: Callable[[str], Job], spark: SparkSession
) -> None:
    job = made(JOB + "audit: {counts: counts.jsonl}\n")
    produce(job, CHANGES[:9])
    run_stream(job, spark)
    produce(job, CHANGES[9:])
    run_load(job, spark)
    assert rows(job, "id", "name", "age") == LEFT
    list(backfill(job, spark, Range(), lambda: False))
    list(compact(job, 1_000_000, clean_up=True))
    list(backfill(job, spark, Range(), lambda: False))
    assert rows(job, "id", "name", "age") == LEFT
    assert reasons(job) == REASONS
    assert all(not batch.rows for batch in run_load(job, spark))
    with pytest.raises(PipelineError, match="nothing to compare with the producers' counts"):
        counts_of(job)


@pytest.mark.long
def test_a_backfill_without_a_sequence_goes_into_another_table(made: Callable[[str], Job], spark: SparkSession) -> None:
    job = made(PLAIN)
    produce(job, [("a", {"sku": "a", "count": 1}), ("a", {"sku": "a", "count": 2})])
    run_load(job, spark)
    with pytest.raises(PipelineError, match="earlier changes would replace newer rows: use --into"):
        list(backfill(job, spark, Range(), lambda: False))
    into = str(job.home / "tables" / "again")
    list(backfill(job, spark, Range(), lambda: False, into))
    assert pa.table(DeltaTable(into).scan()).select(["sku", "count"]).to_pylist() == [{"sku": "a", "count": 2}]


@pytest.mark.slow
def test_keys_that_are_texts_or_several_are_read_from_what_a_database_sends(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = JOB.replace("id: long!", "id: string!, part: int!").replace("keys: id", "keys: [id, part]")
    text = text.replace("lsn long", "lsn long, at: ts_ms timestamp_us")
    job = a_job(tmp_path, "127.0.0.1:1", "t", "delta", text)
    values = [
        ({"id": "a", "part": 1}, envelope("u", 1, {"id": "a", "part": 1}, {"id": "a", "part": 2, "name": "x"})),
        ({"id": "b", "part": 1}, envelope("d", 1)),
        ({"id": "b"}, envelope("d", 1)),
    ]
    data = [
        (json.dumps(key).encode(), json.dumps(value).encode(), "t", 0, at) for at, (key, value) in enumerate(values)
    ]
    columns = "key binary, value binary, topic string, partition int, offset bigint"
    records = spark.createDataFrame(data, columns).selectExpr("*", "timestamp'2026-11-22 00:00:00' as timestamp")
    decoded = decode(job, records)
    found = decoded.rows().selectExpr("id", "part", "_deleted", "offset", "unix_micros(at)").collect()
    assert sorted(map(tuple, found)) == [("a", 1, True, 0, 1), ("a", 2, False, 0, 1), ("b", 1, True, 1, 1)]
    assert [row.reason for row in decoded.dead_letters().collect()] == ["part is missing"]


@pytest.mark.slow
def test_a_key_that_is_read_from_another_place_moves_and_is_deleted_too(spark: SparkSession, tmp_path: Path) -> None:
    text = JOB.replace("id: long!", "id: {kind: string, required: true, from: [$$.a.b, number]}")
    job = a_job(tmp_path, "127.0.0.1:1", "t", "delta", text)
    values: list[Record] = [
        (None, envelope("u", 1, {"a": {"b": "x"}}, {"number": "y", "name": "n"})),
        (b"z", envelope("d", 2)),
        (b"7", envelope("d", 3, {"name": "n"})),
        ({"a": {"b": "w"}}, envelope("d", 4)),
        # Texts that look like numbers.
        *((text, envelope("d", 5)) for text in (b"007", b"123e4567", b"12d", b"NaN")),
    ]
    found = decoded_rows(spark, job, values)
    deleted = ["007", "123e4567", "12d", "7", "NaN", "w", "x"]
    assert found == [*((key, True) for key in deleted), ("y", False), ("z", True)]


@pytest.mark.slow
def test_a_value_that_the_database_did_not_send_replaces_none_whatever_its_kind(
    spark: SparkSession, tmp_path: Path
) -> None:
    more = "data: binary, tags: list<string>, more: 'map<string,string>', age: int"
    job = a_job(tmp_path, "127.0.0.1:1", "t", "delta", JOB.replace("age: int", more))
    unsent: list[dict[str, object]] = [
        {"data": b64encode(PLACEHOLDER.encode()).decode()},
        {"name": b64encode(PLACEHOLDER.encode()).decode()},
        {"name": PLACEHOLDER.encode().hex()},
        {"tags": [PLACEHOLDER]},
        {"more": {PLACEHOLDER: PLACEHOLDER}},
        {"data": "eA==", "name": PLACEHOLDER, "tags": [PLACEHOLDER]},
    ]
    sent = {"data": "eA==", "tags": [PLACEHOLDER, "a"], "more": {"a": PLACEHOLDER}, "age": 1}
    values: list[Record] = [
        *((None, envelope("u", 1, None, ada(1) | each)) for each in unsent),
        (None, envelope("u", 1, None, ada(1, key=7) | sent)),
        (None, envelope("d", 1, ada(1, key=8) | unsent[-1], None)),
    ]
    assert decoded_rows(spark, job, values) == [(7, False), (8, True)]
    dead = sorted(row.reason for row in decode(job, records_of(spark, values)).dead_letters().collect())
    assert dead == sorted(f"{names}: {UNSENT}" for names in ("data", "name", "name", "tags", "more", "name, tags"))


def decoded_rows(spark: SparkSession, job: Job, values: Sequence[Record]) -> list[tuple[Any, ...]]:
    """The keys of the changes, and whether they are deletions, in some order."""
    return sorted(map(tuple, decode(job, records_of(spark, values)).rows().select("id", "_deleted").collect()))


def records_of(spark: SparkSession, values: Sequence[Record]) -> DataFrame:
    data = [
        (
            key if key is None or isinstance(key, bytes) else json.dumps(key).encode(),
            json.dumps(value).encode(),
            "t",
            0,
            at,
        )
        for at, (key, value) in enumerate(values)
    ]
    columns = "key binary, value binary, topic string, partition int, offset bigint"
    return spark.createDataFrame(data, columns).selectExpr("*", "timestamp'2026-11-22 00:00:00' as timestamp")
