"""Starts Spark for a job, after checks for missing or unsuitable programs, with short errors.

What Spark's JVM and its Python processes write to standard error goes into a file: stacks of a hundred lines, of which
the command prints the relevant one (see `sordini.pipeline.error_messages`).
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sordini.pipeline.error_messages import message_of
from sordini.pipeline.errors import INSTALL, PipelineError
from sordini.pipeline.jobs.job import Job, SourceFormat
from sordini.pipeline.jobs.kafka_connector import connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN: Final = 17
PYSPARK_MIN: Final = (4, 2)
"""The source `sordini` needs admission control for Python data sources, which 4.2 added."""

_DEFAULTS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}
_LOGGING: Final = Path(__file__).with_name("log4j2.properties").as_uri()
_END_SECONDS_MAX: Final = 20.0
_LOG_BYTES_MAX: Final = 1_000_000
"""A larger log is renamed when Spark starts; one old log is kept."""
_STANDARD_ERROR: Final = 2
_LOCAL: Final = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


class MissingProgramError(PipelineError):
    """A program that Spark needs is missing, or too old."""


def open_session(jobs: Sequence[Job], master: str = "", log: Path | None = None) -> SparkSession:
    """Start Spark for these jobs, or use the existing session, with the source `sordini` registered.

    `master` goes before the job files', and local[*] comes last. Times are in UTC. `log` is the file for what Spark
    writes to standard error; None leaves it there. Raises MissingProgramError, and PipelineError where two jobs want
    different things of the one Spark.
    """
    check_installed(jobs)
    wanted = settings(jobs, master)
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(f"sordini {', '.join(job.name for job in jobs)}")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Workers of the driver's own Python and packages.
    for key, value in wanted.items():
        builder = builder.config(key, value)
    try:
        with _standard_error_to(log):
            spark = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise MissingProgramError(f"Spark did not start: {_last_words(log) or message_of(error)}") from error
    if log is not None:
        _libraries_log_to(log)
    from sordini.pipeline.source import register

    register(spark)
    return spark


def log_of(job: Job) -> Path:
    """The path of Spark's log: in the job's state, or in a temporary folder if that is not local."""
    if "://" in job.state:
        return Path(tempfile.gettempdir()) / f"sordini-{job.name}-{os.getpid()}.spark.log"
    return Path(job.state) / "spark.log"


@contextmanager
def _standard_error_to(log: Path | None) -> Iterator[None]:
    """Processes that are started meanwhile inherit a file as their standard error."""
    if log is None:
        yield
        return
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > _LOG_BYTES_MAX:
            log.replace(log.with_name(f"{log.name}.1"))
        file = log.open("ab")
    except OSError as error:
        raise PipelineError(f"Spark's log cannot be written: {message_of(error)} (`state` says where)") from error
    sys.stderr.flush()
    before = os.dup(_STANDARD_ERROR)
    try:
        with file:
            os.dup2(file.fileno(), _STANDARD_ERROR)
            yield
    finally:
        os.dup2(before, _STANDARD_ERROR)
        os.close(before)


def _libraries_log_to(log: Path) -> None:
    """PySpark also logs each error of a query, with its stack, through loggers with other handlers."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.addHandler(logging.FileHandler(log, delay=True))


def _last_words(log: Path | None) -> str:
    """The last exception in the log of a JVM that did not start; empty if there is none."""
    with suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log else []
        return next((line.strip() for line in reversed(lines) if "Exception" in line or "Error:" in line), "")
    return ""


def check_installed(jobs: Sequence[Job]) -> None:
    """Check for PySpark, Java and, if needed, a connector. Raises MissingProgramError, NoConnector."""
    check_connector(jobs, _check_pyspark())
    _check_java(os.environ)


def check_connector(jobs: Sequence[Job], pyspark: str) -> None:
    """See that jobs of Spark's own source run with a PySpark that has one. Raises NoConnector, which says the cure."""
    for job in jobs:
        if job.source.format is SourceFormat.KAFKA and not _names_jars(job.spark.config):
            connector(pyspark)


def close_session(spark: SparkSession) -> None:
    """Stop Spark and wait for its JVM, so that a command leaves no process."""
    from py4j.protocol import Py4JError

    gateway = spark.sparkContext._gateway  # noqa: SLF001 - Spark has no other way to its JVM.
    with suppress(ConnectionError, Py4JError):  # It may be gone already; why, has been told.
        spark.stop()
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if process is None or process.stdin is None:
        return  # Another program has started it.
    process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS_MAX)
    _forget_gateway()


def _forget_gateway() -> None:
    """PySpark keeps its connection to a JVM that has ended, and a later session of this process would fail by it."""
    from pyspark import SparkContext

    SparkContext._gateway = None  # noqa: SLF001 - as above.
    SparkContext._jvm = None  # noqa: SLF001


def settings(jobs: Sequence[Job], master: str) -> dict[str, str]:
    """The session's configuration: the job files' settings take precedence over defaults. Raises PipelineError."""
    said = _agreed({job.name: job.spark.config for job in jobs})
    places = {job.name: {"spark.master": job.spark.master} for job in jobs if job.spark.master}
    where = master or _agreed(places).get("spark.master", "local[*]")
    found = dict(_DEFAULTS)
    if "SPARK_CONF_DIR" not in os.environ:
        found["spark.driver.defaultJavaOptions"] = f"-Dlog4j2.configurationFile={_LOGGING}"
    if where.startswith("local"):
        found |= _LOCAL
        # Local sessions have few cores, and Spark's default is 200 tasks for each batch of an aggregate.
        found["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 1)
    if any(job.source.format is SourceFormat.KAFKA for job in jobs) and not _names_jars(said):
        found["spark.jars.packages"] = connector(version("pyspark"))
    return {**found, **said, "spark.master": where}


def _names_jars(config: Mapping[str, str]) -> bool:
    return bool({"spark.jars", "spark.jars.packages"} & set(config))


def _agreed(said: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The merged settings of all jobs. Raises PipelineError if two jobs contradict each other."""
    found: dict[str, tuple[str, str]] = {}
    for name, config in said.items():
        for key, value in config.items():
            before, wanted = found.setdefault(key, (name, value))
            if wanted != value:
                raise PipelineError(
                    f"{before} wants {key} to be {wanted}, and {name} wants {value}: jobs that run together share one "
                    "Spark"
                )
    return {key: value for key, (_, value) in found.items()}


def java_version(reported: str) -> int | None:
    """The major version in what `java -version` says, 8 for 1.8; None where it says none."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', reported)
    if not found:
        return None
    return int(found[2]) if found[1] == "1" and found[2] else int(found[1])


def _check_pyspark() -> str:
    try:
        installed = version("pyspark")
    except PackageNotFoundError:
        raise MissingProgramError(f"PySpark is not installed: {INSTALL}") from None
    found = tuple(int(part) for part in installed.split(".")[:2] if part.isdecimal())
    if found < PYSPARK_MIN:
        least = ".".join(map(str, PYSPARK_MIN))
        raise MissingProgramError(f"PySpark {installed} is too old, {least} is the least: {INSTALL}")
    return installed


def _check_java(environment: Mapping[str, str]) -> None:
    cure = f"install Java {JAVA_MIN} or newer (a JRE is enough) and put it on the PATH, or set JAVA_HOME"
    home = environment.get("JAVA_HOME", "")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if not java or not Path(java).exists():
        raise MissingProgramError(
            f"Spark runs on Java, and {f'{java} does not exist' if java else 'there is none'}: {cure}"
        )
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603 - the user's own.
    found = java_version(done.stderr + done.stdout)
    if found is None:
        raise MissingProgramError(f"{java} does not run ({done.stderr.strip()[:200] or 'it says nothing'}): {cure}")
    if found < JAVA_MIN:
        raise MissingProgramError(f"Spark needs Java {JAVA_MIN}, and {java} is Java {found}: {cure}")
