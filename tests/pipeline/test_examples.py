"""The examples, end to end: the tables and the report are what the generators say they have made."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from examples.activity.demo import tables
from examples.activity.generator.producing import make_topics, produce
from examples.activity.generator.sending import records
from examples.activity.generator.visits import Plan as PlanOfVisits
from examples.activity.generator.visits import events
from examples.activity.report.findings import differences, findings
from examples.activity.report.page import Run, page
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
