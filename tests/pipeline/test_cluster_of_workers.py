"""Our source and our jobs on a standalone cluster: a master and two workers, each a process, and the driver another."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.outside.needs import ROOT
from tests.outside.processes import OutsideProcess
from tests.outside.spark import SparkMaster, SparkWorker
from tests.pipeline.sent import KEEP, fill
from tests.pipeline.test_jobs import JOB, a_job, good, produce
from tests.pipeline.test_jobs_processes import command, ended, rows_of
from tests.pipeline.topics import Place

pytestmark = pytest.mark.long

COUNT, PARTITIONS = 400, 4
SCRIPT = Path(__file__).with_name("worker_job.py")
PATIENCE_S = 240
CLUSTER = """\
spark:
  config: {spark.executor.memory: 512m, spark.executor.cores: 1, spark.cores.max: 2, spark.driver.host: 127.0.0.1}
"""


class Workers(NamedTuple):
    master: SparkMaster
    two: list[SparkWorker]


class Driver(OutsideProcess):
    """The job, started as on any Spark cluster."""

    name = "driver"

    def __init__(self, directory: Path, settings: Mapping[str, str], place: Place, topic: str) -> None:
        super().__init__(directory)
        self._arguments = [json.dumps(settings), place.bootstrap, topic, str(directory / "checkpoint")]

    def command(self) -> list[str]:
        return [sys.executable, str(SCRIPT), *self._arguments]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}

    def is_ready(self) -> bool:
        return bool(self.reported)

    @property
    def reported(self) -> list:
        """What it has said so far, beside what Spark has to say."""
        lines = self.output().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith(("{", "[")) and line.endswith("\n")]


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with ExitStack() as stack:
        master = stack.enter_context(SparkMaster(tmp_path / "master"))
        two = [SparkWorker(tmp_path / f"worker-{number}", master.address) for number in range(2)]
        yield Workers(master, [stack.enter_context(worker) for worker in two])


@pytest.fixture
def driver(tmp_path: Path, workers: Workers, spark_settings: Mapping[str, str], bootstrap: str) -> Iterator[Driver]:
    """A driver that has read a topic as a batch, and reads it again as a stream."""
    place = Place(bootstrap)
    topic = place.make_topic(PARTITIONS, configs=KEEP)
    fill(bootstrap, topic, COUNT, partitions=PARTITIONS)
    memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}
    both = {
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }
    settings = {**spark_settings, **memory, **both, "spark.master": workers.master.address, "spark.jars": ""}
    running = Driver(tmp_path / "driver", settings, place, topic)
    running.start_seconds_max = PATIENCE_S
    with running:
        yield running


ALL_OFFSETS = sorted([partition, offset] for partition in range(PARTITIONS) for offset in range(COUNT // PARTITIONS))


def test_both_workers_read_and_one_that_is_killed_costs_neither_rows_nor_the_stream(
    driver: Driver, workers: Workers
) -> None:
    (by_executor, *_) = driver.reported
    assert len(by_executor) == 2
    for worker in workers.two:
        assert any(Path(folder).is_relative_to(worker.work_directory) for folder in by_executor), worker.directory
    assert sorted(chain.from_iterable(by_executor.values())) == ALL_OFFSETS
    driver.wait_until(lambda: len(driver.reported) > 1, PATIENCE_S, "read the stream's first batch")
    workers.two[0].kill()
    assert driver.wait_for_exit(PATIENCE_S) == 0, driver.tail()
    _, *batches = driver.reported
    assert len(batches) == COUNT // 40
    assert sorted(chain.from_iterable(batches)) == ALL_OFFSETS


def test_a_load_runs_on_a_cluster_by_nothing_but_the_name_of_its_master(
    workers: Workers, bootstrap: str, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    job = a_job(tmp_path, bootstrap, make_topic(2, configs=KEEP), "delta", JOB + CLUSTER)
    produce(job, 0, 100)
    environment = {"PYSPARK_PYTHON": sys.executable}
    process = command("load", str(tmp_path / "job.yaml"), "--master", workers.master.address, environment=environment)
    code, _, reported = ended(process)
    assert code == 0, reported
    assert Counter(row["n"] for row in rows_of(job.sink)) == Counter(good(100))
    assert any(list(worker.work_directory.glob("app-*/*")) for worker in workers.two), "it ran here alone"
