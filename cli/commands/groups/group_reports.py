"""The output of `sordini groups`: a group with its lag and members, and the plan of a reset."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.groups.group_description import CONSUMER, DEAD, SHARE, describe_group
from sordini.admin.groups.group_offsets import offset_rows
from sordini.admin.groups.offset_reset import ResetPlan
from sordini.admin.groups.offset_reset_plan import PlannedReset, write_csv
from sordini.admin.shares.share_offsets import share_offset_rows
from sordini.cli.commands.groups.group_members import (
    host_text,
    labelled,
    member_paragraphs,
    member_rows,
    members_text,
    pending_moves,
)
from sordini.cli.common.output import print_json, table
from sordini.cli.common.terminal import echo, echo_data, echo_lines


async def describe_groups(cluster: ClusterClient, names: Sequence[str]) -> list[dict[str, Any]]:
    """Groups that must exist, each with its offsets, lag and members."""
    found = []
    for name in names:
        described = await describe_group(cluster, name)
        rows_of = share_offset_rows if described.kind == SHARE else offset_rows
        offsets = await rows_of(cluster, described)
        if described.state == DEAD and not offsets:
            raise Failure(f"group '{name}' does not exist; `sordini groups list` lists the groups")
        found.append(
            {
                "group": name,
                "type": described.kind,
                "state": described.state,
                "protocol": described.protocol_type or None,
                "assignor": described.assignor or None,
                "coordinator": described.coordinator,
                "group_epoch": described.epoch,
                "assignment_epoch": described.assignment_epoch,
                "offsets": offsets,
                "members": member_rows(described),
                "pending_moves": pending_moves(described.members) if described.kind == CONSUMER else None,
            }
        )
    return found


def group_text(group: dict[str, Any], *, has_members: bool = False) -> str:
    """The text of one group; with `has_members` a paragraph for each member instead of a line."""
    lines = [labelled("Group", group["group"]), labelled("Type", group["type"]), labelled("State", group["state"])]
    if group["assignor"]:
        lines.append(labelled("Assignor", group["assignor"]))
    if group["group_epoch"] is not None:
        lines.append(labelled("Epochs", _epochs(group["group_epoch"], group["assignment_epoch"])))
    lines += [labelled("Coordinator", group["coordinator"]), ""]
    if not group["offsets"]:
        lines.append("There are no offsets." if group["type"] == SHARE else "There are no committed offsets.")
    elif group["type"] == SHARE:
        lines.append(share_offsets_text(group["offsets"]))
    else:
        columns = ("topic", "partition", "committed_offset", "end_offset", "lag", "client_id")
        head = ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST"]
        rows = [[*(row[column] for column in columns), host_text(row["host"])] for row in group["offsets"]]
        lines.append(table(head, rows))
    if group["members"]:
        lines += ["", member_paragraphs(group) if has_members else members_text(group)]
    elif has_members:
        lines += ["", "There are no members."]
    return "\n".join(lines)


def share_offsets_text(rows: Sequence[dict[str, Any]]) -> str:
    """The partitions of a share group; MEMBERS is how many share each."""
    columns = ("topic", "partition", "start_offset", "end_offset", "lag", "members")
    return table(
        ["TOPIC", "PARTITION", "START", "END", "LAG", "MEMBERS"], [[row[one] for one in columns] for row in rows]
    )


def _epochs(group_epoch: int, assignment_epoch: int) -> str:
    behind = " (the target of the group's epoch is not computed yet)" if assignment_epoch < group_epoch else ""
    return f"group {group_epoch}, assignment {assignment_epoch}{behind}"


def print_reset_plan(group: str, lines: Sequence[PlannedReset], *, execute: bool, as_csv: bool, as_json: bool) -> None:
    """Print the plan, or the result, of a reset; notices go to stderr."""
    if as_json:
        print_json(
            {
                "group": group,
                "executed": execute,
                "offsets": [
                    {
                        "topic": line.partition.topic,
                        "partition": line.partition.partition,
                        "current_offset": line.current,
                        "wanted_offset": line.wanted,
                        "new_offset": line.new,
                        "lag_after": line.lag_after,
                        "clamped": line.is_clamped,
                    }
                    for line in lines
                ],
            }
        )
        return
    if as_csv:
        echo_data(write_csv(lines))
    else:
        rows = [[*line.partition, line.current, line.new, line.lag_after] for line in lines]
        echo_lines(table(["TOPIC", "PARTITION", "CURRENT", "NEW", "LAG AFTER"], rows))
    for line in lines:
        if line.is_clamped:
            end = "begins" if line.new > line.wanted else "ends"
            echo(f"Notice: {line.partition} {end} at {line.new}, not at {line.wanted}.", err=True)
    if not execute:
        echo("This is only a plan: nothing was changed. --execute commits it.", err=True)


def print_unknown_group(group: str, plan: ResetPlan, *, execute: bool) -> None:
    """Print a notice if the group of a plan did not exist."""
    if not plan.group_exists:
        did = "did not exist: it was created with these offsets" if execute else "does not exist: --execute creates it"
        echo(f"Notice: group '{group}' {did}.", err=True)
