"""`sordini clients`: the clients that push their own metrics to the brokers (KIP-714)."""

from __future__ import annotations

import click

from sordini.cli.common.options import Client, ClientGroup, client_options, report_found, report_rows


@click.group(cls=ClientGroup)
def clients() -> None:
    """List and describe clients that push their own metrics (KIP-714).

    The brokers need sordini.client.telemetry.enable=true, and a subscription says which clients push which metrics.
    Java's clients push from 3.7 on unless they turn it off, librdkafka's where enable.metrics.push is true.

    \b
      sordini configs set --client-metrics all 'metrics=*' interval.ms=10000
      sordini clients list
      sordini clients describe 5Cg3yDRQTBO9Pbzcn0Zrbw
    """


@clients.command("list")
@client_options
def list_(client: Client) -> None:
    """List the clients that the brokers know, with their largest lag and their average request latency.

    A client is known from its first request for a subscription until it was silent for three push intervals, and a
    minute at least.

    \b
      sordini clients list
      sordini clients list --json
    """
    from sordini.cli.commands.clients.client_instances import list_clients
    from sordini.cli.commands.clients.client_texts import HEAD, list_cells

    rows = client.run(list_clients)
    none = (
        "No client has asked what to push. Java's clients ask when they connect, librdkafka's with enable.metrics.push."
    )
    report_rows(client, rows, HEAD, list_cells, none)


@clients.command()
@click.argument("instances", metavar="INSTANCE...", nargs=-1, required=True)
@client_options
def describe(client: Client, instances: tuple[str, ...]) -> None:
    """Show a client by the id of its instance, with all metrics that are kept of it.

    Counters are totals of what the client has pushed to this broker.

    \b
      sordini clients describe 5Cg3yDRQTBO9Pbzcn0Zrbw
    """
    from sordini.cli.commands.clients.client_instances import describe_clients
    from sordini.cli.commands.clients.client_texts import client_text

    found = client.run(lambda cluster: describe_clients(cluster, instances))
    report_found(client, found, client_text)
