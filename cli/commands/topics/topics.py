"""`sordini topics`: list, create, alter and delete topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from sordini.admin.failure import Failure
from sordini.admin.selections import PartitionSelection
from sordini.cli.commands.completion.names import topic_names
from sordini.cli.commands.topics.pack_commands import describe_pack, pack
from sordini.cli.common.argument_types import INSTANT, PARTITIONS, SETTING
from sordini.cli.common.options import Client, ClientGroup, client_options, is_confirmed, report_each, report_rows
from sordini.cli.common.output import print_json, table
from sordini.cli.common.terminal import echo, echo_lines
from sordini.system.clock import utc_text

config_option = click.option(
    "--config",
    "-c",
    "configs",
    metavar="KEY=VALUE",
    type=SETTING,
    multiple=True,
    help="A setting of the topic, such as retention.ms=60000. Can be repeated.",
)
validate_option = click.option(
    "--validate-only", is_flag=True, help="Let the cluster validate the request, and change nothing."
)


@click.group(cls=ClientGroup)
def topics() -> None:
    """List, create, alter and delete topics.

    \b
      sordini topics create orders --partitions 3
      sordini topics list
      sordini topics describe orders
    """


@topics.command("list")
@click.option("--internal", is_flag=True, help="Also list internal topics.")
@client_options
def list_topics(client: Client, *, internal: bool) -> None:
    """List the topics of the cluster.

    \b
      sordini topics list
      sordini topics list --json --bootstrap broker-1:9092,broker-2:9092
    """
    found = client.run(lambda cluster: cluster.retry(lambda: cluster.metadata(None)))
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication_factor": max((len(row.replica_nodes) for row in topic.partitions), default=0),
            "internal": topic.is_internal,
        }
        for topic in sorted(found.topics, key=lambda topic: topic.name or "")
        if internal or not topic.is_internal
    ]
    report_rows(
        client,
        rows,
        ["TOPIC", "PARTITIONS", "REPLICAS"],
        lambda row: list(row.values())[:3],
        "There are no topics yet. `sordini topics create NAME` creates one.",
    )


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)
@client_options
def describe(client: Client, names: tuple[str, ...]) -> None:
    """Show the leader, replicas and offsets of each partition, and the topic's own settings.

    \b
      sordini topics describe orders
    """
    from sordini.admin.topics.topic_descriptions import describe_topics

    found = client.run(lambda cluster: describe_topics(cluster, names))
    if client.as_json:
        print_json(found)
        return
    for number, topic in enumerate(found):
        if number:
            echo()
        _echo_topic(topic)


def _echo_topic(topic: Mapping[str, Any]) -> None:
    own = "  ".join(f"{key}={value}" for key, value in topic["configs"].items())
    echo(f"Topic     {topic['topic']}{'  (internal)' if topic['internal'] else ''}")
    if topic["topic_id"]:
        echo(f"Id        {topic['topic_id']}")
    echo(f"Settings  {own or 'all at their defaults'}")
    echo()
    columns = ("partition", "leader", "replicas", "in_sync_replicas", "earliest_offset", "latest_offset")
    rows = [[_listed(row[column]) for column in columns] for row in topic["partitions"]]
    echo_lines(table(["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "EARLIEST", "LATEST"], rows))


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)
@click.option(
    "--partitions", "-p", metavar="COUNT", type=click.IntRange(min=1), help="[default: the broker's num.partitions]"
)
@click.option(
    "--replication-factor",
    "-r",
    metavar="COUNT",
    type=click.IntRange(1, 32767),
    help="Replicas of each partition.  [default: the broker's default.replication.factor]",
)
@config_option
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already.")
@validate_option
@client_options
def create(
    client: Client,
    names: tuple[str, ...],
    *,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[tuple[str, str, str], ...],
    if_not_exists: bool,
    validate_only: bool,
) -> None:
    """Create topics.

    \b
      sordini topics create orders
      sordini topics create orders bills --partitions 6 --config retention.ms=86400000
    """
    from sordini.admin.topics.topic_requests import create_topics

    settings = _plain_settings(configs)
    made = client.run(
        lambda cluster: create_topics(
            cluster,
            names,
            partitions=partitions or -1,
            replication_factor=replication_factor or -1,
            configs=settings,
            validate_only=validate_only,
            if_not_exists=if_not_exists,
        )
    )

    def words(row: Mapping[str, Any]) -> str:
        shape = "" if row["partitions"] is None else f" with {_counted(row['partitions'], 'partition')}"
        did = "exists already" if row["exists"] else "could be created" if validate_only else "created"
        return f"{row['topic']} {did}{shape}"

    report_each(client, made, words)


@topics.command()
@click.argument("name", metavar="TOPIC", shell_complete=topic_names)
@click.option("--partitions", "-p", metavar="COUNT", type=click.IntRange(min=1), help="The new number of partitions.")
@config_option
@click.option("--unset", metavar="KEY", multiple=True, help="Remove a setting. Can be repeated.")
@validate_option
@client_options
def alter(
    client: Client,
    name: str,
    *,
    partitions: int | None,
    configs: tuple[tuple[str, str, str], ...],
    unset: tuple[str, ...],
    validate_only: bool,
) -> None:
    """Add partitions to a topic, or change its settings.

    Partitions can only be added. Keys are then partitioned differently: records of one key may be in two partitions.

    \b
      sordini topics alter orders --partitions 12
      sordini topics alter orders --config retention.ms=60000 --unset cleanup.policy
    """
    from sordini.admin.cluster_client import ClusterClient
    from sordini.admin.config_requests import TOPIC, Resource, alter_configs
    from sordini.admin.topics.topic_requests import add_partitions

    if partitions is None and not configs and not unset:
        raise click.UsageError("nothing to change: give --partitions, --config or --unset")

    async def change(cluster: ClusterClient) -> None:
        if configs or unset:
            await alter_configs(cluster, [Resource(TOPIC, name)], configs, unset, validate_only=validate_only)
        if partitions is not None:
            await add_partitions(cluster, name, partitions, validate_only=validate_only)

    client.run(change)
    if client.as_json:
        print_json({"topic": name, "changed": not validate_only})
    else:
        echo(f"{name} {'could be changed' if validate_only else 'changed'}")


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=topic_names)
@click.option("--if-exists", is_flag=True, help="Succeed if the topic does not exist.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def delete(client: Client, names: tuple[str, ...], *, if_exists: bool, yes: bool) -> None:
    """Delete topics with all their records. It asks for confirmation.

    \b
      sordini topics delete orders
      sordini topics delete orders bills --yes --if-exists
    """
    from sordini.admin.topics.topic_requests import delete_topics

    if not is_confirmed(f"Delete {', '.join(names)} with all records?", yes=yes):
        raise Failure("nothing was deleted")
    gone = client.run(lambda cluster: delete_topics(cluster, names, if_exists=if_exists))
    report_each(client, gone, lambda row: f"{row['topic']} {'deleted' if row['deleted'] else 'does not exist'}")


@topics.command()
@click.argument(
    "wanted",
    metavar="TOPIC[:PARTITIONS]...",
    type=PARTITIONS,
    nargs=-1,
    required=True,
    shell_complete=topic_names,
)
@click.option(
    "--at", "at_ms", metavar="TIME", type=INSTANT, help="Also show the first record at or after a time (UTC)."
)
@click.option("--largest-timestamp", is_flag=True, help="Also show the record with the largest timestamp.")
@client_options
def offsets(
    client: Client, wanted: tuple[PartitionSelection, ...], *, at_ms: int | None, largest_timestamp: bool
) -> None:
    """Show the first and end offset of partitions, and the offset for a time.

    LATEST is the offset of the next record.

    \b
      sordini topics offsets orders
      sordini topics offsets orders:0,2-4 --at 2026-11-21T18:30
    """
    from sordini.admin.topics.topic_descriptions import topic_offsets

    if at_ms is not None and largest_timestamp:
        raise click.UsageError("--at and --largest-timestamp: give one of them")
    rows = client.run(lambda cluster: topic_offsets(cluster, wanted, at_ms, largest_timestamp=largest_timestamp))
    if client.as_json:
        print_json(rows)
        return
    head = ["TOPIC", "PARTITION", "EARLIEST", "LATEST"]
    cells = [[row["topic"], row["partition"], row["earliest_offset"], row["latest_offset"]] for row in rows]
    if at_ms is not None or largest_timestamp:
        head += ["FOUND", "ITS TIME"]
        for row, line in zip(rows, cells, strict=True):
            line += [row["offset"], None if row["timestamp"] is None else utc_text(row["timestamp"])]
    echo_lines(table(head, cells))


@topics.command("delete-records")
@click.argument("wanted", metavar="TOPIC[:PARTITIONS]", type=PARTITIONS, shell_complete=topic_names)
@click.option("--before", metavar="OFFSET", type=click.IntRange(min=0), help="Delete the records before this offset.")
@click.option(
    "--before-time", "before_ms", metavar="TIME", type=INSTANT, help="Delete the records older than this time (UTC)."
)
@click.option("--all", "everything", is_flag=True, help="Delete all records.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def delete_records(
    client: Client,
    wanted: PartitionSelection,
    *,
    before: int | None,
    before_ms: int | None,
    everything: bool,
    yes: bool,
) -> None:
    """Delete the oldest records of a topic. It asks for confirmation.

    Disk space is freed segment by segment.

    \b
      sordini topics delete-records orders --before-time 2026-11-01
      sordini topics delete-records orders:0 --before 5000
      sordini topics delete-records orders --all --yes
    """
    from sordini.admin.topics.topic_descriptions import delete_records_before

    if sum((before is not None, before_ms is not None, everything)) != 1:
        raise click.UsageError("say which records: one of --before, --before-time and --all")
    if not is_confirmed(f"Delete records of {wanted[0]}?", yes=yes):
        raise Failure("nothing was deleted")
    rows = client.run(lambda cluster: delete_records_before(cluster, wanted, before, before_ms))
    if client.as_json:
        print_json(rows)
    else:
        cells = [[row["topic"], row["partition"], row["earliest_offset"]] for row in rows]
        echo_lines(table(["TOPIC", "PARTITION", "EARLIEST NOW"], cells))


topics.add_command(pack)
topics.add_command(describe_pack)


def _plain_settings(configs: tuple[tuple[str, str, str], ...]) -> dict[str, str]:
    for key, sign, _ in configs:
        if sign:
            raise click.UsageError(f"{key}{sign}=...: a new topic has no value to change; write {key}=...")
    return {key: value for key, _, value in configs}


def _listed(cell: object) -> object:
    """A list of brokers as `0,1,2`."""
    return ",".join(map(str, cell)) or None if isinstance(cell, list) else cell


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
