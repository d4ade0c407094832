from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sordini.cli.__main__ import main
from sordini.pipeline.cli.printable_values import positions_text, printable
from sordini.pipeline.errors import INSTALL
from sordini.pipeline.tables.object_storage import ObjectStorage

JOB = """\
name: views
source:
  topics: [views]
  options: {kafka.sasl.jaas.config: 'PlainLoginModule required username="u" password="secret";', kafka.ssl.key.password: secret}
decode: {mode: json, schema: {fields: {event_time: timestamp!, page: string!}}}
sink: {location: tables/views}
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["pipeline", *arguments])
    return result.exit_code, result.output


def test_check_says_what_a_job_file_means_and_hides_secrets(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    code, said = run("check", str(path), "--json")
    assert code == 0
    assert "secret" not in said
    assert json.loads(said)["decode"]["schema"]["page"] == "string!"
    assert json.loads(said)["sink"] == {
        "kind": "delta",
        "location": str(tmp_path / "tables/views"),
        "partition_by": [],
        "options": {},
        "upsert": None,
        "files_per_batch": 0,
        "upkeep": {
            "small_files_max": 100,
            "cluster_by": [],
            "versions_max": None,
            "vacuum_seconds": 86400,
            "target_bytes": 134217728,
        },
    }
    code, said = run("check", str(path))
    assert code == 0
    assert "mode: json" in said
    assert "secret" not in said


def test_explain_says_what_is_committed_when_and_check_does_so_without_a_broker(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(
        JOB.split("  options", maxsplit=1)[0]
        + "decode: {mode: json, schema: {fields: {event_time: timestamp!, page: string!}}}\nsink: {location: tables/views}\n"
    )
    code, said = run("check", str(path), "--explain", "--bootstrap", "127.0.0.1:1")
    assert code == 0
    assert "position      not known: cannot reach 127.0.0.1:1: connection refused" in said
    numbered = [line.split(". ", 1)[1] for line in said.splitlines() if line.startswith("    ")]
    words = ("intent.json", "rows' files", "dead letters", "in one commit of delta", "done.json")
    assert [word in line for word, line in zip(words, numbered, strict=True)] == [True] * 5
    code, said = run("load", str(path), "--explain", "--bootstrap", "127.0.0.1:1")
    assert (code, said) == (1, "sordini: cannot reach 127.0.0.1:1: connection refused\n")
    assert not (tmp_path / ".sordini").exists()


@pytest.mark.parametrize("command", ["check", "load", "stream", "aggregate", "backfill", "audit", "compact", "status"])
def test_every_command_tells_what_is_wrong_in_a_job_file_before_it_starts_anything(
    tmp_path: Path, command: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("mode: json", "mode: jsn"))
    code, said = run(command, str(path))
    assert code == 1
    assert f"sordini: {path}:5: decode.mode is 'jsn'" in said


def test_jobs_of_one_name_and_an_address_that_is_none_are_reported_before_spark_starts(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    reported = "sordini: two of the jobs are called views; their names must differ\n"
    assert run("stream", str(path), str(path)) == (1, reported)
    for written in ("here", "h:70000", "h:"):
        code, said = run("stream", str(path), "--metrics", written)
        assert code == 2
        assert f"Invalid value for '--metrics': '{written}' is not [HOST:]PORT" in said


def test_a_missing_aggregate_or_audit_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    assert run("aggregate", str(path)) == (1, "sordini: job views has no aggregates\n")
    reported = "sordini: job views has no audit: its file needs the section for this command\n"
    assert run("audit", str(path)) == (1, reported)
    assert run("aggregate", str(path), "--only", "x")[1] == "sordini: job views has no aggregate x; it has none\n"


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        (["--from-time", "noon"], "--from-time: Invalid isoformat string"),
        (["--from-time", "2026-11-22", "--from-offsets", "{}"], "give --from-time or --from-offsets, not both"),
        (["--aggregate", "x", "--to-offsets", '{"t": {"0": 1}}'], "--aggregate goes with --from-time and --to-time"),
    ],
)
def test_a_wrong_range_is_a_usage_error(tmp_path: Path, options: list[str], reported: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    code, said = run("backfill", str(path), *options)
    assert code == 2
    assert reported in said


@pytest.mark.parametrize(
    ("form", "reported"),
    [("spark", "event_time timestamp,"), ("json", '"title": "page_view"'), ("avro", '"namespace": "sordini"')],
)
def test_the_schema_of_a_file_is_printed_in_every_form(tmp_path: Path, form: str, reported: str) -> None:
    file = tmp_path / "page_view.yaml"
    file.write_text("fields: {event_time: timestamp!, page: string!}")
    code, said = run("schema", str(file), "--as", form)
    assert code == 0
    assert reported in said


def test_the_schema_of_a_job_is_printed_and_that_it_has_none_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    assert run("schema", "--job", str(path), "--as", "spark") == (0, "event_time timestamp,\npage string\n")
    path.write_text(JOB.split("decode:", maxsplit=1)[0] + "sink: {location: tables/views}\n")
    reported = f"sordini: {path} has no schema: its values are raw, or a registry has their schemas\n"
    assert run("schema", "--job", str(path)) == (1, reported)


@pytest.mark.parametrize("arguments", [[], ["order.yaml", "--job", "job.yaml"]])
def test_a_schema_is_that_of_a_file_or_of_a_job(arguments: list[str]) -> None:
    code, said = run("schema", *arguments)
    assert code == 2
    assert "give a file of a schema, or --job" in said


def test_a_file_that_is_no_schema_is_reported() -> None:
    forms = "Avro's (.avsc), a JSON schema (.json), or fields (.yaml, .toml)"
    assert run("schema", "views") == (1, f"sordini: views has no schema: a schema is a file: {forms}\n")
    code, said = run("schema", "click")
    assert code == 1
    assert "examples/schemas/click.yaml" in said


def test_positions_are_printed_partition_by_partition() -> None:
    assert positions_text({"a": {0: 23, 1: 4}, "b": {0: 1}}) == "a-0 at 23, a-1 at 4, b-0 at 1"


def test_a_library_that_is_not_there_is_named_with_its_cure(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    hidden = "import sys; sys.modules['pyarrow'] = None; from sordini.cli.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "pipeline", "status", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"sordini: pyarrow is not installed; the pipeline needs it: {INSTALL}\n"


def test_the_command_line_starts_without_spark_and_tables() -> None:
    reported = "import sys; from sordini.pipeline.cli import pipeline; print({'pyspark', 'pyarrow', 'yaml'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", reported], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


SECRETS = (
    "azure_storage_account_key",
    "azure_storage_sas_key",
    "adls.account-key",
    "adls.sas-token",
    "adls.connection-string",
    "google_service_account_key",
    "catalog.credential",
)


@pytest.mark.parametrize("name", SECRETS)
def test_a_stores_secrets_among_options_are_hidden(name: str) -> None:
    storage = ObjectStorage(options={name: "hush", "adls.account-name": "lake"}, account="lake")
    assert printable(storage)["options"] == {name: "(hidden)", "adls.account-name": "lake"}


def test_plain_values_of_a_job_can_be_json(tmp_path: Path) -> None:
    from sordini.pipeline.jobs.job_file import read_job

    path = tmp_path / "job.yaml"
    path.write_text(JOB)
    json.dumps(printable(read_job(path, {})))
