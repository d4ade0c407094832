"""The output of a running job: a progress bar or a line per batch on standard error, or JSON on standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from sordini.cli.common.output import json_line, size_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sordini.pipeline.jobs.batch_writer import Batch
    from sordini.pipeline.jobs.load import Step
    from sordini.pipeline.jobs.upkeep import UpkeepStep


class ProgressReporter:
    """Prints batches and pieces. As a context manager it ends its progress bar and prints a summary."""

    def __init__(self, name: str = "", *, as_json: bool) -> None:
        self._name = name
        self._as_json = as_json
        self._bar: Any = None
        self._rows = self._dead = self._steps = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.__exit__(kind, error, trace)
        if self._as_json:
            return
        dead = f", {self._dead:,} dead letters" if self._dead else ""
        written = f"{self._name}: {self._rows:,} rows{dead}"
        if error is None:
            click.echo(written if self._steps else f"{self._name}: nothing to do, all records were written before")
        elif self._steps:
            click.echo(f"{written} were written before it failed", err=True)

    def notice(self, text: str) -> None:
        """Print a notice."""
        click.echo(f"sordini: {text}", err=True)

    def step(self, step: Step) -> None:
        """Print one piece of a load of known size."""
        self._steps += 1
        self._rows += step.batch.rows
        self._dead += step.batch.dead
        if self._as_json:
            self._print({**_values(step.batch), "records_done": step.records_done, "records_all": step.records_all})
        elif sys.stderr.isatty():
            if self._bar is None:
                self._bar = click.progressbar(length=step.records_all, label=self._name, file=sys.stderr)
                self._bar.__enter__()
            self._bar.length = step.records_all
            self._bar.update(step.records)
        else:
            share = 100 * step.records_done // max(1, step.records_all)
            click.echo(f"{_line(self._name, step.batch)}, {share} %", err=True)
            self._upkeep(self._name, step.batch)

    def batch(self, name: str, batch: Batch) -> None:
        """Print one batch of a stream."""
        if self._as_json:
            self._print({"name": name, **_values(batch)})
        else:
            click.echo(_line(name, batch), err=True)
            self._upkeep(name, batch)

    def _upkeep(self, name: str, batch: Batch) -> None:
        for done in batch.upkeep:
            click.echo(f"{name}: {_upkeep_line(done)}", err=True)

    def _print(self, value: dict[str, Any]) -> None:
        click.echo(json_line({"name": self._name, **value} if self._name else value), nl=False)
        sys.stdout.flush()


@contextmanager
def reported_batches(
    reporter: ProgressReporter, spark: SparkSession, address: tuple[str, int] | None, job: str = ""
) -> Iterator[Callable[[str, Batch], None]]:
    """What takes each batch with its stream's name, or with that of an aggregate of `job`.

    It prints the batch, and counts it in metrics, which are served at (host, port) if there is an address.
    """
    if address is None:
        yield reporter.batch
        return
    from sordini.pipeline.jobs.metrics import Metrics

    host, port = address
    metrics = Metrics()
    click.echo(f"Metrics at http://{host}:{metrics.serve(host, port)}/metrics", err=True)
    spark.streams.addListener(metrics)

    def reported(name: str, batch: Batch) -> None:
        reporter.batch(name, batch)
        query = f"{job}/{name}" if job else name
        metrics.wrote(query, batch.rows, batch.dead, batch.records)
        metrics.kept_up(query, batch.files, batch.upkeep)

    try:
        yield reported
    finally:
        spark.streams.removeListener(metrics)


def _values(batch: Batch) -> dict[str, Any]:
    """A batch for JSON."""
    return {**batch._asdict(), "upkeep": [done._asdict() for done in batch.upkeep]}


def _upkeep_line(done: UpkeepStep) -> str:
    """What was done for a table, or failed."""
    if done.failure:
        return f"{done.action} of {done.table} failed, and is tried again later: {done.failure}"
    seconds = f"{done.seconds:.1f} s"
    match done.action:
        case "compaction":
            return f"compaction of {done.table}: {done.removed:,} files became {done.added:,}, {seconds}"
        case "versions":
            return f"{done.removed:,} old versions of {done.table} were dropped, {seconds}"
        case _:
            return f"{done.removed:,} unused files of {done.table} were deleted, {seconds}"


def _line(name: str, batch: Batch) -> str:
    if batch.was_there:
        return f"{name}: batch {batch.batch_id} was in the table already"
    rate = batch.rows / batch.seconds if batch.seconds else 0
    dead = f", {batch.dead:,} dead letters" if batch.dead else ""
    return (
        f"{name}: batch {batch.batch_id}, {batch.rows:,} rows{dead}, {size_text(batch.bytes)}, "
        f"{batch.seconds:.1f} s ({rate:,.0f} rows/s)"
    )
