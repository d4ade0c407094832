"""`sordini groups`: list and describe consumer groups, their rebalances, reset or delete their committed offsets."""

from __future__ import annotations

import click

from sordini.admin.failure import Failure
from sordini.admin.selections import PartitionSelection
from sordini.cli.commands.completion.names import group_names, topic_names
from sordini.cli.common.argument_types import DURATION, INSTANT, partitions_option
from sordini.cli.common.options import (
    Client,
    ClientGroup,
    client_options,
    is_confirmed,
    report_each,
    report_found,
    report_rows,
)
from sordini.cli.common.output import print_json
from sordini.cli.common.terminal import echo, echo_lines


@click.group(cls=ClientGroup)
def groups() -> None:
    """List and describe consumer groups, reset and delete their offsets.

    The members of a group share the partitions of its topics. The committed offset of a partition is how far the
    group has read it; the lag is the number of records after it.

    \b
      sordini groups list
      sordini groups describe billing
      sordini groups lag billing --watch
      sordini groups history billing
      sordini groups reset billing --topic orders --to-earliest
    """


@groups.command("list")
@click.option(
    "--state", "states", metavar="STATE", multiple=True, help="Only groups in this state, such as Stable or Empty."
)
@click.option(
    "--type", "types", metavar="TYPE", multiple=True, help="Only groups of this type: classic, consumer or share."
)
@client_options
def list_(client: Client, *, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """List the groups of the cluster.

    The members of a classic group assign partitions among themselves; in a consumer group (KIP-848) the broker does. In
    a share group (KIP-932) several members read one partition, record by record; `sordini share` has more of them.

    \b
      sordini groups list
      sordini groups list --state Empty
      sordini groups list --type consumer --state Reconciling
    """
    from sordini.admin.groups.group_requests import list_groups

    rows = client.run(lambda cluster: list_groups(cluster, states, types))
    report_rows(
        client,
        rows,
        ["GROUP", "STATE", "TYPE", "PROTOCOL", "COORDINATOR"],
        lambda row: [row["group"], row["state"], row["type"], row["protocol"] or None, row["coordinator"]],
        "There are no such groups. A consumer with a group id creates one.",
    )


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@click.option("--members", "has_members", is_flag=True, help="A paragraph for each member: all that is known of it.")
@client_options
def describe(client: Client, names: tuple[str, ...], *, has_members: bool) -> None:
    """Show a group's state, committed offsets, lag and members.

    While a consumer group (KIP-848) reconciles, partitions that are not yet where the target assignment has them are
    listed with the members that have them and get them. Of a share group, START is the first offset that is not done,
    and LAG how many records from there on are not. --json has all fields with and without --members.

    \b
      sordini groups describe billing
      sordini groups describe billing --members
    """
    from sordini.cli.commands.groups.group_reports import describe_groups, group_text

    found = client.run(lambda cluster: describe_groups(cluster, names))
    report_found(client, found, lambda group: group_text(group, has_members=has_members))


@groups.command()
@click.argument("names", metavar="[GROUP]...", nargs=-1, shell_complete=group_names)
@click.option(
    "--topic",
    "topics",
    metavar="TOPIC",
    multiple=True,
    shell_complete=topic_names,
    help="Only partitions of this topic.",
)
@click.option("--all", "has_all", is_flag=True, help="List partitions that have caught up, too.")
@click.option(
    "--checkpoint",
    "checkpoints",
    metavar="DIR",
    multiple=True,
    help="The lag of a query of Spark, by its checkpoint: a directory, or a URI such as s3://bucket/checkpoint.",
)
@click.option("--read-uncommitted", is_flag=True, help="Count records of open and aborted transactions as unread.")
@click.option("--watch", "-w", is_flag=True, help="Show it again and again, until Ctrl-C; with --json one line each.")
@click.option(
    "--interval",
    "interval_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    help="With --watch: how often.",
)
@click.option("--count", "count", metavar="N", type=click.IntRange(min=1), help="With --watch: end after N times.")
@client_options
def lag(
    client: Client,
    names: tuple[str, ...],
    *,
    topics: tuple[str, ...],
    has_all: bool,
    checkpoints: tuple[str, ...],
    read_uncommitted: bool,
    watch: bool,
    interval_s: float,
    count: int | None,
) -> None:
    """Show how far groups are behind, in records and in time, and when they will have caught up.

    Without a name it lists all groups, the one that is farthest behind first; with names, the partitions of each. LAG
    is the number of offsets up to the high watermark. APPENDED is how long ago the oldest unread record was appended
    to the log, OWN TIME how long ago by its own timestamp. IN/S and OUT/S are records appended and committed per
    second over the last minute, and OUTLOOK is what becomes of the lag if they stay. A share group has committed what
    is before its start offset; its LAG is the number of records from there on that are not done.

    Brokers of Apache Kafka do not know when a record was appended, nor rates: --watch measures rates itself.

    \b
      sordini groups lag
      sordini groups lag billing --watch
      sordini groups lag billing --topic orders --json
      sordini groups lag --checkpoint /var/lib/jobs/views/checkpoint
    """
    from sordini.cli.commands.groups.lag import LagRequest, show_lag, watch_lag

    request = LagRequest(names, checkpoints, frozenset(topics), committed_only=not read_uncommitted, has_all=has_all)
    if watch:
        watch_lag(client, request, interval_s, count)
    elif count is not None:
        raise click.UsageError("--count is for --watch")
    else:
        show_lag(client, request)


@groups.command()
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@click.option("--last", metavar="N", type=click.IntRange(min=1), help="Only the last N rebalances, each with details.")
@client_options
def history(client: Client, name: str, *, last: int | None) -> None:
    """Show a group's rebalances: when, why, how long, and what moved.

    Without --last it lists all that the coordinator remembers, and details of the last one. The coordinator knows the
    rebalances since it became the coordinator, up to sordini.group.rebalance.history.max. WAITED is the time from a
    member's JoinGroup to its assignment; until then a consumer has no partitions, or with a cooperative assignor
    keeps those that do not move.

    In a consumer group (KIP-848) a rebalance is a target assignment, numbered by its epoch. It ends when all members
    have reached it, or is overtaken by the next one. READY AFTER is the time until a member had reached it. Only
    partitions that move have a pause: WITHOUT OWNER is the time from the release by the former owner, or its end,
    until the partition was given to the next one.

    In a share group (KIP-932), whose members share partitions, the same numbers are of its targets. CHANGED is how many
    partitions members got and lost; the details have each with the member that it was taken from or given to.

    \b
      sordini groups history billing
      sordini groups history billing --last 3
    """
    from sordini.admin.groups.group_history import group_history
    from sordini.cli.commands.groups.history import history_text

    found = client.run(lambda cluster: group_history(cluster, name, last))
    if client.as_json:
        print_json(found)
    else:
        echo_lines(history_text(found, details=last or 1))


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=group_names)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def delete(client: Client, names: tuple[str, ...], *, yes: bool) -> None:
    """Delete groups with all their offsets. They must have no members. It asks for confirmation.

    \b
      sordini groups delete billing
    """
    from sordini.admin.groups.group_requests import delete_groups

    if not is_confirmed(f"Delete {', '.join(names)} with all offsets?", yes=yes):
        raise Failure("nothing was deleted")
    gone = client.run(lambda cluster: delete_groups(cluster, names))
    report_each(client, gone, lambda row: f"{row['group']} deleted")


@groups.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@partitions_option("The partitions.", required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def delete_offsets(client: Client, name: str, *, wanted: tuple[PartitionSelection, ...], yes: bool) -> None:
    """Delete a group's committed offsets of some topics. It asks for confirmation.

    \b
      sordini groups delete-offsets billing --topic orders
      sordini groups delete-offsets billing --topic orders:0,1
    """
    from sordini.admin.groups.group_offsets import delete_selected_offsets

    if not is_confirmed(f"Delete offsets of group {name}?", yes=yes):
        raise Failure("nothing was deleted")
    rows = client.run(lambda cluster: delete_selected_offsets(cluster, name, wanted))
    if client.as_json:
        print_json([{"topic": topic, "partition": partition, "deleted": True} for topic, partition in rows])
    else:
        echo(f"{name}: offsets deleted of {', '.join(map(str, rows))}")


@groups.command()
@click.argument("name", metavar="GROUP", shell_complete=group_names)
@partitions_option("The partitions, such as orders or orders:0,2-4.")
@click.option("--all-topics", is_flag=True, help="All partitions with a committed offset of the group.")
@click.option("--to-earliest", is_flag=True, help="To the first offset.")
@click.option("--to-latest", is_flag=True, help="To the end offset.")
@click.option("--to-current", is_flag=True, help="To the committed offset; to the end offset if there is none.")
@click.option("--to-offset", metavar="OFFSET", type=click.IntRange(min=0), help="To an offset.")
@click.option("--to-datetime", metavar="TIME", type=INSTANT, help="To the first record at or after a time (UTC).")
@click.option("--by-duration", metavar="DURATION", type=DURATION, help="Back by a time from now: 90s, 1h30m, PT1H30M.")
@click.option("--shift-by", metavar="COUNT", type=int, help="Forward by this many offsets, back if negative.")
@click.option("--from-file", metavar="CSV", help="To the offsets in a file of topic,partition,offset lines.")
@click.option("--execute", is_flag=True, help="Commit the new offsets. Without this the plan is only shown.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the plan as a file for --from-file.")
@client_options
def reset(
    client: Client,
    name: str,
    *,
    wanted: tuple[PartitionSelection, ...],
    all_topics: bool,
    execute: bool,
    as_csv: bool,
    **targets: bool | int | str | None,
) -> None:
    """Reset a group's offsets. It shows the plan; --execute commits it.

    The group must have no members; one that does not exist is created, with a notice. Offsets outside the log are
    clamped to its first or end offset, with a notice. If a partition has no record at or after the requested time, it
    goes to its end offset.

    \b
      sordini groups reset billing --topic orders --to-earliest
      sordini groups reset billing --topic orders:0,1 --shift-by -100 --execute
      sordini groups reset billing --all-topics --by-duration 1h --execute
      sordini groups reset billing --all-topics --to-current --csv > offsets.csv
      sordini groups reset billing --from-file offsets.csv --execute
    """
    from sordini.admin.groups.offset_reset import ResetRequest, reset_offsets
    from sordini.cli.commands.groups.group_reports import print_reset_plan, print_unknown_group
    from sordini.cli.common.input_files import read_text

    given = {target: value for target, value in targets.items() if value is not None and value is not False}
    if len(given) != 1:
        names = ", ".join(f"--{target.replace('_', '-')}" for target in targets)
        raise click.UsageError(f"give exactly one target: {names}")
    ((target, value),) = given.items()
    if target == "from_file" and (wanted or all_topics):
        raise click.UsageError("--from-file names the partitions: do not give --topic or --all-topics")
    if target != "from_file" and bool(wanted) == all_topics:
        raise click.UsageError("name the partitions: --topic TOPIC[:PARTITIONS] or --all-topics")
    if as_csv and client.as_json:
        raise click.UsageError("--csv and --json: give one of them")
    request = ResetRequest(name, wanted, target, read_text(str(value)) if target == "from_file" else value)
    plan = client.run(lambda cluster: reset_offsets(cluster, request, execute=execute))
    print_reset_plan(name, plan.lines, execute=execute, as_csv=as_csv, as_json=client.as_json)
    print_unknown_group(name, plan, execute=execute)
