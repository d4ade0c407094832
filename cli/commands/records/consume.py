"""`sordini consume`: print records."""

from __future__ import annotations

import click

from sordini.cli.commands.completion.names import group_names, topic_names
from sordini.cli.commands.records.schema_options import SchemaOptions, schema_options
from sordini.cli.common.argument_types import START, StartPosition
from sordini.cli.common.options import Client, ClientCommand, bootstrap_option, json_option
from sordini.cli.common.terminal import raw_option

CONNECT_SECONDS_MAX = 30.0


@click.command(cls=ClientCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    type=START,
    help="beginning, end, an offset, -N for the last N of each partition, a time such as 2026-11-21T18:30 (UTC), "
    "or a duration such as 15m for records since then.  [default: end]",
)
@click.option(
    "--group",
    "-g",
    metavar="GROUP",
    shell_complete=group_names,
    help="Read as a member of this group: start at its committed offsets, and commit what was read.",
)
@click.option(
    "--partition",
    "-p",
    "partitions",
    metavar="NUMBER",
    type=click.IntRange(min=0),
    multiple=True,
    help="Read this partition only. Can be repeated.",
)
@click.option("--max-messages", "-n", metavar="COUNT", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--exit-at-end", "-e", is_flag=True, help="Stop at the current end of each partition.")
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop if no record has arrived for this long.  [default: never]",
)
@click.option("--read-committed", is_flag=True, help="Skip records of open and aborted transactions.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["value", "key-value", "json"]),
    help="Print the value, key and value, or the whole record as one line of JSON.  [default: value]",
)
@click.option(
    "--key-separator",
    "-k",
    metavar="TEXT",
    default="\\t",
    show_default=True,
    help="Between key and value; \\t is a tab.",
)
@click.option("--null-value", metavar="TEXT", default="null", show_default=True, help="Text for a null key or value.")
@schema_options()
@raw_option
@bootstrap_option
@json_option
def consume(
    topic: str,
    *,
    start: StartPosition | None,
    group: str | None,
    partitions: tuple[int, ...],
    max_messages: int | None,
    exit_at_end: bool,
    timeout_s: float | None,
    read_committed: bool,
    form: str | None,
    key_separator: str,
    null_value: str,
    schemas: SchemaOptions,
    raw: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Print the records of a topic, until Ctrl-C or until an option ends it.

    On a terminal, unprintable characters are escaped unless --raw is given. In JSON, keys and values that are not
    UTF-8 are {"base64": "..."}; those with a schema are their JSON. A record that does not fit its schema is named on
    standard error, and the exit code is 1. --json is --format json. An offset beyond the end of every partition is an
    error, with exit code 1; where only some have it, a notice says where the others begin.

    \b
      sordini consume orders --from beginning
      sordini consume orders --from -10 --exit-at-end
      sordini consume orders --from 15m --format json --timeout 5
      sordini consume orders --group billing --max-messages 100
      sordini consume orders --from beginning --avro order.avsc
      sordini consume orders --from beginning --registry http://127.0.0.1:8081
      sordini consume orders --from beginning --protobuf shop.proto:Order --key-protobuf shop.proto:Id
    """
    from sordini.cli.commands.records.record_consumer import ConsumeOptions, consume_records

    if group is not None and partitions:
        raise click.UsageError("--group and --partition: the group assigns the partitions itself")
    if group is not None and start is not None and start[0] not in {"beginning", "end"}:
        raise click.UsageError(
            "with --group, --from is beginning or end; `sordini groups reset` resets a group to other offsets"
        )
    if as_json and form not in {None, "json"}:
        raise click.UsageError(f"--json and --format {form}: give one of them")
    options = ConsumeOptions(
        topic=topic,
        start=start or ("end", 0),
        group=group,
        partitions=partitions,
        count_max=max_messages,
        exit_at_end=exit_at_end,
        silence_s=timeout_s,
        read_committed=read_committed,
    )
    form = "json" if as_json else form or "value"
    separator = key_separator.replace("\\t", "\t").encode()
    consume_records(
        Client(bootstrap, as_json, CONNECT_SECONDS_MAX),
        options,
        form,
        separator,
        null_value.encode(),
        schemas.readers(),
        raw=raw,
    )
