"""The examples, end to end: the tables and the report are what the generators say they have made."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from examples.activity.demo import tables
from examples.activity.generator.producing import make_topics, produce
from examples.activity.generator.sending import records
from examples.activity.generator.visits import Plan as PlanOfVisits
from examples.activity.generator.visits import events
from examples.activity.report.findings import differences, findings
from examples.activity.report.page import Run, page
from examples.hourly.batch import Hour
from examples.hourly.batch import run as run_hour
from examples.operations.__main__ import agrees, reported
from examples.operations.generator import Plan, happen
from examples.operations.watch import watch
from sordini.pipeline.jobs.audit import audit, counts_of
from sordini.pipeline.jobs.backfill import close_windows
from sordini.pipeline.jobs.job_file import read_job
from sordini.pipeline.jobs.load import load
from tests.outside.needs import ROOT
from tests.outside.processes import SordiniProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDING_SECONDS_MAX = 30.0
START_MS = 1_790_000_000_000 // 60_000 * 60_000


@pytest.fixture
def own_bootstrap(tmp_path: Path) -> Iterator[str]:
    """A broker whose topics have the examples' names."""
    with SordiniProcess(tmp_path / "sordini") as broker:
        yield broker.bootstrap


@pytest.mark.long
def test_alerts_crawlers_and_visits_by_member_are_found_as_they_were_planted(
    spark: SparkSession, own_bootstrap: str, tmp_path: Path
) -> None:
    happened = happen(Plan(seed=3, start_ms=START_MS, minutes=3, visits=200))
    lines: list[str] = []
    seen = watch(spark, own_bootstrap, tmp_path, happened.records, happened.too_much.total(), lines.append)
    assert agrees(happened, seen), "\n".join(reported(happened, seen))
    assert any(line.startswith("ALERT") for line in lines)
    assert seen.worst


@pytest.mark.long
def test_the_activity_jobs_tables_and_report_have_what_the_generator_counted(
    spark: SparkSession, own_bootstrap: str, tmp_path: Path
) -> None:
    plan = PlanOfVisits(seed=5, start_ms=START_MS, minutes=30, events=400)
    make_topics(own_bootstrap, 2)
    sent = records(events(plan), seed=plan.seed, broken_share=0.05)
    tally = produce(own_bootstrap, plan, sent, seconds=0, tell=lambda _: None)
    for topic, path in tables.JOB_FILES.items():
        (tmp_path / f"counts-{topic}.jsonl").write_text("\n".join(tally.audit_lines(topic)), encoding="utf-8")
        job = read_job(path, {"ACTIVITY": str(tmp_path)}, own_bootstrap)
        pieces = list(load(job, spark, lambda: False, lambda _: None))
        assert sum(piece.records for piece in pieces) == tally.sent[topic]
        assert not [row for row in audit(job, spark, counts_of(job)) if row.difference or row.twice]
    list(
        load(read_job(tables.VISITS, {"ACTIVITY": str(tmp_path)}, own_bootstrap), spark, lambda: False, lambda _: None)
    )
    counting = read_job(tables.AGGREGATES, {"ACTIVITY": str(tmp_path)}, own_bootstrap)
    for one in counting.aggregates:
        close_windows(counting, spark, one, None, plan.end_ms + 86_400_000)
    found = findings(tables.read(tmp_path, tables.windows(tmp_path)))
    assert differences(found, tally.reported()) == []
    assert sum(sum(offsets.values()) for offsets in tables.offsets(tmp_path).values()) == tally.sent.total()
    assert "Nothing lost, nothing twice" in page(Run("A run", tally.reported(), [], None, [], {}), found)


@pytest.mark.long
def test_the_demo_s_report_has_the_generator_s_figures(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    command = [sys.executable, "-m", "examples.activity", "--rate", "300", "--seconds", "20", "--directory", directory]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing lost, nothing twice" in done.stdout
    report = (directory / "report.html").read_text(encoding="utf-8")
    assert "Nothing lost, nothing twice" in report
    assert len(re.findall("data:image/png", report)) == 8
    for topic, table in (("page-views", "page_views"), ("searches", "searches"), ("clicks", "clicks")):
        lines = (directory / f"counts-{topic}.jsonl").read_text(encoding="utf-8").splitlines()
        sent = sum(json.loads(line)["count"] for line in lines)
        kept = DeltaTable(str(directory / "tables" / table)).to_pyarrow_table().num_rows
        assert f"<td>{topic}</td><td class=number>{sent:,}</td><td class=number>{kept:,}</td>" in report


@pytest.mark.long
def test_a_demo_that_is_stopped_in_the_middle_stops_all_that_it_started(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    command = [sys.executable, "-m", "examples.activity", "--seconds", "600", "--rate", "50", "--directory", directory]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as demo:
        assert demo.stdout is not None
        try:
            for line in demo.stdout:
                if "visitors come" in line:
                    break
            demo.send_signal(signal.SIGTERM)
            rest = demo.stdout.read()
        finally:
            demo.kill()
    assert "stopped" in rest
    deadline = time.monotonic() + ENDING_SECONDS_MAX  # Spark's workers end when they find that Spark has ended.
    while running := _running_in(directory):
        assert time.monotonic() < deadline, running
        time.sleep(0.1)


def _running_in(directory: Path) -> list[str]:
    """The commands of processes whose working directory is this one."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                if (process / "cwd").readlink() == directory:
                    found.append((process / "cmdline").read_text(encoding="utf-8").replace("\0", " "))
            except OSError:
                continue  # It has ended meanwhile, or is another user's.
    return found


@pytest.mark.long
def test_the_hourly_batch_summarises_an_hour_and_can_be_repeated_with_late_events(
    spark: SparkSession, own_bootstrap: str, tmp_path: Path
) -> None:
    hour = Hour(datetime(2026, 11, 26, 7, tzinfo=UTC))
    make_topics(own_bootstrap, 2)
    in_it = [("/a", "s1", 0), ("/a", "s2", 1), ("/b", "s1", 3_599_999)]
    outside = [("/a", "s3", -1), ("/a", "s3", 3_600_000)]
    send_events(own_bootstrap, hour, [*in_it, *outside], [("s1", 10), ("s1", 20), ("s2", 3_600_001)])
    path = run_hour(spark, own_bootstrap, tmp_path, hour)
    first = json.loads(path.read_text())
    assert first == {
        "hour": "2026-11-26T07",
        "views": 3,
        "pages": 2,
        "searches": 2,
        "searching_visits": 1,
        "busiest": [{"views": 2, "page": "/a"}, {"views": 1, "page": "/b"}],
    }
    assert json.loads(run_hour(spark, own_bootstrap, tmp_path, hour).read_text()) == first, "nothing is loaded twice"
    send_events(own_bootstrap, hour, [("/b", "s9", 5)], [])
    assert json.loads(run_hour(spark, own_bootstrap, tmp_path, hour).read_text())["views"] == 4
    empty = run_hour(spark, own_bootstrap, tmp_path, Hour(datetime(2020, 1, 1, tzinfo=UTC)))
    assert json.loads(empty.read_text())["views"] == 0


def send_events(
    bootstrap: str, hour: Hour, page_views: list[tuple[str, str, int]], searches: list[tuple[str, int]]
) -> None:
    """Page views by page, visit and ms of the hour, and searches by visit and ms."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)

    def send(topic: str, visit: str, at_ms: int, **fields: str) -> None:
        time_text = (hour.start + timedelta(milliseconds=at_ms)).isoformat()
        event = {"event_id": uuid4().hex, "event_time": time_text, "session_id": visit, **fields}
        producer.send(topic, json.dumps(event).encode())

    for page_name, visit, at_ms in page_views:
        send("page-views", visit, at_ms, page=page_name)
    for visit, at_ms in searches:
        send("searches", visit, at_ms, query="words")
    producer.close()
