"""`sordini share`: list and describe share groups, reset and delete their offsets, copy dead letters back."""

from __future__ import annotations

import click

from sordini.admin.failure import Failure
from sordini.admin.selections import PartitionSelection
from sordini.cli.commands.completion.names import share_group_names, topic_names
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
from sordini.cli.common.terminal import echo_lines

DEAD_LETTERS_MAX = 10_000
"""The default of --limit."""


@click.group(cls=ClientGroup)
def share() -> None:
    """List and describe share groups, reset and delete their offsets, copy dead letters back.

    The members of a share group (KIP-932) work on a topic together, as on a queue: each record is locked for one
    member, which accepts, releases or rejects it. START is the first offset of a partition that is not done.

    \b
      sordini share list
      sordini share describe billing
      sordini share offsets billing
      sordini share in-flight billing
      sordini share reset billing --topic orders --to-earliest
      sordini share redrive dlq.orders
    """


@share.command("list")
@click.option(
    "--state", "states", metavar="STATE", multiple=True, help="Only groups in this state, such as Stable or Empty."
)
@client_options
def list_(client: Client, *, states: tuple[str, ...]) -> None:
    """List the share groups of the cluster.

    \b
      sordini share list
      sordini share list --state Empty
    """
    from sordini.admin.groups.group_requests import list_groups

    rows = client.run(lambda cluster: list_groups(cluster, states, ("share",)))
    report_rows(
        client,
        rows,
        ["GROUP", "STATE", "COORDINATOR"],
        lambda row: [row["group"], row["state"], row["coordinator"]],
        "There are no such share groups. A share consumer creates one.",
    )


@share.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=share_group_names)
@click.option("--members", "has_members", is_flag=True, help="A paragraph for each member: all that is known of it.")
@client_options
def describe(client: Client, names: tuple[str, ...], *, has_members: bool) -> None:
    """Show a share group's state, start offsets, lag and members, as `sordini groups describe` does.

    \b
      sordini share describe billing
      sordini share describe billing --members
    """
    from sordini.cli.commands.groups.group_reports import group_text
    from sordini.cli.commands.share.share_reports import describe_share_groups

    found = client.run(lambda cluster: describe_share_groups(cluster, names))
    report_found(client, found, lambda group: group_text(group, has_members=has_members))


@share.command()
@click.argument("name", metavar="GROUP", shell_complete=share_group_names)
@client_options
def offsets(client: Client, name: str) -> None:
    """Show where each partition's unfinished records begin, and how many they are.

    LAG is the number of records from START on that are not done, as the broker counts them (KIP-1226); a dash if it
    does not. Records that wait behind the start and are done are not counted.

    \b
      sordini share offsets billing
    """
    from sordini.cli.commands.groups.group_reports import share_offsets_text
    from sordini.cli.commands.share.share_reports import offsets_of

    rows = client.run(lambda cluster: offsets_of(cluster, name))
    if client.as_json:
        print_json(rows)
    else:
        echo_lines(share_offsets_text(rows) if rows else f"Share group {name} has no offsets.")


@share.command("in-flight")
@click.argument("name", metavar="GROUP", shell_complete=share_group_names)
@partitions_option("Only these partitions, such as orders or orders:0,2-4.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=1_000,
    show_default=True,
    help="Rows of a partition.",
)
@click.option("--all", "has_all", is_flag=True, help="Also records that are done, behind one that is not.")
@client_options
def in_flight(client: Client, name: str, *, wanted: tuple[PartitionSelection, ...], limit: int, has_all: bool) -> None:
    """Show the records that are in flight: who holds them, for how long, and how often they were delivered.

    An acquired record is locked for one member; LOCKED is since when, LEFT how long the lock lasts yet. An available
    one with deliveries was released, or its lock ended, and is delivered again up to the limit. Brokers of Apache
    Kafka do not tell.

    \b
      sordini share in-flight billing
      sordini share in-flight billing --topic orders:0 --json
    """
    from sordini.admin.shares.in_flight import run_rows
    from sordini.cli.commands.share.share_reports import in_flight_of, in_flight_text

    found = client.run(lambda cluster: in_flight_of(cluster, name, wanted, limit, has_all=has_all))
    if client.as_json:
        print_json(run_rows(found))
    else:
        echo_lines(in_flight_text(name, found))


@share.command()
@click.argument("name", metavar="GROUP", shell_complete=share_group_names)
@partitions_option("The partitions, such as orders or orders:0,2-4.")
@click.option("--all-topics", is_flag=True, help="All partitions with an offset of the group.")
@click.option("--to-earliest", is_flag=True, help="To the first offset.")
@click.option("--to-latest", is_flag=True, help="To the end offset.")
@click.option("--to-offset", metavar="OFFSET", type=click.IntRange(min=0), help="To an offset.")
@click.option("--to-datetime", metavar="TIME", type=INSTANT, help="To the first record at or after a time (UTC).")
@click.option("--by-duration", metavar="DURATION", type=DURATION, help="Back by a time from now: 90s, 1h30m, PT1H30M.")
@click.option("--execute", is_flag=True, help="Set the new offsets. Without this the plan is only shown.")
@client_options
def reset(
    client: Client,
    name: str,
    *,
    wanted: tuple[PartitionSelection, ...],
    all_topics: bool,
    execute: bool,
    **targets: bool | int | None,
) -> None:
    """Reset a share group's start offsets. It shows the plan; --execute carries it out.

    The group must have no members. All from the new offset on is delivered, also what was done before, and delivery
    counts begin again. Offsets outside the log are clamped to its first or end offset, with a notice. If a partition
    has no record at or after the requested time, it goes to its end offset.

    \b
      sordini share reset billing --topic orders --to-earliest
      sordini share reset billing --topic orders:0,1 --to-offset 1000 --execute
      sordini share reset billing --all-topics --to-datetime 2026-11-29T18:30 --execute
    """
    from sordini.admin.groups.offset_reset import ResetRequest
    from sordini.admin.shares.share_reset import reset_share_offsets
    from sordini.cli.commands.groups.group_reports import print_reset_plan, print_unknown_group

    given = {target: value for target, value in targets.items() if value is not None and value is not False}
    if len(given) != 1:
        names = ", ".join(f"--{target.replace('_', '-')}" for target in targets)
        raise click.UsageError(f"give exactly one target: {names}")
    if bool(wanted) == all_topics:
        raise click.UsageError("name the partitions: --topic TOPIC[:PARTITIONS] or --all-topics")
    ((target, value),) = given.items()
    request = ResetRequest(name, wanted, target, value)
    plan = client.run(lambda cluster: reset_share_offsets(cluster, request, execute=execute))
    print_reset_plan(name, plan.lines, execute=execute, as_csv=False, as_json=client.as_json)
    print_unknown_group(name, plan, execute=execute)


@share.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=share_group_names)
@click.option(
    "--topic",
    "-t",
    "topics",
    metavar="TOPIC",
    multiple=True,
    required=True,
    shell_complete=topic_names,
    help="The topic. Can be repeated.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def delete_offsets(client: Client, name: str, *, topics: tuple[str, ...], yes: bool) -> None:
    """Let a share group without members forget topics, with all that is known of their records. It asks first.

    A member that reads the topic again begins where share.auto.offset.reset says.

    \b
      sordini share delete-offsets billing --topic orders
    """
    from sordini.admin.shares.share_reset import forget_topics

    if not is_confirmed(f"Delete offsets of share group {name}?", yes=yes):
        raise Failure("nothing was deleted")
    rows = client.run(lambda cluster: forget_topics(cluster, name, topics))
    report_each(client, rows, lambda row: f"{name}: offsets of {row['topic']} deleted")


@share.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True, shell_complete=share_group_names)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation. Required without a terminal.")
@client_options
def delete(client: Client, names: tuple[str, ...], *, yes: bool) -> None:
    """Delete share groups with all their offsets. They must have no members. It asks for confirmation.

    \b
      sordini share delete billing
    """
    from sordini.admin.shares.share_reset import delete_share_groups

    if not is_confirmed(f"Delete {', '.join(names)} with all offsets?", yes=yes):
        raise Failure("nothing was deleted")
    gone = client.run(lambda cluster: delete_share_groups(cluster, names))
    report_each(client, gone, lambda row: f"{row['group']} deleted")


@share.command()
@click.argument("topic", metavar="DEAD_LETTER_TOPIC", shell_complete=topic_names)
@click.option(
    "--group", "group", metavar="GROUP", shell_complete=share_group_names, help="Only dead letters of this group."
)
@click.option("--reason", metavar="TEXT", help="Only those with this text in their reason, such as rejected.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    default=DEAD_LETTERS_MAX,
    show_default=True,
    help="At most so many; the next redrive continues behind them.",
)
@click.option("--execute", is_flag=True, help="Copy them. Without this they are only counted.")
@client_options
def redrive(client: Client, topic: str, *, group: str | None, reason: str | None, limit: int, execute: bool) -> None:
    """Copy dead letters back to the partitions that they came from. It shows which; --execute copies them.

    Each is copied exactly once, whichever filters are given, and also if the command is killed: the copies and how far
    the dead letters are done are committed together, as offsets of groups named sordini-redrive.TOPIC. It ends with
    the dead letters that are there when it begins. A dead letter without its record
    (errors.deadletterqueue.copy.record.enable=false) is looked up where it was. --timeout is for each step.

    The copies are new records at the end of their partition, without the headers of the dead letter. Every group that
    reads the topic gets them.

    \b
      sordini share redrive dlq.orders
      sordini share redrive dlq.orders --group billing --reason rejected
      sordini share redrive dlq.orders --limit 100 --execute
    """
    from sordini.admin.shares.dead_letters import LetterFilter
    from sordini.admin.shares.redrive import RedriveRequest
    from sordini.cli.commands.share.redriving import execute_redrive, preview_redrive

    if "" in (group, reason):
        raise click.UsageError("the text of --group or --reason is empty")
    request = RedriveRequest(topic, LetterFilter(group, reason), limit)
    if execute:
        execute_redrive(client, request)
    else:
        preview_redrive(client, request)
