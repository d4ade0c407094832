"""Job files whose text means something else to YAML, to a table or to a topic than to who wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sordini.pipeline import Job
from sordini.pipeline.cli.printable_values import printable
from sordini.pipeline.jobs.batch_writer import open_sink
from sordini.pipeline.jobs.job import JobFileError
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.transactional_topic import TransactionalTopic

HEAD = "name: views\nsource: {topics: [views]}\n"
SINK = "sink: {location: tables/views}\n"


def read(folder: Path, text: str) -> Job:
    path = folder / "job.yaml"
    path.write_text(text, encoding="utf-8")
    return read_job(path, {})


def made(**more: Any) -> Job:
    return Job.of(name="views", source={"topics": ["views"], "bootstrap": "one:9092"}, **more)


def test_fields_and_columns_may_be_called_no_on_and_1(tmp_path: Path) -> None:
    fields = "decode: {mode: json, schema: {fields: {no: long!, on: date, off: {struct: {yes: string}}}}}\n"
    counted = "aggregates: {1: {window: 1 day, by: [on], measures: {no: max(no)}, sink: {location: days}}}\n"
    quoted = counted.replace("by: [on]", "by: ['on']")
    job = read(tmp_path, HEAD + fields + SINK + quoted)
    assert job.decode.schema is not None
    assert [(one.name, one.kind) for one in job.decode.schema.fields] == [
        ("no", "long"),
        ("on", "date"),
        ("off", "struct<yes: string>"),
    ]
    assert [(one.name, dict(one.measures)) for one in job.aggregates] == [("1", {"no": "max(no)"})]
    with pytest.raises(JobFileError, match="by has True, which is not a text"):
        read(tmp_path, HEAD + fields + SINK + counted)
    with pytest.raises(JobFileError, match=r"job\.yaml:3: 'no' is set twice"):
        read(tmp_path, HEAD + "decode: {mode: json, schema: {fields: {no: long, 'no': date}}}\n" + SINK)


def test_numbers_among_free_settings_are_the_text_that_is_written(tmp_path: Path) -> None:
    options = "options: {kafka.client.id: 0123, kafka.client.rack: 1.10, minPartitions: 8, includeHeaders: yes}"
    job = read(
        tmp_path, f"name: views\nsource:\n  topics: [views]\n  {options.replace(', includeHeaders: yes', '')}\n{SINK}"
    )
    assert job.source.options == {"kafka.client.id": "0123", "kafka.client.rack": "1.10", "minPartitions": "8"}
    config = read(tmp_path, HEAD + SINK + "spark: {config: {a: yes, b: 12:30, c: 1_000, d: 0x1F, e: -0.50}}\n").spark
    assert config.config == {"a": "true", "b": "12:30", "c": "1_000", "d": "0x1F", "e": "-0.50"}


def test_a_variable_may_be_a_number_or_a_truth(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    lines = "  records_max: ${RECORDS}\n  fail_on_data_loss: ${STRICT:-false}\n"
    path.write_text(f"name: views\nsource:\n  topics: [views]\n{lines}{SINK}")
    source = read_job(path, {"RECORDS": "700"}).source
    assert (source.records_max, source.fail_on_data_loss) == (700, False)
    assert read_job(path, {"RECORDS": "7", "STRICT": "true"}).source.fail_on_data_loss
    with pytest.raises(JobFileError, match=r"records_max is 'many', not a whole number from 1 on"):
        read_job(path, {"RECORDS": "many"})
    with pytest.raises(JobFileError, match=r"fail_on_data_loss is 'no', neither true nor false"):
        read_job(path, {"RECORDS": "7", "STRICT": "no"})


def test_topics_in_one_text_are_refused_as_the_source_would_read_two_and_all_else_know_one(tmp_path: Path) -> None:
    for topics in ("'views, clicks'", "[views, 'a,b']", "a/b"):
        with pytest.raises(JobFileError, match=r"job\.yaml:2: source\.topics has .*several topics are a list"):
            read(tmp_path, f"name: views\nsource: {{topics: {topics}}}\n{SINK}")


def test_two_sinks_that_are_one_table_are_refused_as_a_table_knows_its_batches_by_the_job() -> None:
    for location in ("tables/views", "tables/views/"):
        with pytest.raises(
            JobFileError, match=r"dead_letters has the location of sink, .*: each needs a table of its own"
        ):
            made(sink={"location": "tables/views"}, dead_letters={"location": location})
    windows = {"window": "1 day", "sink": {"location": "tables/views", "kind": "iceberg"}}
    with pytest.raises(JobFileError, match=r"aggregates\.days\.sink has the location of sink"):
        made(sink={"location": "tables/views"}, aggregates={"days": windows})
    named = {"kind": "iceberg", "location": "lake", "options": {"table": "a.views"}}
    made(sink=named, dead_letters={**named, "options": {"table": "a.dead"}})


def test_a_job_that_would_read_its_own_rows_is_refused() -> None:
    with pytest.raises(JobFileError, match="sink is the topic views, which the job reads"):
        made(sink={"kind": "kafka", "location": "views"})
    source = {"pattern": "views.*", "bootstrap": "one:9092"}
    with pytest.raises(JobFileError, match="dead_letters is the topic views-dead, which the job reads"):
        Job.of(
            name="a", source=source, sink={"location": "t"}, dead_letters={"kind": "kafka", "location": "views-dead"}
        )
    elsewhere = {"kind": "kafka", "location": "views", "options": {"kafka.bootstrap.servers": "two:9092"}}
    Job.of(name="a", source=source, sink=elsewhere, dead_letters={"location": "t"})


def test_names_that_are_looked_for_in_tables_have_the_case_of_the_columns() -> None:
    decode = {"mode": "json", "schema": {"fields": {"id": "long!", "at": "timestamp!"}}}
    for name in ("keys", "sequence"):
        upsert = {"location": "t", "mode": "upsert", "keys": ["id"], name: ["ID"]}
        with pytest.raises(JobFileError, match=rf"sink\.{name} has 'ID', .*did you mean id\?"):
            made(decode=decode, sink=upsert)
    with pytest.raises(JobFileError, match=r"audit\.time has 'At', .*did you mean at\?"):
        made(decode=decode, sink={"location": "t"}, audit={"counts": "c.jsonl", "time": "At"})


def test_windows_of_an_audit_are_whole_seconds() -> None:
    with pytest.raises(
        JobFileError, match=r"audit\.window is 500 milliseconds: the producers' windows are whole seconds"
    ):
        made(sink={"location": "t"}, audit={"counts": "c.jsonl", "window": "500 milliseconds"})


def test_a_job_that_reads_committed_records_may_write_into_a_topic() -> None:
    options = {"kafka.isolation.level": "read_committed", "kafka.request.timeout.ms": "7000"}
    source = {"topics": ["views"], "bootstrap": "one:9092", "options": options}
    job = Job.of(
        name="a", source=source, sink={"kind": "kafka", "location": "b", "options": {"kafka.transactional.id": "x"}}
    )
    assert job.sink is not None
    sink = open_sink(job, job.sink, job.name)
    assert isinstance(sink, TransactionalTopic)
    assert sink.options.client.limits.request_ms == 7000


def test_keys_and_passwords_of_stores_clusters_and_catalogs_are_not_printed() -> None:
    options = {"kafka.security.protocol": "SSL", "kafka.ssl.keystore.key": "hush"}
    catalog = {
        "catalog.type": "sql",
        "catalog.uri": "postgresql://ann:hush@host/lake",
        "catalog.adls.account-key": "hush",
    }
    job = Job.of(
        name="views",
        source={"topics": ["views"], "bootstrap": "one:9092", "options": options},
        sink={"kind": "iceberg", "location": "t", "options": catalog},
        storage={"options": {"azure_storage_account_key": "hush"}},
        spark={"config": {"spark.hadoop.fs.azure.account.key.lake": "hush"}},
    )
    shown = str(printable(job))
    assert "hush" not in shown
    assert "postgresql://ann:(hidden)@host/lake" in shown
