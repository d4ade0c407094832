"""`sordini transactions`: list and describe transactions, find those that hang, and abort them."""

from __future__ import annotations

import click

from sordini.admin.failure import Failure
from sordini.admin.selections import PartitionSelection
from sordini.cli.common.argument_types import DURATION, PARTITIONS, partitions_option
from sordini.cli.common.options import Client, ClientGroup, client_options, is_confirmed, report_found, report_rows
from sordini.cli.common.output import print_json
from sordini.cli.common.terminal import echo

DEFAULT_AGE = "15m"


@click.group(cls=ClientGroup)
def transactions() -> None:
    """List and describe transactions, find those that hang, and abort them.

    A transactional id is the name of a producer across restarts. Its coordinator, a broker, knows the partitions of
    its transaction and ends the transaction in each of them by a marker.

    \b
      sordini transactions list --state Ongoing
      sordini transactions describe billing-1
      sordini transactions find-hanging
    """


@transactions.command("list")
@click.option(
    "--state", "states", metavar="STATE", multiple=True, help="Only ids in this state, such as Ongoing or Empty."
)
@click.option(
    "--producer-id", "producer_ids", metavar="ID", type=int, multiple=True, help="Only the id with this producer id."
)
@click.option(
    "--longer-than", "longer_than_ms", metavar="DURATION", type=DURATION, help="Only transactions open longer: 90s, 1h."
)
@click.option("--pattern", metavar="REGEX", help="Only ids that match a regular expression.")
@client_options
def list_(
    client: Client,
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than_ms: int | None,
    pattern: str | None,
) -> None:
    """List the transactional ids of the cluster.

    \b
      sordini transactions list
      sordini transactions list --state Ongoing --longer-than 10m
    """
    from sordini.admin.transactions.transaction_requests import Filter, list_transactions

    wanted = Filter(states, producer_ids, longer_than_ms, pattern)
    rows = client.run(lambda cluster: list_transactions(cluster, wanted))
    report_rows(
        client,
        rows,
        ["TRANSACTIONAL ID", "PRODUCER", "STATE", "COORDINATOR"],
        lambda row: list(row.values()),
        "There are no such transactional ids. A producer with one creates it.",
    )


@transactions.command()
@click.argument("names", metavar="ID...", nargs=-1, required=True)
@client_options
def describe(client: Client, names: tuple[str, ...]) -> None:
    """Show the state, the producer and the partitions of transactional ids.

    \b
      sordini transactions describe billing-1
    """
    from sordini.cli.commands.transactions.transaction_reports import described, transaction_text

    rows = client.run(lambda cluster: described(cluster, names))
    report_found(client, rows, transaction_text)


@transactions.command()
@click.argument("wanted", metavar="TOPIC[:PARTITIONS]...", nargs=-1, required=True, type=PARTITIONS)
@client_options
def producers(client: Client, wanted: tuple[PartitionSelection, ...]) -> None:
    """Show the producers of partitions, with their open transactions.

    \b
      sordini transactions producers orders
      sordini transactions producers orders:0,2-4
    """
    from sordini.cli.commands.transactions.transaction_reports import PRODUCER_COLUMNS, producer_rows

    rows = client.run(lambda cluster: producer_rows(cluster, wanted))
    report_rows(
        client,
        rows,
        PRODUCER_COLUMNS,
        lambda row: list(row.values()),
        "No idempotent or transactional producer has written there lately.",
    )


@transactions.command("find-hanging")
@partitions_option("Only these partitions.")
@click.option("--broker", "broker_id", metavar="ID", type=click.IntRange(min=0), help="Only partitions that it leads.")
@click.option(
    "--longer-than",
    "age_ms",
    metavar="DURATION",
    type=DURATION,
    default=DEFAULT_AGE,
    show_default=True,
    help="Only transactions without a write for longer; transaction.max.timeout.ms of the brokers, or more.",
)
@client_options
def find_hanging(client: Client, *, wanted: tuple[PartitionSelection, ...], broker_id: int | None, age_ms: int) -> None:
    """Find open transactions that no coordinator will end. They hold back readers of committed records.

    `sordini transactions abort` ends one of them.

    \b
      sordini transactions find-hanging
      sordini transactions find-hanging --topic orders --longer-than 1h
    """
    from sordini.cli.commands.transactions.transaction_reports import (
        OPEN_COLUMNS,
        hanging_transactions,
        open_row,
    )

    found = client.run(lambda cluster: hanging_transactions(cluster, wanted, broker_id, age_ms))
    rows = [open_row(one) for one in found]
    report_rows(client, rows, OPEN_COLUMNS, lambda row: list(row.values()), "No transaction hangs.")


@transactions.command()
@click.argument("selection", metavar="TOPIC:PARTITION", type=PARTITIONS)
@click.option(
    "--start-offset",
    metavar="OFFSET",
    type=click.IntRange(min=0),
    required=True,
    help="Where the transaction starts, as find-hanging shows it.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def abort(client: Client, selection: PartitionSelection, *, start_offset: int, yes: bool) -> None:
    """Abort a transaction in one partition. Use it only for transactions that hang.

    The address must be that of the listener between brokers. It asks for confirmation.

    \b
      sordini transactions abort orders:0 --start-offset 1234
    """
    from sordini.cli.commands.transactions.transaction_reports import abort_at, open_row
    from sordini.protocol.types import TopicPartition

    topic, partitions = selection
    if partitions is None or len(partitions) != 1:
        raise click.UsageError("name one partition: TOPIC:PARTITION")
    partition = TopicPartition(topic, partitions[0])
    if not is_confirmed(f"Abort the transaction at offset {start_offset} of {partition}?", yes=yes):
        raise Failure("nothing was aborted")
    aborted = client.run(lambda cluster: abort_at(cluster, partition, start_offset))
    if client.as_json:
        print_json({**open_row(aborted), "aborted": True})
    else:
        echo(f"{partition}: transaction of producer {aborted.producer_id} at offset {start_offset} aborted")
