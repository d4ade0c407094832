"""The settings of upserts in a job file, and the sentence for each that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.pipeline.changes.envelope import Envelope
from sordini.pipeline.changes.registered_parts import envelopes
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.jobs.job import Job, JobFileError
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.job_schema import check_columns, registered_of
from sordini.pipeline.library.commit_order import decode_of, rows_of
from sordini.pipeline.schemas.fields import schema_of
from tests.support.debezium_avro import envelope, framed, value_schema

JOB = """\
name: people
source: {topics: [people]}
decode:
  mode: json
  schema: {fields: {id: long!, name: string, at: double}}
  DECODE
sink:
  location: tables/people
  SINK
"""
DEBEZIUM = "changes: debezium"
UPSERT = "mode: upsert\n  keys: id"


def job_of(folder: Path, decode: str = "", sink: str = "", text: str = JOB) -> Job:
    path = folder / "job.yaml"
    path.write_text(text.replace("DECODE", decode).replace("SINK", sink))
    return read_job(path, {})


def test_upserts_have_keys_a_sequence_a_condition_and_columns_of_the_envelope(tmp_path: Path) -> None:
    decode = f"{DEBEZIUM}\n  columns: {{lsn: source.lsn long, tx: transaction.id string}}"
    sink = f"{UPSERT}\n  sequence: [lsn]\n  delete_when: name is null\n  deletions_kept: 2 days"
    job = job_of(tmp_path, decode, sink)
    assert job.sink is not None
    assert job.sink.upsert is not None
    assert job.sink.upsert.keys == ("id",)
    assert job.sink.upsert.sequence == ("lsn",)
    assert job.sink.upsert.delete_when == "name is null"
    assert job.sink.upsert.deletions_kept.seconds == 2 * 86400
    assert job.decode.changes is Envelope.DEBEZIUM
    assert job.decode.columns["lsn"][0] == "source.lsn"
    # Dead letters are appended.
    assert job.dead_letters is not None
    assert job.dead_letters.upsert is None


def test_rows_are_appended_unless_a_job_says_otherwise(tmp_path: Path) -> None:
    job = job_of(tmp_path)
    assert job.sink is not None
    assert job.sink.upsert is None


@pytest.mark.parametrize(
    ("decode", "sink", "said"),
    [
        ("", "mode: upsert", "sink.keys is missing: the columns that identify a row"),
        ("", "mode: upsert\n  keys: nid", "sink.keys has 'nid', and the rows have no such column"),
        ("", "mode: upsert\n  keys: at", "sink.keys has 'at', which is a double: its values cannot be keys"),
        ("", f"{UPSERT}\n  sequence: lsn", "sink.sequence has 'lsn', and the rows have no such column"),
        ("", "mode: merge", "sink.mode is 'merge'"),
        ("", "keys: id", "sink.keys says nothing where the mode is append"),
        (DEBEZIUM, "", "sink.mode is append, and decode.changes is debezium: changes need mode: upsert"),
        ("", f"kind: kafka\n  {UPSERT}", "sink.mode is upsert, and the sink is a topic"),
        ("columns: {lsn: source.lsn long}", UPSERT, "decode.columns says nothing where there is no envelope"),
        (
            f"{DEBEZIUM}\n  columns: {{lsn: lsn}}",
            UPSERT,
            "decode.columns.lsn is 'lsn', not a path in the envelope and a",
        ),
        (f"{DEBEZIUM}\n  columns: {{lsn: sauce.lsn long}}", UPSERT, "an envelope has op, source, transaction, ts_ms"),
        (f"{DEBEZIUM}\n  columns: {{lsn: source.lsn map}}", UPSERT, "whose kind is none of string, int, long"),
        (f"{DEBEZIUM}\n  columns: {{id: source.lsn long}}", UPSERT, "decode.columns.id is a field of the schema, too"),
        (f"{DEBEZIUM}\n  columns: {{offset: source.lsn long}}", UPSERT, "decode.columns.offset cannot be: "),
    ],
)
def test_what_cannot_be_is_said_with_its_line_and_its_name(tmp_path: Path, decode: str, sink: str, said: str) -> None:
    with pytest.raises(JobFileError) as raised:
        job_of(tmp_path, decode, sink)
    assert said in str(raised.value)
    assert str(raised.value).startswith(f"{tmp_path}/job.yaml:")


def test_an_envelope_is_read_from_json_and_by_the_id_of_its_schema_alone(tmp_path: Path) -> None:
    text = JOB.replace("mode: json", "mode: key_value")
    with pytest.raises(JobFileError, match=r"decode\.changes is debezium, whose envelope is read from JSON, or by"):
        job_of(tmp_path, DEBEZIUM, UPSERT, text)


REGISTERED = """\
name: people
source: {topics: [people]}
decode:
  mode: schema_id_prefix
  registry: {url: 'http://127.0.0.1:8081'}
  changes: debezium
  columns: {lsn: source.lsn long, at: source.ts_us timestamp_us}
sink: {location: tables/people, mode: upsert, keys: id, sequence: lsn}
"""


def test_envelopes_of_a_registry_have_the_columns_of_the_rows_in_them(tmp_path: Path) -> None:
    job = job_of(tmp_path, text=REGISTERED)
    assert job.decode.changes is Envelope.DEBEZIUM
    assert job.decode.schema is None
    assert decode_of(job) == "schema_id_prefix, by the schemas of the registry, in the envelope of debezium"
    assert rows_of(job) == "the columns of the schema in the registry, lsn, at"
    registry = registered_of(job).registry
    assert registry is not None
    assert registry.read_subjects == ("people-value", "people-key")


def test_envelopes_may_have_the_schemas_of_files(tmp_path: Path) -> None:
    (tmp_path / "people.avsc").write_text(value_schema([{"name": "id", "type": "long"}]))
    text = REGISTERED.replace(
        "registry: {url: 'http://127.0.0.1:8081'}", "schemas: {7: people.avsc}\n  schema: {fields: {id: long!}}"
    )
    job = job_of(tmp_path, text=text)
    assert job.decode.changes is Envelope.DEBEZIUM
    read = envelopes(registered_of(job), schema_of("people", {"id": "long"}), list(job.decode.columns.values()))
    found = read(framed(job.decode.schemas[7], envelope("c", 3, None, {"id": 5}), 7))
    assert (found.op, found.after, list(found.taken)) == ("c", ([5], None), [3, None])
    assert decode_of(job) == "schema_id_prefix, in the envelope of debezium, to id long!"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (
            "keys: nid",
            "job people: sink.keys has 'nid', and the schemas of people-value have no such column; they have id",
        ),
        ("keys: id, sequence: at", "job people: sink.sequence has 'at', and the schemas of people-value have no"),
        ("keys: id, sequence: lsn", "job people: decode.columns has lsn, and so have the schemas of people-value"),
    ],
)
def test_what_the_columns_of_a_registry_cannot_be_is_said_before_the_batch(
    tmp_path: Path, written: str, said: str
) -> None:
    text = REGISTERED.replace("keys: id, sequence: lsn", written).replace("lsn: source.lsn long, at: source.ts_us timestamp_us", "lsn: source.lsn long")  # fmt: skip
    job = job_of(tmp_path, text=text)
    fields = (
        {"id": "long", "lsn": "long"} if said.startswith("job people: decode") else {"id": "long", "name": "string"}
    )
    with pytest.raises(PipelineError) as raised:
        check_columns(job, schema_of("people", fields), "people-value")
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("keep", "written"),
    [
        ("keep: [key]", "keys: key, sequence: lsn"),
        ("keep: [key], record_prefix: kafka_", "keys: kafka_key, sequence: kafka_offset"),
        ("keep: [key]", "keys: [id, event_date], partition_by: [event_date], sequence: at"),
    ],
    ids=["kept", "kept under another name", "of the partitions"],
)
def test_rows_have_more_columns_than_the_registry_of_which_keys_can_be(tmp_path: Path, keep: str, written: str) -> None:
    text = REGISTERED.replace("keys: id, sequence: lsn", written).replace(
        "mode: schema_id_prefix", "\n  ".join(["mode: schema_id_prefix", *keep.split(", ")])
    )
    job = job_of(tmp_path, text=text)
    assert job.sink is not None
    assert job.sink.upsert is not None
    check_columns(job, schema_of("people", {"id": "long"}), "people-value")


def test_the_mark_of_deletions_is_no_column_of_the_rows(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="the rows have a column _deleted"):
        job_of(tmp_path, "", UPSERT, JOB.replace("name: string,", "_deleted: boolean,"))
