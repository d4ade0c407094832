"""Spark's standalone cluster from the PySpark that is installed here: a master and its workers, each a process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

from tests.outside.java import QUICK_COMPILER
from tests.outside.needs import SPARK, need_java
from tests.outside.ports import free_port
from tests.outside.processes import OutsideProcess

SPARK_HOME = Path(pyspark.__file__).parent
DRIVER_ARCHIVE = SPARK / f"driver-{pyspark.__version__}.jsa"
"""The classes that a driver loads; `class_archives.py` makes it."""

WITHOUT_COMPILER = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Spark interprets its plans: for a few rows that takes far less time than to compile Java for each plan."""


def driver_options(*more: str) -> str:
    """`spark.driver.extraJavaOptions` of a driver that starts quickly."""
    archive = [f"-XX:SharedArchiveFile={DRIVER_ARCHIVE}"] if DRIVER_ARCHIVE.exists() else []
    return " ".join([QUICK_COMPILER, *archive, *more])


class SparkProcess(OutsideProcess):
    """One of Spark's daemons; the script that starts it becomes it."""

    main_class = ""

    def arguments(self) -> list[str]:
        """Of the daemon's main class."""
        return []

    def command(self) -> list[str]:
        need_java()
        return [str(SPARK_HOME / "bin" / "spark-class"), self.main_class, *self.arguments()]

    def environment(self) -> Mapping[str, str]:
        memory = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": f"{QUICK_COMPILER} -XX:+UseSerialGC"}
        return {**os.environ, **memory, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}


class SparkMaster(SparkProcess):
    name = "spark-master"
    main_class = "org.apache.spark.deploy.master.Master"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.address = f"spark://127.0.0.1:{self.port}"

    def arguments(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(free_port())]

    def is_ready(self) -> bool:
        return "New state: ALIVE" in self.output()


class SparkWorker(SparkProcess):
    """A worker with one core; ready when the master has registered it."""

    name = "spark-worker"
    main_class = "org.apache.spark.deploy.worker.Worker"

    def __init__(self, directory: Path, master: str) -> None:
        super().__init__(directory)
        self._master = master

    @property
    def work_directory(self) -> Path:
        """In which each executor has a folder, by application and number."""
        return self.directory / "work"

    def arguments(self) -> list[str]:
        size = ["--cores", "1", "--memory", "700m", "--work-dir", str(self.work_directory)]
        return ["--host", "127.0.0.1", "--webui-port", str(free_port()), *size, self._master]

    def is_ready(self) -> bool:
        return "Successfully registered with master" in self.output()
