"""`sordini pipeline`: from topics to tables, on Spark. docs/pipeline.md tells what the jobs do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sordini.admin.failure import Failure
from sordini.cli.common.options import json_option
from sordini.cli.common.output import print_json, size_text, table
from sordini.pipeline.cli.checkpoint import checkpoint
from sordini.pipeline.cli.explanations import explain_option, print_explanations
from sordini.pipeline.cli.infer import infer
from sordini.pipeline.cli.options import (
    CommandCall,
    PipelineGroup,
    bootstrap_option,
    check_job_stores,
    master_option,
    metrics_option,
    read,
    started_spark,
    with_error_messages,
    with_job,
)
from sordini.pipeline.cli.progress import ProgressReporter, reported_batches
from sordini.pipeline.cli.resume import resume
from sordini.pipeline.cli.table_doctor import doctor

if TYPE_CHECKING:
    from sordini.pipeline.jobs.compact import CompactedTable
    from sordini.pipeline.library.writing import Edge

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
@explain_option
def check(call: CommandCall, *, without_spark: bool, explained: bool) -> None:
    """Check a job file, and print it with all defaults, or the errors in it; nothing is run.

    Spark is started to analyse the transform and the SQL expressions, unless --no-spark is given.

    \b
      sordini pipeline check views.yaml
      sordini pipeline check views.yaml --no-spark --explain
    """
    from sordini.pipeline.cli.printable_values import printable
    from sordini.pipeline.jobs.session import MissingProgramError
    from sordini.pipeline.jobs.spark_checks import check_transform
    from sordini.pipeline.library.sessions import check as run

    check_transform(call.job)
    if not without_spark and (call.job.transform or call.job.aggregates):
        try:
            run(call.job, spark=call.spark(asks_brokers=False))
        except MissingProgramError as error:
            click.echo(f"sordini: the transform and the aggregates were not checked: {error}", err=True)
    if explained:
        print_explanations([call.job], "load", as_json=call.as_json, offline=True)
        return
    values = printable(call.job)
    if call.as_json:
        print_json(values)
        return
    click.echo("\n".join(_lines(values)))


@pipeline.command()
@with_job
@explain_option
@master_option
def load(call: CommandCall, *, explained: bool) -> None:
    """Load the records that are in the topics now, in pieces of source.records_max, and end.

    The next run continues where the table ends, also after `stream`. SIGTERM and Ctrl-C stop it after the current
    piece.

    \b
      sordini pipeline load views.yaml
      sordini pipeline load views.yaml --explain
      sordini pipeline load views.yaml --master spark://master:7077 --json
    """
    from sordini.pipeline.library.writing import load as run

    if explained:
        print_explanations([call.job], "load", as_json=call.as_json)
        return
    reporter = ProgressReporter(call.job.name, as_json=call.as_json)
    spark = call.spark()
    with reporter:
        run(call.job, spark=spark, on_step=reporter.step, on_notice=reporter.notice)


@pipeline.command()
@click.argument("job_files", metavar="JOB...", type=click.Path(dir_okay=False, path_type=Path), nargs=-1, required=True)
@bootstrap_option
@master_option
@click.option("--available-now", is_flag=True, help="End when the records that exist now have been read.")
@explain_option
@metrics_option
@json_option
@with_error_messages
def stream(
    job_files: tuple[Path, ...],
    *,
    bootstrap: str,
    master: str,
    available_now: bool,
    explained: bool,
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
    from sordini.pipeline.library.writing import check_names
    from sordini.pipeline.library.writing import stream as run

    jobs = [read(path, bootstrap) for path in job_files]
    check_names(jobs)
    if explained:
        print_explanations(jobs, "stream", as_json=as_json)
        return
    reporter = ProgressReporter(as_json=as_json)
    spark = started_spark(jobs, master)
    with reported_batches(reporter, spark, metrics) as on_batch:
        run(jobs, available_now=available_now, spark=spark, on_batch=on_batch, on_notice=reporter.notice)


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
    from sordini.pipeline.library.writing import aggregate as run
    from sordini.pipeline.library.writing import aggregates_of

    aggregates_of(call.job, only)  # A name that is none is reported before Spark starts.
    reporter = ProgressReporter(as_json=call.as_json)
    spark = call.spark()
    with reported_batches(reporter, spark, metrics, call.job.name) as on_batch:
        run(call.job, only=only, available_now=available_now, spark=spark, on_batch=on_batch, on_notice=reporter.notice)


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
    from sordini.pipeline.library import writing

    start, end = _range(**edges)
    if names:
        if into or edges["from_offsets"] or edges["to_offsets"]:
            raise click.UsageError("windows have times: --aggregate goes with --from-time and --to-time alone")
        writing.aggregates_of(call.job, names)
        reporter = ProgressReporter(as_json=call.as_json)
        times = {"start": _time_of(start), "end": _time_of(end)}
        writing.close_windows(call.job, only=names, **times, spark=call.spark(), on_batch=reporter.batch)
        return
    reporter = ProgressReporter(call.job.name, as_json=call.as_json)
    location = str(Path(into).resolve()) if into and "://" not in into else into
    spark = call.spark()
    with reporter:
        writing.backfill(call.job, start=start, end=end, into=location, spark=spark, on_step=reporter.step)


@pipeline.command()
@with_job
@click.option("--all", "everything", is_flag=True, help="Also show windows without a difference.")
@master_option
def audit(call: CommandCall, *, everything: bool) -> None:
    """Compare the producers' counts with the table's, by windows; a difference is exit code 1.

    \b
      sordini pipeline audit views.yaml --all
    """
    from sordini.pipeline.jobs.audit import counts_of
    from sordini.pipeline.library.tables import audit as run

    check_job_stores(call.job)
    counts_of(call.job)  # Counts that are none are reported before Spark starts.
    rows = run(call.job, spark=call.spark(asks_brokers=False))
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
    from sordini.pipeline.library.tables import compact as run

    check_job_stores(call.job)
    click.echo("Merging small files ...", err=True)
    done = run(call.job, target_bytes=target_mib * 2**20, clean_up=clean_up)
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
    from sordini.pipeline.library.tables import status as run

    check_job_stores(call.job)
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
@click.argument("file", required=False)
@click.option("--job", "job_file", metavar="JOB", type=click.Path(dir_okay=False, path_type=Path),
              help="The schema of this job file.")  # fmt: skip
@click.option("--as", "form", type=click.Choice(["spark", "json", "avro"]), default="json", show_default=True,
              help="Spark's DDL, JSON Schema, or Avro.")  # fmt: skip
@with_error_messages
def schema(file: str | None, job_file: Path | None, form: str) -> None:
    """Print the schema of a file, or of a job.

    A file is Avro's (.avsc), a JSON schema (.json), or has fields as a job file has them (.yaml, .toml).

    \b
      sordini pipeline schema order.yaml --as avro
      sordini pipeline schema --job orders.yaml --as spark
    """
    from sordini.pipeline.cli.printable_values import schema_in
    from sordini.pipeline.jobs.job_file_schema import schema_of_file
    from sordini.pipeline.schemas.fields import SchemaError

    if (file is None) == (job_file is None):
        raise click.UsageError("give a file of a schema, or --job")
    try:
        found = read(job_file, "").decode.schema if job_file is not None else schema_of_file(file or "", Path())
    except SchemaError as error:
        raise Failure(f"{file} has no schema: {error}") from None
    if found is None:
        raise Failure(f"{job_file} has no schema: its values are raw, or a registry has their schemas")
    click.echo(schema_in(found, form))


pipeline.add_command(infer)
pipeline.add_command(resume)
pipeline.add_command(doctor)
pipeline.add_command(checkpoint)


def _compacted(one: CompactedTable) -> list[object]:
    sizes = [size_text(one.bytes_before), size_text(one.bytes_after)]
    return [one.table, one.files_before, one.files_after, *sizes, one.cleared]


def _range(from_time: str, to_time: str, from_offsets: str, to_offsets: str) -> tuple[Edge | None, Edge | None]:
    from sordini.pipeline.jobs.job_file_source import milliseconds_of
    from sordini.pipeline.source.positions import parse_offsets

    def edge(time: str, offsets: str, name: str) -> Edge | None:
        if time and offsets:
            raise click.UsageError(f"give --{name}-time or --{name}-offsets, not both")
        if offsets:
            return parse_offsets(offsets, f"--{name}-offsets")
        try:
            return datetime.fromtimestamp(milliseconds_of(time) / 1000, UTC) if time else None
        except ValueError as error:
            raise click.UsageError(f"--{name}-time: {error}") from None

    return edge(from_time, from_offsets, "from"), edge(to_time, to_offsets, "to")


def _time_of(edge: Edge | None) -> datetime | None:
    return edge if isinstance(edge, datetime) else None


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
