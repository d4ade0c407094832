"""`sordini pipeline` as a process: what it says when something is missing, and how it ends when it is asked to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from sordini.pipeline.jobs.batch_writer import open_sink_table
from sordini.pipeline.jobs.job import Job, Sink
from sordini.pipeline.jobs.status import status
from tests.outside.needs import ROOT
from tests.outside.spark import driver_options
from tests.pipeline.test_jobs import BROKEN_EACH, JOB, KEEP, a_job, produce
from tests.support.frames import plain_rows

SECONDS_MAX = 300
SPARK = f"""\
spark:
  master: local[2]
  config: {{spark.driver.memory: 1g, spark.driver.extraJavaOptions: "{driver_options()}"}}
"""


def command(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start `sordini pipeline ...` in a process group of its own, as Spark's JVM belongs to it."""
    return subprocess.Popen(
        [sys.executable, "-m", "sordini.cli", "pipeline", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".import"), **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    try:
        said, reported = process.communicate(timeout=SECONDS_MAX)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said, reported


@pytest.fixture
def job(bootstrap: str, make_topic: Callable[..., str], tmp_path: Path) -> Job:
    return a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), "delta", JOB + SPARK)


def test_a_topic_that_is_not_there_and_a_broker_that_is_not_there_are_reported(bootstrap: str, tmp_path: Path) -> None:
    a_job(
        tmp_path,
        bootstrap,
        "nowhere",
        "delta",
    )
    for name in ("status", "load"):
        code, said, reported = ended(command(name, str(tmp_path / "job.yaml")))
        assert (code, said) == (1, "")
        assert "there is no topic 'nowhere'" in reported
        code, said, reported = ended(command(name, str(tmp_path / "job.yaml"), "--bootstrap", "127.0.0.1:1"))
        assert (code, said) == (1, "")
        assert "cannot reach 127.0.0.1:1" in reported
        assert "Starting Spark" not in reported


def test_java_that_is_not_there_is_reported(job: Job) -> None:
    nowhere = {"PATH": str(job.home), "JAVA_HOME": ""}
    code, _, reported = ended(command("load", str(job.home / "job.yaml"), environment=nowhere))
    assert code == 1
    assert "Spark runs on Java, and there is none: install Java 17 or newer" in reported


@pytest.mark.long
def test_a_stream_that_gets_sigterm_finishes_its_batch_and_one_that_is_killed_goes_on_without_a_loss(job: Job) -> None:
    path = str(job.home / "job.yaml")
    produce(job, 0, 100)
    process = command("stream", path, "--json")
    wait_until(lambda: reached(job) == 100, process)
    process.send_signal(signal.SIGTERM)
    code, said, _ = ended(process)
    assert code == 0
    batches = [json.loads(line) for line in said.splitlines()]
    assert [(batch["batch_id"], batch["rows"] + batch["dead"]) for batch in batches] == [(0, 40), (1, 40), (2, 20)]

    for killed in range(3):
        produce(job, 100 + 100 * killed, 100)
        process = command("stream", path, "--json")
        before = reached(job)
        wait_until(partial(has_passed, job, before), process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    code, _, reported = ended(command("stream", path, "--available-now"))
    assert code == 0, reported
    everything = Counter(range(400))
    good = Counter(row["n"] for row in rows_of(job.sink))
    dead = Counter(row["offset"] * 2 + row["partition"] for row in rows_of(job.dead_letters))
    assert good == Counter(number for number in everything if number % BROKEN_EACH != 5)
    assert dead == Counter(number for number in everything if number % BROKEN_EACH == 5)


def rows_of(sink: Sink | None) -> list[dict[str, int]]:
    """What a reader that knows nothing of us sees."""
    assert sink is not None
    found: list[dict[str, int]] = plain_rows("delta", sink.location).to_pylist()
    return found


def reached(job: Job) -> int:
    """How many records are in the table or its dead letters by the table's own note."""
    assert job.sink is not None
    last = open_sink_table(job.sink, job.name).last()
    return 0 if last is None else sum(last[1][job.source.topics[0]].values())


def has_passed(job: Job, count: int) -> bool:
    return reached(job) > count


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.long
def test_status_tells_the_place_of_a_stream_that_is_not_running(job: Job) -> None:
    produce(job, 0, 60)
    code, _, reported = ended(command("load", str(job.home / "job.yaml")))
    assert code == 0, reported
    produce(job, 60, 20)
    assert [(place.next_offset, place.lag) for place in status(job) if place.of == "events"] == [(30, 10), (30, 10)]
    code, said, reported = ended(command("status", str(job.home / "job.yaml"), "--json", "--lag-max", "5"))
    assert (code, len(json.loads(said))) == (1, 4)
    assert "lags by" in reported
