"""The members of a group in the output of `sordini groups describe`, and which of them waits for which. Pure.

In a consumer group each member has a target and reaches it on its own: a partition changes hands when the member that
has it has given it up. A *pending move* is a partition that is not where the targets have it: `from` is the member that
has it, None when it is free, and `to` the member that is to have it, None when it is no member's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sordini.admin.groups.group_description import SHARE, GroupDescription, GroupMember
from sordini.cli.common.output import table
from sordini.protocol.printable import shown
from sordini.protocol.types import TopicPartition

LABEL_WIDTH = 13


def member_rows(described: GroupDescription) -> list[dict[str, Any]]:
    """The members as JSON has them."""
    return [
        {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "client_id": member.client_id,
            "host": member.host,
            "protocol": member.protocol,
            "member_epoch": member.epoch,
            "subscribed_topics": member.subscribed_topics,
            "subscribed_regex": member.subscribed_regex,
            "partitions": _rows(member.partitions),
            "target_partitions": _rows(member.target),
        }
        for member in described.members
    ]


def pending_moves(members: Sequence[GroupMember]) -> list[dict[str, Any]]:
    """The partitions of a consumer group that are not where they are to be, in order."""
    owners = {partition: member.member_id for member in members for partition in member.partitions or ()}
    targets = {partition: member.member_id for member in members for partition in member.target or ()}
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "from": owners.get(partition),
            "to": targets.get(partition),
        }
        for partition in sorted(owners.keys() | targets.keys())
        if owners.get(partition) != targets.get(partition)
    ]


def members_text(group: dict[str, Any]) -> str:
    """A table of the members, and of a consumer group the moves that are pending."""
    columns, heads = ["instance_id", "client_id"], ["INSTANCE", "CLIENT"]
    if group["pending_moves"] is not None:
        columns += ["protocol", "member_epoch"]
        heads += ["PROTOCOL", "EPOCH"]
    elif group["type"] == SHARE:
        columns, heads = ["client_id", "member_epoch"], ["CLIENT", "EPOCH"]
    rows = [
        [
            member["member_id"],
            *(member[column] for column in columns),
            host_text(member["host"]),
            partitions_text(member["partitions"]),
        ]
        for member in group["members"]
    ]
    text = table(["MEMBER", *heads, "HOST", "ASSIGNED"], rows)
    if not group["pending_moves"]:
        return text
    names = _names(group["members"])
    moves = [
        [partitions_text([move]), *(move[side] and names[move[side]] for side in ("from", "to"))]
        for move in group["pending_moves"]
    ]
    return "\n\n".join([text, _moves_sentence(len(moves)), table(["PARTITION", "FROM", "TO"], moves)])


def member_paragraphs(group: dict[str, Any]) -> str:
    """All that is known of each member."""
    names = _names(group["members"])
    return "\n\n".join(_paragraph(member, group["pending_moves"], names) for member in group["members"])


def partitions_text(rows: Iterable[dict[str, Any]] | None) -> str | None:
    """`orders:0,1 bills:2`; None without partitions."""
    topics: dict[str, list[str]] = {}
    for row in rows or ():
        topics.setdefault(row["topic"], []).append(str(row["partition"]))
    return " ".join(f"{topic}:{','.join(partitions)}" for topic, partitions in topics.items()) or None


def host_text(host: str | None) -> str | None:
    """A client's address without the slash with which Java writes one."""
    return None if host is None else host.removeprefix("/")


def labelled(label: str, value: object) -> str:
    """A line of a paragraph; None is a dash."""
    return f"{label:{LABEL_WIDTH}}{'-' if value is None else shown(str(value))}"


def _paragraph(member: dict[str, Any], moves: Sequence[dict[str, Any]] | None, names: dict[str, str]) -> str:
    lines = [labelled("Member", member["member_id"])]
    lines += [
        labelled(label, member[field])
        for label, field in (("Instance", "instance_id"), ("Rack", "rack_id"))
        if member[field] is not None
    ]
    lines.append(labelled("Client", f"{member['client_id']} at {host_text(member['host'])}"))
    epoch = "" if member["member_epoch"] is None else f", epoch {member['member_epoch']}"
    lines.append(labelled("Protocol", f"{member['protocol'] or 'unknown'}{epoch}"))
    if member["subscribed_topics"] or member["subscribed_regex"] is None:
        lines.append(labelled("Subscribed", " ".join(member["subscribed_topics"] or ()) or None))
    if member["subscribed_regex"] is not None:
        lines.append(labelled("Regex", member["subscribed_regex"]))
    lines.append(labelled("Assigned", partitions_text(member["partitions"])))
    if moves is None:
        return "\n".join(lines)
    lines.append(labelled("Target", partitions_text(member["target_partitions"])))
    member_id = member["member_id"]
    lines += [
        labelled("To revoke", _with_other_side(move, "to", names, "for no member"))
        for move in moves
        if move["from"] == member_id
    ]
    lines += [
        labelled("Waits for", _with_other_side(move, "from", names, "free, with the next heartbeat"))
        for move in moves
        if move["to"] == member_id
    ]
    return "\n".join(lines)


def _with_other_side(move: dict[str, Any], side: str, names: dict[str, str], without: str) -> str:
    """`orders:2 (from worker-1)`."""
    other = without if move[side] is None else f"{'for' if side == 'to' else 'from'} {names[move[side]]}"
    return f"{partitions_text([move])} ({other})"


def _moves_sentence(count: int) -> str:
    """The sentence above the table of pending moves."""
    are, each = ("1 partition is", "it") if count == 1 else (f"{count} partitions are", "each")
    return f"{are} yet to move: TO gets {each} once FROM has given it up."


def _names(members: Iterable[dict[str, Any]]) -> dict[str, str]:
    """By member id, the instance id of those that have one."""
    return {member["member_id"]: member["instance_id"] or member["member_id"] for member in members}


def _rows(partitions: Iterable[TopicPartition] | None) -> list[dict[str, Any]] | None:
    if partitions is None:
        return None
    return [{"topic": topic, "partition": partition} for topic, partition in partitions]
