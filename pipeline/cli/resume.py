"""`sordini pipeline resume`: restores the position of a job whose table has lost it."""

from __future__ import annotations

import click

from sordini.cli.common.output import print_json
from sordini.pipeline.cli.options import CommandCall, PipelineCommand, check_job_stores, master_option, with_job


@click.command(cls=PipelineCommand)
@with_job
@click.option("--from-offsets", "written", metavar="JSON", default="",
              help='The next offset of each, as {"topic": {"0": 23}}; default: those after the rows.')  # fmt: skip
@master_option
def resume(call: CommandCall, *, written: str) -> None:
    """Write the job's position to its tables if their logs have lost it.

    This happens only to a Delta table whose last batch was written by an earlier version, after other tools compacted
    it and cleaned up its log. Without --from-offsets, Spark finds the greatest offset of each partition among rows and
    dead letters.

    \b
      sordini pipeline resume views.yaml
      sordini pipeline resume views.yaml --from-offsets '{"page_views": {"0": 1042, "1": 998}}'
    """
    from sordini.pipeline.cli.printable_values import positions_text
    from sordini.pipeline.jobs import resume as jobs
    from sordini.pipeline.jobs.source_topics import SourceTopics
    from sordini.pipeline.source.positions import parse_offsets

    check_job_stores(call.job)
    lost = jobs.lost(call.job)
    if written:
        SourceTopics.of(call.job).check()
        offsets = jobs.checked(call.job, parse_offsets(written, "--from-offsets"))
    else:
        offsets = jobs.after_rows(call.job, call.spark(asks_brokers=False))
    batch_id = jobs.note(lost, offsets)
    if call.as_json:
        print_json({"batch": batch_id, "offsets": offsets})
        return
    click.echo(f"{call.job.name} continues after batch {batch_id}: {positions_text(offsets)}")
