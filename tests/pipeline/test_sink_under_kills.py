"""Topic to topic in transactions, while drivers, executors and Python workers are killed (-9): the sink of Spark's streams on
a standalone cluster, and a job of `sordini pipeline` in local mode.

A reader of committed records sees every record of the source exactly once, whatever is killed and when.
SORDINI_SINK_KILLS is the number of kills of each way (100 by `make sink-kills`), SORDINI_SINK_SEED the seed of the plan;
SORDINI_SINK_SECONDS ends the kills earlier on a slow machine. With `--broker apache` the brokers are Apache Kafka's.

Nearly all of the time is the processor's, in JVMs that start: they map the archive of classes that drivers have, compile
quickly, and interpret Spark's plans.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from string import Template
from typing import Final

import pytest

from sordini.pipeline.source.client import LATEST, Client, ClientSettings
from sordini.protocol.types import TopicPartition
from tests.cluster.loads import read_all
from tests.outside.needs import ROOT
from tests.outside.processes import OutsideProcess
from tests.outside.spark import WITHOUT_COMPILER, SparkMaster, SparkWorker, driver_options
from tests.pipeline.numbered_source import NumberedSource
from tests.pipeline.topics import Place

pytestmark = pytest.mark.long

KILLS: Final = int(os.environ.get("SORDINI_SINK_KILLS", "6"))
SEED: Final = int(os.environ.get("SORDINI_SINK_SEED", "1"))
SECONDS: Final = float(os.environ.get("SORDINI_SINK_SECONDS", "inf"))
PATIENCE_S: Final = 900
MOMENT_S_MAX: Final = 1.5
"""A kill comes so long after a commit, at most: at any moment of the next batch."""
AHEAD_MAX: Final = 1_500
"""Records that are sent and not committed: some micro-batches."""
PAUSE_S: Final = 0.2
SCRIPT: Final = Path(__file__).with_name("sink_stream.py")
PARTITIONS: Final = 2
WEIGHTS: Final = {"driver": 1, "driver's JVM": 1, "executor": 3, "Python worker": 5}
"""How often each is killed, in tenths. A driver takes the longest to come back."""
JOB: Final = """\
name: copies
source: {bootstrap: $bootstrap, topics: [$source], records_max: 300}
sink: {kind: kafka, location: $target, options: {kafka.transactional.id: $target, kafka.batch.size: "4000"}}
spark:
  master: local[2, 1000]
  config: $config
"""


class Driver(OutsideProcess):
    """A driver; Spark's JVM and all other processes that it starts are in its process group."""

    name = "driver"
    start_seconds_max = PATIENCE_S

    def __init__(self, directory: Path, arguments: list[str]) -> None:
        super().__init__(directory)
        self._arguments = arguments

    def command(self) -> list[str]:
        return [sys.executable, *self._arguments]

    def environment(self) -> Mapping[str, str]:
        path = f"{ROOT / '.import'}:{ROOT}"
        return {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}

    def is_ready(self) -> bool:
        return True


def committed(bootstrap: str, topic: str) -> int:
    """The end offsets that readers of committed records have, added up. Raises ClientError."""
    settings = ClientSettings.from_options({"kafka.bootstrap.servers": bootstrap})
    partitions = {TopicPartition(topic, number): LATEST for number in range(PARTITIONS)}
    with Client(settings) as client:
        return sum(client.offsets(partitions, read_committed=True).values())


def committed_records(bootstrap: str, topic: str) -> list[tuple[int, int, str]]:
    """Partition, offset and value of what librdkafka reads, up to the first open transaction."""
    partitions = [(topic, number) for number in range(PARTITIONS)]
    found = read_all(bootstrap, partitions, "read_committed")
    return [(number, offset, value.decode()) for (_, number), some in found.items() for offset, value in some]


def processes() -> dict[int, tuple[int, str]]:
    """The parent and the command line of each process."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError, IndexError):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                found[int(folder.name)] = (parent, (folder / "cmdline").read_text().replace("\0", " "))
    return found


def below(pid: int) -> dict[int, str]:
    """The command lines of all processes that a process has started, at any depth."""
    every = processes()
    found: dict[int, str] = {}
    level = {pid}
    while level:
        level = {child for child, (parent, _) in every.items() if parent in level}
        found |= {child: every[child][1] for child in level}
    return found


class Plan:
    """Kills what its random numbers say."""

    def __init__(self, driver: Driver, workers: list[SparkWorker]) -> None:
        self._random = random.Random(SEED)
        self._driver = driver
        self._workers = workers
        self.killed: Counter[str] = Counter()

    def kill(self) -> None:
        """One kill of something that runs at this moment; the driver is started again."""
        time.sleep(self._random.uniform(0, MOMENT_S_MAX))
        what = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        match what:
            case "driver":
                os.killpg(self._driver.pid, signal.SIGKILL)
                self._driver.kill()
            case "driver's JVM":
                # What it has started in Python may run on for a moment: a zombie that writes.
                what = self._kill_one(below(self._driver.pid), "SparkSubmit", what)
                self._driver.kill()
            case "executor" if self._workers:
                what = self._kill_one(self._started(), "CoarseGrainedExecutorBackend", what)
            case _:
                what = self._kill_one(self._started(), "pyspark", "Python worker")
        self.killed[what] += 1
        if not self._driver.is_running:
            self._driver.start()

    def _started(self) -> dict[int, str]:
        """What executors have started, which in local mode are the driver's JVM."""
        roots = [worker.pid for worker in self._workers] or [self._driver.pid]
        return {pid: line for root in roots for pid, line in below(root).items()}

    def _kill_one(self, found: dict[int, str], named: str, what: str) -> str:
        some = [pid for pid, line in found.items() if named in line and (named != "pyspark" or "java" not in line)]
        if not some:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.kill()
            return "driver"
        with suppress(ProcessLookupError):
            os.kill(self._random.choice(sorted(some)), signal.SIGKILL)
        return what


@contextmanager
def cluster(directory: Path) -> Iterator[tuple[str, list[SparkWorker]]]:
    """The address of a standalone cluster, and its workers."""
    with ExitStack() as stack:
        master = stack.enter_context(SparkMaster(directory / "master"))
        two = [SparkWorker(directory / f"worker-{number}", master.address) for number in range(2)]
        yield master.address, [stack.enter_context(worker) for worker in two]


def settings_of(spark_settings: Mapping[str, str], master: str) -> dict[str, str]:
    memory = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2"}
    patient = {"spark.task.maxFailures": "1000", "spark.stage.maxConsecutiveAttempts": "1000"}
    quick = {**WITHOUT_COMPILER, "spark.executor.extraJavaOptions": driver_options("-XX:+UseSerialGC")}
    return {**spark_settings, **memory, **patient, **quick, "spark.master": master, "spark.jars": ""}


def test_a_reader_of_committed_records_sees_each_record_of_a_stream_once(
    bootstrap: str, spark_settings: Mapping[str, str], tmp_path: Path
) -> None:
    place = Place(bootstrap)
    source, target = place.make_topic(PARTITIONS), place.make_topic(PARTITIONS)
    with cluster(tmp_path) as (master, workers):
        settings = json.dumps(settings_of(spark_settings, master))
        driver = Driver(tmp_path / "driver", [str(SCRIPT), settings, bootstrap, source, target, str(tmp_path / "c")])
        sent, found = killed(driver, workers, bootstrap, source, target)
    assert_once([value for _, _, value in found], [value for _, _, value in sent])


def test_a_reader_of_committed_records_sees_each_record_of_a_job_once(
    bootstrap: str, spark_settings: Mapping[str, str], tmp_path: Path
) -> None:
    place = Place(bootstrap)
    source, target = place.make_topic(PARTITIONS), place.make_topic(PARTITIONS)
    left_out = {"spark.master", "spark.app.name"}
    config = {name: value for name, value in (spark_settings | WITHOUT_COMPILER).items() if name not in left_out}
    given = {"bootstrap": bootstrap, "source": source, "target": target, "config": json.dumps(config)}
    (tmp_path / "job.yaml").write_text(Template(JOB).substitute(given))
    command = ["-m", "sordini.cli", "pipeline", "stream", str(tmp_path / "job.yaml"), "--traceback"]
    driver = Driver(tmp_path / "driver", command)
    sent, found = killed(driver, [], bootstrap, source, target)
    rows = [json.loads(value) for _, _, value in found]
    assert_once([(row["partition"], row["offset"]) for row in rows], [record[:2] for record in sent])


def assert_once(found: Iterable[Hashable], sent: Iterable[Hashable]) -> None:
    counted, wanted = Counter(found), Counter(sent)
    assert set(wanted.values()) == {1}, "of the source"
    sys.stdout.write(f"{len(wanted)} records: {len(wanted - counted)} lost, {len(counted - wanted)} more than once\n")
    assert counted == wanted


def killed(
    driver: Driver, workers: list[SparkWorker], bootstrap: str, source: str, target: str
) -> tuple[list[tuple[int, int, str]], list[tuple[int, int, str]]]:
    """Carry the plan out; the records of the source, and those that readers see in the end."""
    plan, until = Plan(driver, workers), time.monotonic() + SECONDS
    sending = NumberedSource(bootstrap, source, lambda count: AHEAD_MAX - count + committed(bootstrap, target))
    with driver:
        with sending:
            for number in range(KILLS):
                if time.monotonic() > until:
                    break
                begun, before = time.monotonic(), committed(bootstrap, target)
                _wait(driver, sending, lambda before=before: committed(bootstrap, target) > before, f"kill {number}")
                waited = time.monotonic() - begun
                plan.kill()
                state = f"{dict(plan.killed)}, {committed(bootstrap, target)} offsets, after {waited:.1f} s"
                sys.stdout.write(f"kill {number + 1} of {KILLS}: {state}\n")
                sys.stdout.flush()
        # Offsets count the ends of transactions, too, so this is only when it is worth to read all.
        _wait(driver, sending, lambda: committed(bootstrap, target) >= sending.count, "as many offsets")
        _wait(driver, sending, lambda: len(committed_records(bootstrap, target)) >= sending.count, "all records")
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
    sys.stdout.write(f"{sum(plan.killed.values())} kills: {dict(plan.killed)}\n")
    assert sum(plan.killed.values()) == KILLS or float("inf") > SECONDS
    sent = committed_records(bootstrap, source)
    assert sorted(int(value) for _, _, value in sent) == list(range(sending.count)), "of the source"
    return sent, committed_records(bootstrap, target)


def _wait(driver: Driver, sending: NumberedSource, condition: Callable[[], bool], what: str) -> None:
    """Until a condition holds; a driver that has ended by itself, as a fenced one does, is started again."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        sending.check()
        assert time.monotonic() < deadline, f"{what}: {driver.tail()}"
        if not driver.is_running:
            driver.start()
        time.sleep(PAUSE_S)
