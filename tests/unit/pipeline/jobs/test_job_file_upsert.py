"""The settings of upserts in a job file, and the sentence for each that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from sordini.pipeline.changes.envelope import Envelope
from sordini.pipeline.jobs.job import Job, JobFileError
from sordini.pipeline.jobs.job_file import read_job

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


def test_an_envelope_is_read_from_json_alone(tmp_path: Path) -> None:
    text = JOB.replace("mode: json", "mode: key_value")
    with pytest.raises(JobFileError, match=r"decode\.changes is debezium, whose envelope is read from JSON"):
        job_of(tmp_path, DEBEZIUM, UPSERT, text)


def test_the_mark_of_deletions_is_no_column_of_the_rows(tmp_path: Path) -> None:
    with pytest.raises(JobFileError, match="the rows have a column _deleted"):
        job_of(tmp_path, "", UPSERT, JOB.replace("name: string,", "_deleted: boolean,"))
