"""`sordini tail`: the newest records of topics, and those that arrive."""

from __future__ import annotations

import click

from sordini.admin.selections import PartitionSelection
from sordini.cli.commands.completion.names import topic_names
from sordini.cli.commands.records.schema_options import SchemaOptions, schema_options
from sordini.cli.common.argument_types import PARTITIONS, SINCE
from sordini.cli.common.options import Client, ClientCommand, client_options

NEWEST = 10


@click.command(cls=ClientCommand)
@click.argument(
    "wanted",
    metavar="TOPIC[:PARTITIONS]...",
    type=PARTITIONS,
    nargs=-1,
    required=True,
    shell_complete=topic_names,
)
@click.option("--follow", "-f", "follows", is_flag=True, help="Also print records as they arrive, until Ctrl-C.")
@click.option(
    "--lines",
    "-n",
    "count",
    metavar="COUNT",
    type=click.IntRange(min=0),
    help=f"How many of the newest records.  [default: {NEWEST}; with --since all]",
)
@click.option("--since", "since_ms", metavar="WHEN", type=SINCE, help="Only records since a time (UTC), or for 15m.")
@click.option("--grep", "texts", metavar="TEXT", multiple=True, help="Only records with this text anywhere.")
@click.option("--key", "keys", metavar="TEXT", multiple=True, help="Only records with this text in their key.")
@click.option("--value", "values", metavar="TEXT", multiple=True, help="Only records with this text in their value.")
@click.option("--header", "headers", metavar="TEXT", multiple=True, help="Only records with this text in a header.")
@click.option(
    "--where",
    "paths",
    metavar="PATH[=TEXT]",
    multiple=True,
    help="Only records whose value is JSON with this path, such as customer.id or items[0].name=pen.",
)
@click.option("--aborted", is_flag=True, help="Also records of aborted transactions, and the markers of transactions.")
@click.option("--uncommitted", is_flag=True, help="As --aborted, and records of open transactions.")
@schema_options()
@client_options
def tail(
    client: Client,
    wanted: tuple[PartitionSelection, ...],
    *,
    follows: bool,
    count: int | None,
    since_ms: int | None,
    texts: tuple[str, ...],
    keys: tuple[str, ...],
    values: tuple[str, ...],
    headers: tuple[str, ...],
    paths: tuple[str, ...],
    aborted: bool,
    uncommitted: bool,
    schemas: SchemaOptions,
) -> None:
    """Print the newest records of topics, in the order of their times; with -f also those that arrive.

    Each is a line: time (UTC), partition and offset, key, value, headers. Of several filters all must hold. Records of
    several topics are sorted together. --timeout limits the search; when it is over, that is said. --json prints a
    line of JSON for each record, as `consume --format json` does.

    \b
      sordini tail orders
      sordini tail orders --registry http://127.0.0.1:8081
      sordini tail orders payments -f --grep figs
      sordini tail orders --since 15m --where customer.id=c7
    """
    from sordini.admin.records.search import COMMITTED, UNCOMMITTED, WITH_ABORTED
    from sordini.admin.records.seen_records import RecordFilter, path_steps
    from sordini.cli.commands.records.record_tail import TailOptions, show_tail

    filters = [
        RecordFilter(text, where)
        for where, given in (("any", texts), ("key", keys), ("value", values), ("header", headers), ("json", paths))
        for text in given
    ]
    for path in paths:
        try:
            path_steps(path.partition("=")[0].strip())
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--where") from None
    if any(not one.text for one in filters):
        raise click.UsageError("the text of a filter is empty")
    if count is None:
        count = None if since_ms is not None else NEWEST
    shows = UNCOMMITTED if uncommitted else WITH_ABORTED if aborted else COMMITTED
    show_tail(client, TailOptions(wanted, follows, count, since_ms, tuple(filters), shows), schemas.readers())
