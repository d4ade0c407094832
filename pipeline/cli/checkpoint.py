"""`sordini pipeline checkpoint`: checkpoints of streaming queries, converted from one source to the other."""

from __future__ import annotations

import click

from sordini.cli.common.options import json_option
from sordini.cli.common.output import print_json
from sordini.pipeline.cli.options import PipelineCommand, PipelineGroup, with_error_messages


@click.group(cls=PipelineGroup)
def checkpoint() -> None:
    """Checkpoints of Spark's streaming queries.

    \b
      sordini pipeline checkpoint convert checkpoints/views checkpoints/views-sordini --to sordini
    """


@checkpoint.command(cls=PipelineCommand)
@click.argument("folder")
@click.argument("into")
@click.option("--to", "kind", type=click.Choice(["sordini", "kafka"]), required=True,
              help="The format that the query reads with from now on.")  # fmt: skip
@json_option
@with_error_messages
def convert(folder: str, into: str, *, kind: str, as_json: bool) -> None:
    """Convert a query's checkpoint between Spark's own Kafka source and Sordini's: the query goes on without a loss.

    The query must not run. FOLDER stays as it is; the query is started again with INTO as its checkpointLocation and
    the other format, with the same topics, and all else unchanged. State of aggregates is copied.

    \b
      sordini pipeline checkpoint convert checkpoints/views checkpoints/views-sordini --to sordini
      sordini pipeline checkpoint convert checkpoints/views-sordini checkpoints/views-kafka --to kafka
    """
    from sordini.pipeline.cli.printable_values import positions_text
    from sordini.pipeline.source.checkpoint_conversion import SourceKind, convert

    done = convert(folder, into, SourceKind(kind))
    if as_json:
        print_json({"batch": done.batch_id, "done": done.is_done, "offsets": done.offsets})
        return
    then = f"after batch {done.batch_id}" if done.is_done else f"with batch {done.batch_id}, which was not done"
    click.echo(f"{into} continues {then}: {positions_text(done.offsets)}")
