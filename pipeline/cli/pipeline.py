"""`sordini pipeline`: from topics to tables, on Spark. docs/pipeline.md tells what the jobs do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sordini.cli.common.options import Failure, json_option
from sordini.cli.common.output import print_json, size_text, table
from sordini.pipeline.cli.jars import jars
from sordini.pipeline.cli.options import (
    CommandCall,
    PipelineGroup,
    bootstrap_option,
    check_cluster,
    master_option,
    metrics_option,
    read,
    started_spark,
    with_error_messages,
    with_job,
)
from sordini.pipeline.cli.progress import ProgressReporter, metrics_of
from sordini.pipeline.cli.resume import resume

if TYPE_CHECKING:
    from sordini.pipeline.jobs.backfill import Range
    from sordini.pipeline.jobs.compact import CompactedTable
    from sordini.pipeline.jobs.job import Aggregate, Job

COMPACT_MIB = 128


@click.group(cls=PipelineGroup)
def pipeline() -> None:
    """Write records from topics to tables with Spark, exactly once, as a job file describes.

    \b
      sordini pipeline check views.yaml
      sordini pipeline stream views.yaml
      sordini pipeline status views.yaml
    """


@pipeline.command()
@with_job
@click.option("--no-spark", "without_spark", is_flag=True, help="Skip the checks that need Spark.")
def check(call: CommandCall, *, without_spark: bool) -> None:
    """Check a job file, and print it with all defaults, or the errors in it; nothing is run.

    Spark is started to analyse the transform and the SQL expressions, unless --no-spark is given.

    \b
      sordini pipeline check views.yaml
      sordini pipeline check views.yaml --no-spark
    """
    from sordini.pipeline.cli.printable_values import printable
    from sordini.pipeline.jobs.session import MissingProgramError
    from sordini.pipeline.jobs.spark_checks import check_transform

    check_transform(call.job)
    if not without_spark and (call.job.transform or call.job.aggregates):
        try:
            call.spark(asks_brokers=False)
        except MissingProgramError as error:
            click.echo(f"sordini: the transform and the aggregates were not checked: {error}", err=True)
    values = printable(call.job)
    if call.as_json:
        print_json(values)
        return
    click.echo("\n".join(_lines(values)))


@pipeline.command()
@with_job
@master_option
def load(call: CommandCall) -> None:
    """Load the records that are in the topics now, in pieces of source.records_max, and end.

    The next run continues where the table ends, also after `stream`. SIGTERM and Ctrl-C stop it after the current
    piece.

    \b
      sordini pipeline load views.yaml
      sordini pipeline load views.yaml --master spark://master:7077 --json
    """
    from sordini.pipeline.jobs.graceful_stop import BatchGate, stop_on_signals
    from sordini.pipeline.jobs.load import load as run

    gate, reporter = BatchGate(), ProgressReporter(call.job.name, as_json=call.as_json)
    spark = call.spark()
    with stop_on_signals(gate), reporter:
        for step in run(call.job, spark, lambda: gate.is_shut, reporter.notice):
            reporter.step(step)


@pipeline.command()
@click.argument("job_files", metavar="JOB...", type=click.Path(dir_okay=False, path_type=Path), nargs=-1, required=True)
@bootstrap_option
@master_option
@click.option("--available-now", is_flag=True, help="End when the records that exist now have been read.")
@metrics_option
@json_option
@with_error_messages
def stream(
    job_files: tuple[Path, ...],
    *,
    bootstrap: str,
    master: str,
    available_now: bool,
    metrics: tuple[str, int] | None,
    as_json: bool,
) -> None:
    """Write records to the table as they arrive. Several jobs share one Spark session.

    SIGTERM and Ctrl-C stop it after the current batch.

    \b
      sordini pipeline stream views.yaml
      sordini pipeline stream views.yaml clicks.yaml --available-now
      sordini pipeline stream views.yaml --metrics 9108
    """
    from sordini.pipeline.jobs.stream import stream as run

    jobs = [read(path, bootstrap) for path in job_files]
    _check_names_differ(jobs)
    reporter = ProgressReporter(as_json=as_json)
    spark = started_spark(jobs, master)
    with metrics_of(spark, metrics) as meters:

        def reported(job: Job, batch: Any) -> None:
            reporter.batch(job.name, batch)
            if meters is not None:
                meters.wrote(job.name, batch.rows, batch.dead, batch.records)

        run(jobs, spark, available_now=available_now, on_batch=reported, notice=reporter.notice)


@pipeline.command()
@with_job
@click.option("--only", metavar="NAME", multiple=True, help="An aggregate of the job; default: all.")
@click.option("--available-now", is_flag=True, help="End when the records that exist now have been read.")
@metrics_option
@master_option
def aggregate(
    call: CommandCall, *, only: tuple[str, ...], available_now: bool, metrics: tuple[str, int] | None
) -> None:
    """Write aggregates over time windows; a window is written when the watermark has passed it.

    Windows that the watermark has not passed stay open when the command ends; `backfill --aggregate` closes them.

    \b
      sordini pipeline aggregate views.yaml
      sordini pipeline aggregate views.yaml --only views_per_minute --available-now
    """
    from sordini.pipeline.jobs.aggregate import aggregate as run
    from sordini.pipeline.jobs.aggregate import app_id

    wanted = _aggregates(call.job, only)
    reporter = ProgressReporter(as_json=call.as_json)
    spark = call.spark()
    with metrics_of(spark, metrics) as meters:

        def reported(one: Aggregate, batch: Any) -> None:
            reporter.batch(one.name, batch)
            if meters is not None:
                meters.wrote(app_id(call.job, one), batch.rows, batch.dead)

        run(call.job, spark, wanted, available_now=available_now, on_batch=reported, notice=reporter.notice)


@pipeline.command()
@with_job
@click.option("--from-time", metavar="TIME", default="", help="In ISO 8601; records at or after this time.")
@click.option("--to-time", metavar="TIME", default="", help="Records before this time; windows that end by then.")
@click.option("--from-offsets", metavar="JSON", default="", help='As {"topic": {"0": 23}}; others from their first.')
@click.option("--to-offsets", metavar="JSON", default="", help="The first offsets that are not wanted any more.")
@click.option("--aggregate", "names", metavar="NAME", multiple=True, help="Close this aggregate's windows instead.")
@click.option("--into", metavar="LOCATION", default="", help="Fill another table of the same kind instead.")
@master_option
def backfill(call: CommandCall, *, names: tuple[str, ...], into: str, **edges: str) -> None:
    """Write what is missing of a range; what is in the table already is left out.

    For windows TIME is the events' own; without --to-time those are closed that are over by now.

    \b
      sordini pipeline backfill views.yaml --from-time 2026-11-22T08:00 --to-time 2026-11-22T09:00
      sordini pipeline backfill views.yaml --aggregate views_per_minute
      sordini pipeline backfill views.yaml --into tables/views-again
    """
    from sordini.pipeline.jobs import backfill as jobs
    from sordini.pipeline.jobs.graceful_stop import BatchGate, stop_on_signals

    wanted = _range(**edges)
    if names:
        if into or edges["from_offsets"] or edges["to_offsets"]:
            raise click.UsageError("windows have times: --aggregate goes with --from-time and --to-time alone")
        chosen = _aggregates(call.job, names)
        reporter = ProgressReporter(as_json=call.as_json)
        spark = call.spark()
        start = wanted.start if isinstance(wanted.start, int) else None
        end = wanted.end if isinstance(wanted.end, int) else round(datetime.now(UTC).timestamp() * 1000)
        for one in chosen:
            reporter.batch(one.name, jobs.close_windows(call.job, spark, one, start, end))
        return
    gate, reporter = BatchGate(), ProgressReporter(call.job.name, as_json=call.as_json)
    spark = call.spark()
    location = str(Path(into).resolve()) if into and "://" not in into else into
    with stop_on_signals(gate), reporter:
        for step in jobs.backfill(call.job, spark, wanted, lambda: gate.is_shut, location):
            reporter.step(step)


@pipeline.command()
@with_job
@click.option("--all", "everything", is_flag=True, help="Also show windows without a difference.")
@master_option
def audit(call: CommandCall, *, everything: bool) -> None:
    """Compare the producers' counts with the table's, by windows; a difference is exit code 1.

    \b
      sordini pipeline audit views.yaml --all
    """
    from sordini.pipeline.jobs.audit import audit as run
    from sordini.pipeline.jobs.audit import counts_of

    counts = counts_of(call.job)
    rows = run(call.job, call.spark(asks_brokers=False, plans=False), counts)
    wrong = [row for row in rows if row.difference or row.twice]
    if call.as_json:
        print_json([row._asdict() for row in (rows if everything else wrong)])
    elif everything or wrong:
        head = ["TOPIC", "WINDOW", "SENT", "ROWS", "DEAD", "TWICE", "DIFFERENCE"]
        click.echo(table(head, rows if everything else wrong))
    if wrong:
        raise Failure(f"{len(wrong)} of {len(rows)} windows differ from what was sent")
    if not call.as_json:
        windows = "1 window" if len(rows) == 1 else f"{len(rows):,} windows"
        click.echo(f"{sum(row.sent for row in rows):,} records sent in {windows}: none missing, none duplicated.")


@pipeline.command()
@with_job
@click.option("--target", "target_mib", metavar="MIB", type=click.IntRange(min=1), default=COMPACT_MIB,
              show_default=True, help="The target file size.")  # fmt: skip
@click.option("--clean-up", is_flag=True, help="Also delete files older than a day that are in no batch of the table.")
def compact(call: CommandCall, *, target_mib: int, clean_up: bool) -> None:
    """Merge small files of the job's tables; rows do not change, and writers can continue meanwhile.

    \b
      sordini pipeline compact views.yaml
    """
    from sordini.pipeline.jobs.compact import compact as run

    done = list(run(call.job, target_mib * 2**20, clean_up=clean_up))
    if call.as_json:
        print_json([one._asdict() for one in done])
        return
    head = ["TABLE", "FILES", "AFTER", "SIZE", "AFTER", "DELETED"]
    rows = [_compacted(one) for one in done]
    click.echo(table(head, rows) if rows else "There are no tables yet.")


@pipeline.command()
@with_job
@click.option("--lag-max", metavar="RECORDS", type=click.IntRange(min=0), help="Exit with 1 if any lag is larger.")
def status(call: CommandCall, *, lag_max: int | None) -> None:
    """Show the position and lag of each partition, in the table and in each aggregate.

    \b
      sordini pipeline status views.yaml
      sordini pipeline status views.yaml --json --lag-max 100000
    """
    from sordini.pipeline.jobs.status import status as run

    check_cluster(call.job)
    places = run(call.job)
    if call.as_json:
        print_json([place._asdict() for place in places])
    else:
        head = ["OF", "BATCH", "TOPIC", "PARTITION", "LOG START", "NEXT", "LOG END", "LAG", "LOST"]
        click.echo(table(head, places))
    largest = max((place.lag for place in places), default=0)
    if lag_max is not None and largest > lag_max:
        raise Failure(f"a partition lags by {largest} records, more than {lag_max}")


@pipeline.command()
@click.argument("name", required=False)
@click.option("--job", "job_file", metavar="JOB", type=click.Path(dir_okay=False, path_type=Path),
              help="The schema of this job file.")  # fmt: skip
@click.option("--as", "form", type=click.Choice(["spark", "json", "avro"]), default="json", show_default=True,
              help="Spark's DDL, JSON Schema, or Avro.")  # fmt: skip
@with_error_messages
def schema(name: str | None, job_file: Path | None, form: str) -> None:
    """Print a built-in schema by its name, or a job's schema; without arguments list the built-in ones.

    \b
      sordini pipeline schema page_view --as avro
    """
    from sordini.pipeline.cli.printable_values import schema_in
    from sordini.pipeline.schemas.named import NAMED

    if name is None and job_file is None:
        click.echo("\n".join(f"{one.name}  {one.about}" for one in NAMED.values()))
        return
    found = NAMED.get(name or "") if job_file is None else read(job_file, "").decode.schema
    if found is None:
        raise Failure(f"{name or job_file} has no schema; the built-in schemas are {', '.join(NAMED)}")
    click.echo(schema_in(found, form))


pipeline.add_command(resume)
pipeline.add_command(jars)


def _check_names_differ(jobs: list[Job]) -> None:
    """Tables, states and metrics know a job by its name. Raises Failure."""
    names = [job.name for job in jobs]
    for name in names:
        if names.count(name) > 1:
            raise Failure(f"two of the jobs are called {name}; their names must differ")


def _aggregates(job: Job, names: tuple[str, ...]) -> list[Aggregate]:
    known = {one.name: one for one in job.aggregates}
    for name in names:
        if name not in known:
            raise Failure(f"job {job.name} has no aggregate {name}; it has {', '.join(known) or 'none'}")
    if not known:
        raise Failure(f"job {job.name} has no aggregates")
    return [known[name] for name in names] or list(known.values())


def _compacted(one: CompactedTable) -> list[object]:
    sizes = [size_text(one.bytes_before), size_text(one.bytes_after)]
    return [one.table, one.files_before, one.files_after, *sizes, one.cleared]


def _range(from_time: str, to_time: str, from_offsets: str, to_offsets: str) -> Range:
    from sordini.pipeline.jobs.backfill import Range
    from sordini.pipeline.jobs.job_file import milliseconds_of
    from sordini.pipeline.source.positions import parse_offsets

    def edge(time: str, offsets: str, name: str) -> Any:
        if time and offsets:
            raise click.UsageError(f"give --{name}-time or --{name}-offsets, not both")
        if offsets:
            return parse_offsets(offsets, f"--{name}-offsets")
        try:
            return milliseconds_of(time) if time else None
        except ValueError as error:
            raise click.UsageError(f"--{name}-time: {error}") from None

    return Range(edge(from_time, from_offsets, "from"), edge(to_time, to_offsets, "to"))


def _lines(values: Any, indent: str = "") -> list[str]:
    """A tree of plain values for people."""
    found = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            found += [f"{indent}{name}:", *_lines(value, f"{indent}  ")]
        elif value not in ({}, [], None, ""):
            text = ", ".join(map(str, value)) if isinstance(value, list) else value
            found.append(f"{indent}{name}: {text}")
    return found
