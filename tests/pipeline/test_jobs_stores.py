"""All commands of a job whose tables, state and counts are in an object store, with no JAR; killed while they run."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from sordini.pipeline.jobs.job import Job, Sink
from sordini.pipeline.tables.store_client import open_store
from tests.outside.s3_server import KEYS, REGION, S3Server
from tests.pipeline.test_jobs import BROKEN_EACH, JOB, KEEP, a_job, produce
from tests.pipeline.test_jobs_processes import SPARK, command, ended, has_passed, reached, wait_until

KINDS = ("delta", "iceberg")
KILLS = 6
SECRET = KEYS.secret_key

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(params=KINDS)
def job(
    request: pytest.FixtureRequest,
    bootstrap: str,
    make_topic: Callable[..., str],
    s3: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Job:
    """A job file with nothing of this machine but the catalog of Iceberg tables, a SQL one."""
    kind = request.param
    bucket = s3.make_bucket(f"jobs-{kind}-{os.urandom(4).hex()}")
    monkeypatch.setenv("LAKE_KEY", KEYS.access_key)
    monkeypatch.setenv("LAKE_SECRET", SECRET)
    catalog = (
        "" if kind == "delta" else f", options: {{catalog.type: sql, catalog.uri: 'sqlite:///{tmp_path}/catalog.db'}}"
    )
    text = JOB.replace("tables/per_minute}", f"tables/per_minute{catalog}}}").replace(
        "partition_by: [event_date]}", f"partition_by: [event_date]{catalog}}}"
    )
    text = text.replace("location: tables/", f"location: {bucket}/tables/").replace(
        "counts.jsonl", f"{bucket}/counts.jsonl"
    )
    storage = (
        f"state: {bucket}/state\n"
        f"storage:\n  endpoint: {s3.endpoint}\n  region: {REGION}\n  allow_http: true\n"
        "  credentials: {access_key: '$${LAKE_KEY}', secret_key: '$${LAKE_SECRET}'}\n"
        f"  working_folder: {tmp_path}/work\n"
    )
    return a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), kind, text + storage + SPARK, os.environ)


def plain_rows(job: Job, sink: Sink | None, tmp_path: Path) -> list[dict[str, int]]:
    """What a reader that knows nothing of us sees."""
    assert sink is not None
    location = sink.location
    if sink.kind.value == "delta":
        table = DeltaTable(location, storage_options=job.storage.object_store_options(location))
        return list(table.to_pyarrow_table().to_pylist())
    properties = job.storage.pyiceberg_properties(location)
    catalog = load_catalog("sordini", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", **properties)
    name = location.rpartition("/")[2].replace(".", "_")
    return list(catalog.load_table(f"default.{name}").scan().to_arrow().to_pylist())


def put_counts(job: Job) -> None:
    """The producer's counts, from beside the job file into the store."""
    assert job.audit is not None
    folder, _, name = job.audit.counts.rpartition("/")
    store = open_store(folder, job.storage.object_store_options(folder))
    store.put(name, (job.home / "counts.jsonl").read_bytes())


def run(*arguments: str) -> str:
    code, said, reported = ended(command(*arguments))
    assert code == 0, reported
    assert SECRET not in said + reported
    return said


def test_every_command_works_in_a_store(job: Job, tmp_path: Path) -> None:
    path = str(job.home / "job.yaml")
    assert SECRET not in run("check", path, "--no-spark")
    produce(job, 0, 60)
    run("load", path)
    produce(job, 60, 40)
    run("stream", path, "--available-now")
    run("aggregate", path, "--available-now")
    run("backfill", path, "--aggregate", "per_minute")
    put_counts(job)
    assert "none missing, none duplicated" in run("audit", path)
    run("backfill", path)
    places = json.loads(run("status", path, "--json"))
    assert [(place["next_offset"], place["lag"]) for place in places if place["of"] == "events"] == [(50, 0), (50, 0)]
    done = json.loads(run("compact", path, "--clean-up", "--json"))
    assert done[0]["files_before"] > done[0]["files_after"]
    good = [number for number in range(100) if number % BROKEN_EACH != 5]
    assert sorted(row["n"] for row in plain_rows(job, job.sink, tmp_path)) == good
    assert len(plain_rows(job, job.dead_letters, tmp_path)) == 10
    views = sum(row["views"] for row in plain_rows(job, job.aggregates[0].sink, tmp_path))
    assert views == len(good)
    code, _, reported = ended(command("resume", path))
    assert code == 1
    assert "there is nothing to restore" in reported


def test_a_stream_and_an_aggregate_that_are_killed_again_and_again_have_everything_once(
    job: Job, tmp_path: Path
) -> None:
    path = str(job.home / "job.yaml")
    for killed in range(KILLS):
        produce(job, 100 * killed, 100)
        before = reached(job)
        process = command("aggregate" if killed % 3 == 2 else "stream", path, "--json")
        if killed % 3 == 2:
            assert process.stdout is not None
            assert process.stdout.readline(), "it wrote a batch of windows"
        else:
            wait_until(partial(has_passed, job, before), process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    run("stream", path, "--available-now")
    run("aggregate", path, "--available-now")
    run("backfill", path, "--aggregate", "per_minute")
    good = [number for number in range(100 * KILLS) if number % BROKEN_EACH != 5]
    assert sorted(row["n"] for row in plain_rows(job, job.sink, tmp_path)) == good
    assert len(plain_rows(job, job.dead_letters, tmp_path)) == 100 * KILLS // BROKEN_EACH
    windows = plain_rows(job, job.aggregates[0].sink, tmp_path)
    assert len({(row["window_start"], row["page"]) for row in windows}) == len(windows)
    assert sum(row["views"] for row in windows) == len(good)
