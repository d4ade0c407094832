"""Shared by the pipeline's commands: exit codes, errors, the job file, and starting Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import DONE, FAILED, INTERRUPTED, USAGE, ClientCommand, ClientGroup, json_option
from sordini.pipeline.errors import PipelineError
from sordini.pipeline.library.failures import pipeline_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job


TRACEBACK: Final = "sordini.pipeline.traceback"
LOG: Final = "sordini.pipeline.log"
"""Keys in click's context: whether exceptions are shown unchanged, and the path of Spark's log."""


class PipelineCommand(ClientCommand):
    """A command that prints its failures as one sentence, without a traceback."""

    exit_codes = {  # noqa: RUF012 - click's commands are classes of constants.
        DONE: "success; a stream that was stopped has finished its batch",
        FAILED: "an error in the job file, the cluster or a table; or an audit found a difference",
        USAGE: "wrong usage",
        INTERRUPTED: "interrupted (Ctrl-C twice)",
    }


class PipelineGroup(ClientGroup):
    """The commands below `sordini pipeline`."""

    command_class = PipelineCommand


def with_error_messages(command: Callable[..., None]) -> Callable[..., None]:
    """Turn exceptions of any library into a Failure with one sentence; see `message_of`.

    Adds the option --traceback, which shows exceptions and Spark's log unchanged.
    """

    @wraps(command)
    def with_messages(*args: Any, traceback: bool, **named: Any) -> None:
        context = click.get_current_context()
        context.meta[TRACEBACK] = traceback
        try:
            with pipeline_errors():
                command(*args, **named)
        except Failure:
            raise
        except PipelineError as error:
            if traceback:
                raise
            log = context.meta.get(LOG)
            more = f"\nSpark's log is {log}; --traceback shows it here" if log else ""
            raise Failure(f"{error}{more}") from error

    return click.option("--traceback", is_flag=True, help="Show the whole traceback, for a bug report.")(with_messages)


class CommandCall(NamedTuple):
    """The arguments of a command."""

    job: Job
    as_json: bool
    master: str

    def spark(self, *, asks_brokers: bool = True) -> SparkSession:
        """See `started_spark`."""
        return started_spark([self.job], self.master, asks_brokers=asks_brokers)


def started_spark(jobs: Sequence[Job], master: str, *, asks_brokers: bool = True) -> SparkSession:
    """Start one session for all these jobs, closed with the command, after checks that need no Spark.

    Raises PipelineError.
    """
    from sordini.pipeline.jobs.session import check_installed, log_of
    from sordini.pipeline.jobs.store_checks import check_stores
    from sordini.pipeline.library.sessions import check_before_spark, spark_session

    context = click.get_current_context()
    check_installed(jobs)
    for job in jobs:
        check_stores(job)
    if asks_brokers:
        check_before_spark(jobs)
    log = None if context.meta[TRACEBACK] or "SPARK_CONF_DIR" in os.environ else log_of(jobs[0])
    context.meta[LOG] = log
    click.echo("Starting Spark ...", err=True)
    return context.with_resource(spark_session(*jobs, master=master, log=log))


def _address(written: str) -> tuple[str, int] | None:
    """Parse `[HOST:]PORT`; None for an empty text."""
    host, _, port = written.rpartition(":")
    if not written:
        return None
    if not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{written!r} is not [HOST:]PORT")
    return host or "127.0.0.1", int(port)


job_argument = click.argument("job_file", metavar="JOB", type=click.Path(dir_okay=False, path_type=Path))
bootstrap_option = click.option(
    "--bootstrap",
    "-b",
    metavar="HOST:PORT",
    default="",
    help="A broker of the cluster, instead of the job file's.",
)
master_option = click.option(
    "--master",
    metavar="URL",
    default="",
    help="Spark's master: local[*], spark://..., yarn, k8s://...; instead of the job file's.",
)


metrics_option = click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    type=_address,
    default="",
    help="Serve Prometheus metrics at this address, on /metrics; port 0 is any free port.",
)


def check_job_stores(job: Job) -> None:
    """For commands without Spark: check that the job's object stores answer. Raises PipelineError."""
    from sordini.pipeline.jobs.store_checks import check_stores

    check_stores(job)


def with_job(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the argument JOB with --bootstrap and --json; it gets them as `call`."""

    @job_argument
    @bootstrap_option
    @json_option
    @with_error_messages
    @wraps(command)
    def with_started(*args: Any, job_file: Path, bootstrap: str, as_json: bool, **named: Any) -> None:
        command(*args, call=CommandCall(read(job_file, bootstrap), as_json, named.pop("master", "")), **named)

    return with_started


def read(path: Path, bootstrap: str) -> Job:
    """Read a job file. Raises PipelineError."""
    from sordini.pipeline.jobs.job_file import read_job

    return read_job(path, os.environ, bootstrap)
