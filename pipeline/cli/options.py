"""What the commands of the pipeline share: how they end, which job file, which Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from sordini.cli.common.options import (
    DONE,
    FAILED,
    INTERRUPTED,
    USAGE,
    ClientCommand,
    ClientGroup,
    Failure,
    json_option,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.job import Job

F = TypeVar("F", bound=Callable[..., Any])

EXTRA: Final = frozenset({"pyspark", "pyarrow", "numpy", "pandas", "deltalake", "pyiceberg", "fastavro", "yaml"})
"""What the extra `spark` brings."""
INSTALL: Final = "pip install 'sordini[spark]'"


TRACEBACK: Final = "sordini.pipeline.traceback"
LOG: Final = "sordini.pipeline.log"
"""In click's context: whether exceptions stay as they are, and where Spark's log is once it was started."""


class PipelineCommand(ClientCommand):
    """A command whose failures are told in words, without a traceback."""

    exit_codes = {  # noqa: RUF012 - click's commands are classes of constants.
        DONE: "done; a stream that was asked to end has ended in good order",
        FAILED: "the job file, the cluster or a table has something wrong; an audit found a difference",
        USAGE: "the command was used wrongly",
        INTERRUPTED: "interrupted (Ctrl-C twice)",
    }


class PipelineGroup(ClientGroup):
    """The commands below `sordini pipeline`."""

    command_class = PipelineCommand


def with_error_messages(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what goes wrong into a Failure of one sentence, whichever library raised it; see `message_of`.

    Adds the option --traceback, which leaves exceptions and Spark's log as they are.
    """

    @wraps(command)
    def with_messages(*args: Any, traceback: bool, **named: Any) -> None:
        context = click.get_current_context()
        context.meta[TRACEBACK] = traceback
        try:
            command(*args, **named)
        except ModuleNotFoundError as error:
            if traceback or (error.name or "").partition(".")[0] not in EXTRA:
                raise
            raise Failure(f"{error.name} is not installed, which the pipeline needs: {INSTALL}") from error
        except (Failure, click.ClickException, click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:  # All of them - libraries have no class in common; our mistakes go on.
            from sordini.pipeline.error_messages import has_message, message_of

            if traceback or not has_message(error):
                raise
            log = context.meta.get(LOG)
            more = f"\nSpark's log is {log}; --traceback shows it here" if log else ""
            raise Failure(f"{_connection_lost_prefix(error)}{message_of(error)}{more}") from error

    return click.option("--traceback", is_flag=True, help="Show what went wrong whole, for a report of a bug.")(
        with_messages
    )


def _connection_lost_prefix(error: Exception) -> str:
    return "Spark's process has gone away: " if isinstance(error, ConnectionError) else ""


class CommandCall(NamedTuple):
    """How a command was called."""

    job: Job
    as_json: bool
    master: str

    def spark(self, *, asks_brokers: bool = True, plans: bool = True) -> SparkSession:
        """See `started_spark`."""
        return started_spark([self.job], self.master, asks_brokers=asks_brokers, plans=plans)


def check_cluster(*jobs: Job) -> None:
    """See that the brokers and topics are there, before anything that takes long. Raises PipelineError."""
    from sordini.pipeline.jobs.source_topics import SourceTopics

    for job in jobs:
        SourceTopics.of(job).check()


def started_spark(jobs: Sequence[Job], master: str, *, asks_brokers: bool = True, plans: bool = True) -> SparkSession:
    """One session for all these jobs, started now and closed with the command; their clusters are looked at before.

    Unless it is told not to, it also sees that Spark understands what the jobs do with rows.

    Raises PipelineError.
    """
    from sordini.pipeline.jobs.session import check_installed, close_session, log_of, open_session
    from sordini.pipeline.jobs.spark_checks import check_transform, plan

    context = click.get_current_context()
    check_installed(jobs)
    for job in jobs if plans else ():
        check_transform(job)
    if asks_brokers:
        check_cluster(*jobs)
    log = None if context.meta[TRACEBACK] or "SPARK_CONF_DIR" in os.environ else log_of(jobs[0])
    context.meta[LOG] = log
    click.echo("Starting Spark ...", err=True)
    session = open_session(jobs, master, log)
    context.call_on_close(partial(close_session, session))
    if plans:
        for job in jobs:
            plan(job, session)
    return session


def _address(written: str) -> tuple[str, int] | None:
    """What `[HOST:]PORT` says; nothing for an empty text."""
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
    help="Where Spark runs: local[*], spark://..., yarn, k8s://...; instead of the job file's.",
)


metrics_option = click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    type=_address,
    default="",
    help="Answer Prometheus at this address, on /metrics; port 0 takes a free one.",
)


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
