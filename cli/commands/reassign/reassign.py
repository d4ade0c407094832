"""`sordini reassign`: move partitions to other brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from sordini.admin.failure import Failure
from sordini.cli.commands.completion.names import topic_names
from sordini.cli.common.argument_types import NUMBERS
from sordini.cli.common.options import Client, ClientGroup, client_options, report_each, report_rows
from sordini.cli.common.output import print_json, table
from sordini.cli.common.polling import after_wait_text, poll_until, wait_option
from sordini.cli.common.terminal import echo, echo_lines
from sordini.protocol.printable import counted

if TYPE_CHECKING:
    from sordini.admin.cluster_client import ClusterClient
    from sordini.cli.commands.reassign.reassignment_plan import ReassignmentPlan

plan_argument = click.argument("path", metavar="PLAN")
preserve_option = click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")


@click.group(cls=ClientGroup)
def reassign() -> None:
    """Move partitions to other brokers.

    A plan is a file in the JSON format of Apache Kafka's reassignment tool. A partition that is being reassigned has
    the old and the new replicas until the new ones have caught up; then the old ones are deleted.

    \b
      sordini reassign generate orders --brokers 2,3,4 > plan.json
      sordini reassign execute plan.json --throttle 50000000
    """


@reassign.command()
@click.argument("names", metavar="[TOPIC]...", nargs=-1, shell_complete=topic_names)
@click.option("--all", "everything", is_flag=True, help="Every topic of the cluster, internal ones included.")
@click.option(
    "--from-broker",
    "leaving",
    metavar="ID",
    type=click.IntRange(min=0),
    multiple=True,
    help="Move only the replicas of this broker, which may be down. Can be repeated.",
)
@click.option(
    "--brokers",
    metavar="IDS",
    type=NUMBERS,
    help="Brokers that get replicas, such as 1,3-5.  [default: all live brokers]",
)
@click.option(
    "--replication-factor",
    "-r",
    metavar="COUNT",
    type=click.IntRange(1, 32767),
    help="Replicas of each partition.  [default: as many as now]",
)
@click.option("--ignore-racks", is_flag=True, help="Place replicas as if no broker had a rack.")
@click.option("--current", is_flag=True, help="Print the current assignment: a plan to go back to.")
@client_options
def generate(
    client: Client,
    names: tuple[str, ...],
    *,
    everything: bool,
    leaving: tuple[int, ...],
    brokers: tuple[int, ...] | None,
    replication_factor: int | None,
    ignore_racks: bool,
    current: bool,
) -> None:
    """Print a plan that spreads topics over brokers, or moves all replicas off a broker; nothing is moved yet.

    With --from-broker every replica of that broker goes to another broker, if possible in another rack than the
    partition's other replicas, and to the brokers with the fewest replicas and leaders. All other replicas stay. The
    command fails if there are not enough brokers, or no replica is to be moved.

    \b
      sordini reassign generate orders bills --current > before.json
      sordini reassign generate orders bills --brokers 2,3,4 > plan.json
      sordini reassign generate --from-broker 1 --all > plan.json
    """
    from sordini.cli.commands.reassign.reassign_requests import all_names, current_plan, drain_plan, new_plan
    from sordini.cli.commands.reassign.reassignment_plan import plan_json

    if bool(names) is everything:
        raise click.UsageError("name topics, or give --all")
    if leaving and (current or replication_factor is not None):
        raise click.UsageError(
            "--from-broker keeps the number of replicas: do not give --replication-factor or --current"
        )
    if both := sorted(set(leaving) & set(brokers or ())):
        raise click.UsageError(f"broker {both[0]} is in --from-broker and in --brokers")

    async def planned(cluster: ClusterClient) -> ReassignmentPlan:
        if leaving:
            return await drain_plan(cluster, None if everything else names, leaving, brokers, ignore_racks=ignore_racks)
        wanted = await all_names(cluster) if everything else names
        if current:
            return await current_plan(cluster, wanted)
        return await new_plan(cluster, wanted, brokers, replication_factor, ignore_racks=ignore_racks)

    print_json(plan_json(client.run(lambda cluster: cluster.retry(lambda: planned(cluster)))))


@reassign.command()
@plan_argument
@click.option(
    "--throttle",
    "bytes_per_second",
    metavar="BYTES",
    type=click.IntRange(min=1),
    help="Limit replication of the moved partitions to this many bytes a second per broker, until they have moved.",
)
@click.option(
    "--no-wait", is_flag=True, help="Return once the reassignment has begun; `verify` shows when it is complete."
)
@preserve_option
@client_options
def execute(
    client: Client, path: str, *, bytes_per_second: int | None, no_wait: bool, preserve_throttles: bool
) -> None:
    """Reassign the partitions of a plan, and show the progress until all have moved.

    Partitions that have moved or are moving are recognised; those moving to other brokers are redirected to the plan's.
    Ctrl-C ends the command, not the reassignment: run the same command again to watch it, or `cancel` to undo it. Once
    no partition of the cluster is being reassigned, throttles are removed as by `verify`, including earlier ones.
    --timeout is for each response of the cluster, not for the whole.

    \b
      sordini reassign execute plan.json --throttle 50000000
    """
    from sordini.cli.commands.reassign.plan_execution import ExecutionOptions, execute_plan

    plan = _read(path)
    execute_plan(
        client,
        plan,
        ExecutionOptions(bytes_per_second, is_watched=not no_wait, removes_throttles=not preserve_throttles),
    )


@reassign.command()
@plan_argument
@preserve_option
@wait_option
@client_options
def verify(client: Client, path: str, *, preserve_throttles: bool, wait_s: float) -> None:
    """Show the progress of a plan; the exit code is 0 when it is complete. `execute` waits for that by itself.

    Once no partition of the cluster is being reassigned, throttles are removed: those of the plan's topics, and the
    rates of all brokers. With --wait the command checks again until the plan is complete, and shows the last result.

    A partition is done, moving, diverted (it is being moved to other brokers than the plan's), other (it is on other
    brokers) or missing.

    \b
      sordini reassign verify plan.json
      sordini reassign verify plan.json --wait 3600
    """
    from sordini.cli.commands.reassign.reassign_requests import plan_states, remove_throttles

    plan = _read(path)

    async def fetch_states(cluster: ClusterClient) -> list[dict[str, Any]]:
        rows, is_moving = await plan_states(cluster, plan)
        if not is_moving and not preserve_throttles:
            await remove_throttles(cluster, plan)
        return rows

    rows = poll_until(client, wait_s, fetch_states, lambda rows: all(row["state"] == "done" for row in rows))
    if client.as_json:
        print_json(rows)
    else:
        cells = [[_name(row), row["state"], _listed(row["target"]), _listed(row["replicas"])] for row in rows]
        echo_lines(table(["PARTITION", "STATE", "TARGET", "REPLICAS"], cells))
    open_ = [row for row in rows if row["state"] != "done"]
    if open_:
        raise Failure(f"{len(open_)} of {counted(len(rows), 'partition')} not reassigned{after_wait_text(wait_s)}")


@reassign.command()
@click.argument("path", metavar="[PLAN]", required=False)
@click.option("--all", "everything", is_flag=True, help="All reassignments in the cluster.")
@preserve_option
@client_options
def cancel(client: Client, path: str | None, *, everything: bool, preserve_throttles: bool) -> None:
    """Cancel reassignments: partitions keep their old replicas.

    New replicas that were being added are deleted. Partitions that have moved stay where they are; only a plan with the
    former assignment moves them back.

    \b
      sordini reassign cancel plan.json
      sordini reassign cancel --all
    """
    from sordini.cli.commands.reassign.reassign_requests import (
        alter_reassignments,
        list_reassignments,
        remove_throttles,
    )

    if (path is None) is not everything:
        raise click.UsageError("name a plan, or give --all")
    plan = {} if path is None else _read(path)

    async def undo(cluster: ClusterClient) -> list[dict[str, Any]]:
        moving = await list_reassignments(cluster)
        wanted = [one for one in moving if everything or one in plan]
        rows = await alter_reassignments(cluster, dict.fromkeys(wanted)) if wanted else []
        if len(wanted) == len(moving) and not preserve_throttles:
            await remove_throttles(cluster, {*plan, *wanted})
        return rows

    rows = client.run(undo)
    report_each(client, rows, lambda row: f"{_name(row)} cancelled")
    if not rows and not client.as_json:
        echo("none of these partitions is being reassigned", err=True)


@reassign.command("list")
@client_options
def list_moves(client: Client) -> None:
    """List the partitions that are being reassigned.

    \b
      sordini reassign list
    """
    from sordini.cli.commands.reassign.reassign_requests import list_reassignments

    rows = list(client.run(list_reassignments).values())
    report_rows(
        client,
        rows,
        ["PARTITION", "REPLICAS", "ADDING", "REMOVING"],
        lambda row: [_name(row), *(_listed(row[key]) for key in ("replicas", "adding", "removing"))],
        "no partition is being reassigned",
    )


def _read(path: str) -> ReassignmentPlan:
    from sordini.cli.commands.reassign.reassignment_plan import read_plan
    from sordini.cli.common.input_files import read_text

    try:
        return read_plan(read_text(path))
    except ValueError as error:
        raise Failure(f"{path}: {error}") from None


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def _listed(brokers: Sequence[int] | None) -> str | None:
    return ",".join(map(str, brokers)) if brokers else None
