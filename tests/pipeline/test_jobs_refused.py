"""`load`, `stream` and `aggregate` whose object store refuses, before they begin or in the middle of a batch.

Each ends with one sentence, or waits where the store is busy for a while; the table is whole; and the next call, when
the store is well again, completes it, with every record once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from sordini.pipeline import PipelineError, aggregate, load, stream
from sordini.pipeline.jobs.job import Job, Sink
from sordini.pipeline.tables.store_client import open_store
from tests.outside.s3_server import KEYS, REGION, S3Server
from tests.pipeline.proxy_process import WRITING, ProxyProcess, Rule
from tests.pipeline.store_stories import check_sentence
from tests.pipeline.test_jobs import JOB, KEEP, a_job, good, produce
from tests.pipeline.test_jobs_processes import SPARK, command, ended
from tests.pipeline.test_jobs_stores import plain_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LACKS = "refuses access: the credentials lack a permission"
BUSY = "asks for fewer requests, and did so until the retries ended"
RECORDS = 100
"""Three batches: the job's records_max is 40."""
_numbers = count()


def denied(within: str, passing: int = 0) -> Rule:
    return Rule(403, "AccessDenied", WRITING, within, passing)


LOADS = {
    "the lock": denied("/state/lock.json"),
    "the start": denied("/state/started.json"),
    "the intent": denied("/state/load/intent.json"),
    "staged files": denied(".parquet"),
    "dead letters": denied("/events-dead/"),
    "the commit": denied("/events/LOG/"),
    "the second commit": denied("/events/LOG/", 1),
    "the done": denied("/state/load/done.json"),
}
STREAMS = {
    "the checkpoint in force": denied("/state/stream/current.json"),
    "the plan": denied("/state/stream/0/offsets/"),
    "staged files": denied(".parquet"),
    "dead letters": denied("/events-dead/"),
    "the commit": denied("/events/LOG/"),
    "the second commit": denied("/events/LOG/", 1),
    "Spark's commit": denied("/state/stream/0/commits/"),
}
AGGREGATES = {
    "the checkpoint in force": denied("/current.json"),
    "open windows": denied("/0/state/"),
    "staged files": denied(".parquet"),
    "the commit": denied("/per_minute/LOG/"),
    "Spark's commit": denied("/0/commits/"),
}
CASES = [
    *(("load", where) for where in LOADS),
    *(("stream", where) for where in STREAMS),
    *(("aggregate", where) for where in AGGREGATES),
]
QUICK = {("load", "the commit"), ("stream", "the commit")}
"""With Delta; the other cases are run by `make pipeline`."""
LOGS = {"delta": "_delta_log", "iceberg": "metadata"}
CALLS: dict[str, Callable[..., Any]] = {
    "load": lambda job, spark: load(job, spark=spark),
    "stream": lambda job, spark: stream(job, available_now=True, spark=spark),
    "aggregate": lambda job, spark: aggregate(job, available_now=True, spark=spark),
}

pytestmark = [pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def proxied(s3: S3Server) -> Iterator[ProxyProcess]:
    with ProxyProcess(s3.port) as process:
        yield process


@pytest.fixture
def job(
    kind: str,
    bootstrap: str,
    make_topic: Callable[..., str],
    s3: S3Server,
    proxied: ProxyProcess,
    tmp_path: Path,
) -> Job:
    """A job whose every request to its store passes the proxy."""
    bucket = s3.make_bucket(f"refused-{next(_numbers)}")
    catalog = f", options: {{catalog.type: sql, catalog.uri: 'sqlite:///{tmp_path}/catalog.db'}}"
    catalog = catalog if kind == "iceberg" else ""
    text = (
        JOB.replace("partition_by: [event_date]", "partition_by: [event_date]" + catalog)
        .replace("tables/per_minute", f"tables/per_minute{catalog}")
        .replace("location: tables/", f"location: {bucket}/tables/")
        .replace("counts.jsonl", f"{bucket}/counts.jsonl")
    )
    storage = (
        f"state: {bucket}/state\n"
        f"storage:\n  endpoint: {S3Server.endpoint_at(proxied.port)}\n  region: {REGION}\n  allow_http: true\n"
        f"  credentials: {{access_key: {KEYS.access_key}, secret_key: {KEYS.secret_key}}}\n"
        f"  working_folder: {tmp_path}/work\n"
    )
    found = a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), kind, text + storage + SPARK, os.environ)
    produce(found, 0, RECORDS)
    return found


def rows(job: Job, sink: Sink | None, tmp_path: Path) -> list[dict[str, Any]]:
    """What a reader that knows nothing of us sees; none where there is no table yet."""
    try:
        return plain_rows(job, sink, tmp_path)
    except (TableNotFoundError, NoSuchTableError, NoSuchNamespaceError):
        return []


def numbers(job: Job, tmp_path: Path) -> list[int]:
    return sorted(row["n"] for row in rows(job, job.sink, tmp_path))


def locks(job: Job) -> list[str]:
    """The locks in the job's state, of itself and of its aggregates."""
    store = open_store(job.state, job.storage.object_store_options(job.state))
    return [each["path"] for page in store.list() for each in page if each["path"].endswith("lock.json")]


def check_complete(call: str, job: Job, tmp_path: Path) -> None:
    if call == "aggregate":
        windows = rows(job, job.aggregates[0].sink, tmp_path)
        starts = {row["window_start"] for row in windows}
        assert starts, "the watermark has passed the first windows"
        assert len(windows) == 2 * len(starts), "two pages"
        assert len({(row["window_start"], row["page"]) for row in windows}) == len(windows)
        assert sum(row["views"] for row in windows) == len(good(20 * len(starts)))
        return
    assert numbers(job, tmp_path) == good(RECORDS)
    letters = sorted((row["partition"], row["offset"]) for row in rows(job, job.dead_letters, tmp_path))
    assert letters == [(1, offset) for offset in range(2, RECORDS // 2, 5)]


def refused(call: str, job: Job, spark: SparkSession) -> str:
    with pytest.raises(PipelineError) as error:
        CALLS[call](job, spark)
    said = str(error.value)
    check_sentence(said)
    assert KEYS.secret_key not in said
    return said


@pytest.mark.parametrize(
    ("kind", "call", "where"),
    [
        pytest.param(kind, call, where, marks=() if kind == "delta" and (call, where) in QUICK else pytest.mark.long)
        for kind in LOGS
        for call, where in CASES
    ],
)
def test_a_call_that_is_refused_in_the_middle_says_so_and_the_next_one_completes_it_once(
    spark: SparkSession, proxied: ProxyProcess, job: Job, tmp_path: Path, kind: str, call: str, where: str
) -> None:
    rule = {"load": LOADS, "stream": STREAMS, "aggregate": AGGREGATES}[call][where]
    proxied.follow(rule._replace(within=rule.within.replace("LOG", LOGS[kind])))
    said = refused(call, job, spark)
    assert proxied.follow(None) > 0, "it came to the proxy"
    assert LACKS in said
    assert "s3://refused-" in said, "the place"
    if call != "aggregate":
        found = numbers(job, tmp_path)
        assert len(found) == len({*found})
        assert {*found} <= {*good(RECORDS)}
    assert locks(job) == [], "no run holds it"
    CALLS[call](job, spark)
    check_complete(call, job, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("call", CALLS)
def test_a_store_that_is_busy_for_a_while_delays_a_call_and_fails_nothing(
    spark: SparkSession, proxied: ProxyProcess, job: Job, tmp_path: Path, call: str
) -> None:
    proxied.follow(Rule(503, "SlowDown", passing=6, times=3))
    CALLS[call](job, spark)
    assert proxied.follow(None) == 3
    check_complete(call, job, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize("call", CALLS)
def test_a_store_that_stays_busy_ends_a_call_with_one_sentence(
    spark: SparkSession, proxied: ProxyProcess, job: Job, tmp_path: Path, call: str, kind: str
) -> None:
    place = {"aggregate": "/per_minute/"}.get(call, "/events/") + LOGS[kind]
    proxied.follow(Rule(503, "SlowDown", WRITING, place))
    said = refused(call, job, spark)
    assert BUSY in said
    assert "s3://refused-" in said, "the place"
    assert proxied.follow(None) > 1, "it was repeated"
    CALLS[call](job, spark)
    check_complete(call, job, tmp_path)


@pytest.mark.parametrize("kind", ["delta"])
def test_a_lock_that_could_not_be_deleted_does_not_stop_the_next_call_of_the_same_program(
    spark: SparkSession, proxied: ProxyProcess, job: Job, tmp_path: Path
) -> None:
    proxied.follow(Rule(403, "AccessDenied", ("DELETE", *WRITING), "", 4))
    assert LACKS in refused("load", job, spark)
    proxied.follow(None)
    assert locks(job) == ["lock.json"]
    CALLS["load"](job, spark)
    check_complete("load", job, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["delta"])
@pytest.mark.parametrize("call", CALLS)
def test_a_command_that_is_refused_at_its_commit_ends_with_one_sentence_and_the_next_completes_it(
    proxied: ProxyProcess, job: Job, tmp_path: Path, call: str
) -> None:
    options = () if call == "load" else ("--available-now",)
    place = {"aggregate": "/per_minute/"}.get(call, "/events/")
    proxied.follow(denied(f"{place}_delta_log/"))
    code, _, reported = ended(command(call, str(job.home / "job.yaml"), *options))
    assert proxied.follow(None) > 0
    assert code == 1, reported
    assert "Traceback" not in reported
    [last] = [line for line in reported.splitlines() if line.startswith("sordini: ")]
    assert LACKS in last
    code, _, reported = ended(command(call, str(job.home / "job.yaml"), *options))
    assert code == 0, reported
    check_complete(call, job, tmp_path)
    assert locks(job) == []
