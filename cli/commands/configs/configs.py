"""`sordini configs`: show and change the settings of topics, groups, brokers and the cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from sordini.admin.config_requests import BROKER, CLIENT_METRICS, DEFAULT, GROUP, TOPIC, Resource
from sordini.cli.commands.completion.names import group_names, topic_names
from sordini.cli.common.argument_types import SETTING
from sordini.cli.common.options import Client, ClientGroup, client_options
from sordini.cli.common.output import print_json, table
from sordini.cli.common.terminal import echo, echo_lines


def resource_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --topic, --group, --client-metrics, --broker and --cluster to a command, which gets them as `resources`."""

    @click.option(
        "--topic",
        "-t",
        "topics",
        metavar="TOPIC",
        multiple=True,
        shell_complete=topic_names,
        help="A topic. Can be repeated.",
    )
    @click.option(
        "--group",
        "-g",
        "groups",
        metavar="GROUP",
        multiple=True,
        shell_complete=group_names,
        help="A consumer group; it need not exist. Can be repeated.",
    )
    @click.option(
        "--client-metrics",
        "subscriptions",
        metavar="NAME",
        multiple=True,
        help="A subscription to metrics of clients; it need not exist. Can be repeated.",
    )
    @click.option(
        "--broker",
        "brokers",
        metavar="ID",
        type=click.IntRange(min=0),
        multiple=True,
        help="A broker id. Can be repeated.",
    )
    @click.option("--cluster", is_flag=True, help="The default for all brokers.")
    @wraps(command)
    def with_resources(
        *args: Any,
        topics: tuple[str, ...],
        groups: tuple[str, ...],
        subscriptions: tuple[str, ...],
        brokers: tuple[int, ...],
        cluster: bool,
        **others: Any,
    ) -> None:
        resources = [Resource(TOPIC, name) for name in topics]
        resources += [Resource(GROUP, name) for name in groups]
        resources += [Resource(CLIENT_METRICS, name) for name in subscriptions]
        resources += [Resource(BROKER, str(broker_id)) for broker_id in brokers]
        resources += [Resource(BROKER, "")] if cluster else []
        if not resources:
            raise click.UsageError(
                "name a resource: --topic TOPIC, --group GROUP, --client-metrics NAME, --broker ID or --cluster"
            )
        command(*args, resources=resources, **others)

    return with_resources


@click.group(cls=ClientGroup)
def configs() -> None:
    """Show and change the settings of topics, consumer groups, brokers and the cluster.

    Also of subscriptions to metrics of clients (--client-metrics, see `sordini clients`).

    In order of precedence: the topic's or the group's setting, the broker's setting, the cluster default, the broker's
    server.properties, the built-in default.

    \b
      sordini configs describe --topic orders
      sordini configs set --topic orders retention.ms=60000
      sordini configs set --group billing consumer.session.timeout.ms=60000
      sordini configs unset --topic orders retention.ms
    """


@configs.command()
@resource_options
@click.option("--all", "everything", is_flag=True, help="Also show defaults, and all sources of each value.")
@client_options
def describe(client: Client, resources: list[Resource], *, everything: bool) -> None:
    """Show settings and their sources; without --all only those that differ from the default.

    \b
      sordini configs describe --topic orders
      sordini configs describe --broker 0 --all
    """
    from sordini.admin.config_requests import describe_configs

    found = client.run(lambda cluster: describe_configs(cluster, resources))
    shown = [[row for row in rows if everything or row["source"] != DEFAULT] for rows in found]
    if client.as_json:
        kinds = {TOPIC: "topic", GROUP: "group", CLIENT_METRICS: "client metrics", BROKER: "broker"}
        print_json(
            [
                {"type": kinds[resource.kind] if resource.name else "cluster", "name": resource.name, "configs": rows}
                for resource, rows in zip(resources, shown, strict=True)
            ]
        )
        return
    for resource, rows in zip(resources, shown, strict=True):
        if len(resources) > 1:
            echo(f"{resource}:")
        if rows:
            echo_lines(_table(rows, everything=everything))
        else:
            echo(f"All settings of {resource} are at their defaults.")


def _table(rows: list[dict[str, Any]], *, everything: bool) -> str:
    head = ["KEY", "VALUE", "SOURCE", *(["IN ORDER OF PRECEDENCE"] if everything else [])]
    cells = []
    for row in rows:
        value = "(hidden)" if row["sensitive"] else row["value"]
        source = f"{row['source']}{' (read-only)' if row['read_only'] else ''}"
        synonyms = "; ".join(f"{other['source']} {other['key']}={other['value']}" for other in row["synonyms"])
        cells.append([row["key"], value, source, *([synonyms] if everything else [])])
    return table(head, cells)


@configs.command("set")
@click.argument("changes", metavar="KEY=VALUE...", type=SETTING, nargs=-1, required=True)
@resource_options
@click.option("--validate-only", is_flag=True, help="Let the cluster validate the request, and change nothing.")
@client_options
def set_(
    client: Client, changes: tuple[tuple[str, str, str], ...], resources: list[Resource], *, validate_only: bool
) -> None:
    """Set keys; other keys stay as they are. KEY+=VALUE appends to a list, KEY-=VALUE removes from it.

    \b
      sordini configs set --topic orders retention.ms=60000 cleanup.policy+=compact
      sordini configs set --cluster log.cleaner.threads=2
      sordini configs set --broker 0 log.retention.ms=3600000 --validate-only
    """
    _change(client, resources, changes, (), validate_only=validate_only)


@configs.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@resource_options
@click.option("--validate-only", is_flag=True, help="Let the cluster validate the request, and change nothing.")
@client_options
def unset(client: Client, keys: tuple[str, ...], resources: list[Resource], *, validate_only: bool) -> None:
    """Remove settings, so that the next source in the order of precedence applies again.

    \b
      sordini configs unset --topic orders retention.ms
    """
    _change(client, resources, (), keys, validate_only=validate_only)


def _change(
    client: Client,
    resources: list[Resource],
    changes: tuple[tuple[str, str, str], ...],
    unset_keys: tuple[str, ...],
    *,
    validate_only: bool,
) -> None:
    from sordini.admin.config_requests import alter_configs

    client.run(lambda cluster: alter_configs(cluster, resources, changes, unset_keys, validate_only=validate_only))
    if client.as_json:
        print_json({"resources": [str(resource) for resource in resources], "changed": not validate_only})
        return
    for resource in resources:
        echo(f"{resource} {'could be changed' if validate_only else 'changed'}")
