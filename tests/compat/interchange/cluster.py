"""One cluster of one broker whose files and tree change hands between Sordini and Apache Kafka."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, Final

from tests.outside.java import SHORT_LIVED, ApacheKafkaProcess
from tests.outside.processes import BrokerProcess, SordiniProcess

LOG4J: Final = Path(__file__).with_name("log4j.properties")
FLAGS: Final = ("-Xms256m", "-Xmx1g", *SHORT_LIVED, f"-Dlog4j.configuration=file:{LOG4J}")
COMMON: Final[dict[str, object]] = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.check.interval.ms": 10_000,
}
RETENTION_SECONDS_MAX: Final = 60
HARM: Final = re.compile(
    r"Deleting segment(?!.* due to log start offset)|orrupt|Found invalid messages|ERROR|FATAL|"
    r"Could not find offset index|truncating to .*? due to|Recovering unflushed segment"
)
"""What an Apache Kafka says of files that are not as they should be after a clean stop.

What lies before the log's start, because of DeleteRecords, it may delete.
"""


class Exchange:
    """The directory, and whose turn it is."""

    def __init__(self, directory: Path, zookeeper: str, port: int | None = None) -> None:
        """`port`: where each broker listens, so that clients continue with the next one; else each has its own."""
        self.directory = directory
        self._port = port
        self.data = directory / "data"
        self._zookeeper = f"{zookeeper}/{directory.name}"
        self._place = f"embedded:{self.data}"
        self._in_zookeeper = ""
        self._numbers = count()
        self._running = ExitStack()
        self.broker: BrokerProcess | None = None

    def close(self) -> None:
        self._running.close()

    def sordini(self) -> SordiniProcess:
        """Ours continues where the last broker stopped, with the tree in the directory itself."""
        self.data.mkdir(parents=True, exist_ok=True)
        self._move(f"embedded:{self.data}")
        overrides = {"broker.id": 3, "log.dirs": self.data, **COMMON, **self._listeners()}
        process = SordiniProcess(self._folder("sordini"), overrides)
        self._start(process)
        return process

    def sordini_beside(self) -> SordiniProcess:
        """Ours on the same directory and the same ZooKeeper as the Apache Kafka that runs."""
        overrides = {"broker.id": 3, "log.dirs": self.data, "zookeeper.connect": self._in_zookeeper}
        return SordiniProcess(self._folder("sordini"), overrides)

    def apache(self, version: str) -> ApacheKafkaProcess:
        """Apache Kafka continues where the last broker stopped, with the tree in a ZooKeeper."""
        if self._place.startswith("embedded"):
            self._in_zookeeper = f"{self._zookeeper}/{next(self._numbers)}"
            self._move(f"zookeeper:{self._in_zookeeper}")
        process = self.apache_process(version)
        self._start(process)
        return process

    def apache_process(self, version: str) -> ApacheKafkaProcess:
        """One that is not started, on the ZooKeeper where the tree is or was last."""
        overrides = {
            "broker.id": 3,
            "log.dirs": self.data,
            # On a machine with much to do a starting JVM is silent for seconds.
            "zookeeper.session.timeout.ms": 10_000,
            # The first pass of retention comes after 30 seconds otherwise; 2.7.2 insists on that. One that runs while
            # the broker takes its partitions over may die of a race of its own.
            "log.initial.task.delay.ms": 4_000,
            # Ten seconds otherwise.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1_000,
            **COMMON,
            **self._listeners(),
        }
        folder = self._folder("apache")
        return ApacheKafkaProcess(folder, self._in_zookeeper, overrides, version=version, flags=FLAGS)

    def stop(self) -> None:
        assert self.broker is not None
        status = self.broker.stop()
        assert status == 0 or isinstance(self.broker, ApacheKafkaProcess), self.broker.output()

    def kill(self) -> None:
        """End the broker as kill -9 does; of Apache Kafka the session is waited out, too."""
        assert self.broker is not None
        self.broker.kill()
        if isinstance(self.broker, ApacheKafkaProcess):
            self.broker.wait_until_unregistered()

    def _listeners(self) -> dict[str, object]:
        return {} if self._port is None else {"listeners": f"PLAINTEXT://127.0.0.1:{self._port}"}

    def _start(self, process: BrokerProcess) -> None:
        self.broker = process
        if self._port is not None:
            process.port, process.bootstrap = self._port, f"127.0.0.1:{self._port}"
        self._running.callback(process.kill)
        process.start()

    def _folder(self, kind: str) -> Path:
        return self.directory / f"{next(self._numbers)}-{kind}"

    def _move(self, place: str) -> None:
        if place != self._place:
            moved = self.run_sordini("cluster", "move", "--from", self._place, "--to", place)
            assert moved.returncode == 0, moved.stderr
        self._place = place

    def run_sordini(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = str(Path(sys.prefix) / "bin" / "sordini")
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)


def wait_for_retention(broker: ApacheKafkaProcess) -> None:
    """Wait until it has looked for segments to delete, whatever it found."""
    broker.wait_until(
        lambda: "Log cleanup completed" in broker.output(), RETENTION_SECONDS_MAX, "look for segments to delete"
    )


def harm(broker: ApacheKafkaProcess) -> list[str]:
    """Lines of its log which say that it found, cut or deleted something."""
    return [line for line in broker.output().splitlines() if HARM.search(line)]


def settings_of(path: Path) -> dict[str, Any]:
    """A properties file."""
    lines = (line for line in path.read_text().splitlines() if not line.startswith("#"))
    return dict(line.split("=", 1) for line in lines if line)
