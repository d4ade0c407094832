"""What the commands of the pipeline share: how they end, which job file, which Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from sordini.broker.cli.options import (
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


def in_words(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what goes wrong into a Failure: the pipeline's own errors, Spark's, and a library that is not there."""

    @wraps(command)
    def told(*args: Any, **named: Any) -> None:
        from sordini.pipeline.errors import PipelineError

        try:
            command(*args, **named)
        except PipelineError as error:
            raise Failure(str(error)) from error
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in EXTRA:
                raise
            raise Failure(f"{error.name} is not installed, which the pipeline needs: {INSTALL}") from error
        except ConnectionError as error:
            raise Failure(f"Spark's process has gone away: {error}") from error
        except Exception as error:  # All of them - Spark's and py4j's have no common class; others are raised again.
            if type(error).__module__.partition(".")[0] not in {"pyspark", "py4j"}:
                raise
            from sordini.pipeline.jobs.queries import reason_of

            raise Failure(reason_of(str(error))) from error

    return told


class Started(NamedTuple):
    """How a command was called."""

    job: Job
    as_json: bool
    master: str

    def spark(self, *, asks_brokers: bool = True) -> SparkSession:
        """See `started_spark`."""
        return started_spark([self.job], self.master, asks_brokers=asks_brokers)


def check_cluster(*jobs: Job) -> None:
    """See that the brokers and topics are there, before anything that takes long. Raises PipelineError."""
    from sordini.pipeline.jobs.topics import Topics

    for job in jobs:
        Topics.of(job).check()


def started_spark(jobs: Sequence[Job], master: str, *, asks_brokers: bool = True) -> SparkSession:
    """One session for all these jobs, started now and closed with the command; their clusters are looked at before.

    Raises PipelineError.
    """
    from sordini.pipeline.jobs.session import close_session, open_session

    if asks_brokers:
        check_cluster(*jobs)
    click.echo("Starting Spark ...", err=True)
    session = open_session(jobs, master)
    click.get_current_context().call_on_close(partial(close_session, session))
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
    """Give a command the argument JOB with --bootstrap and --json; it gets them as `started`."""

    @job_argument
    @bootstrap_option
    @json_option
    @wraps(command)
    @in_words
    def with_started(*args: Any, job_file: Path, bootstrap: str, as_json: bool, **named: Any) -> None:
        command(*args, started=Started(read(job_file, bootstrap), as_json, named.pop("master", "")), **named)

    return with_started


def read(path: Path, bootstrap: str) -> Job:
    """Read a job file. Raises PipelineError."""
    from sordini.pipeline.jobs.reading import read_job

    return read_job(path, os.environ, bootstrap)
