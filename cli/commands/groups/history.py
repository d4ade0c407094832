"""The rebalances of a group as `sordini groups history` reports them: asked of its coordinator, and made readable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sordini.broker.clock import utc_text
from sordini.cli.broker_connection import NotServed
from sordini.cli.cluster_client import ClusterClient, check
from sordini.cli.commands.groups.group_requests import check_group
from sordini.cli.common.options import Failure
from sordini.cli.common.output import table
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    PartitionMoveRow,
    RebalanceCauseRow,
    RebalanceMemberRow,
    RebalanceRow,
)
from sordini.protocol.printable import shown

CAUSES: Final = {
    0: ("unknown", "unknown"),
    1: ("member_joined", "joined"),
    2: ("member_left", "left"),
    3: ("session_timeout", "session timeout"),
    4: ("rebalance_timeout", "poll timeout: did not join again in time"),
    5: ("sync_timeout", "did not fetch its assignment in time"),
    6: ("subscription_changed", "subscription changed"),
    7: ("metadata_changed", "metadata changed"),
    8: ("leader_rejoined", "leader joined again"),
    9: ("static_member_replaced", "static member restarted"),
    10: ("removed_by_admin", "removed by an administrator"),
    11: ("partitions_added", "leader found new partitions"),
    12: ("assignment_not_written", "assignment not written"),
    13: ("group_too_large", "more members than group.max.size"),
}
"""By number (`RebalanceCause` of the broker): the name in JSON and in metrics, and the words in tables."""


async def group_history(cluster: ClusterClient, group: str, last: int | None) -> dict[str, Any]:
    """The rebalances of a group, oldest first, as JSON has them. Raises Failure for a broker that keeps none."""

    async def attempt() -> DescribeGroupHistoryResponse:
        link = await cluster.coordinator(group)
        request = DescribeGroupHistoryRequest(group_id=group, rebalances_max=-1 if last is None else last)
        try:
            answer: DescribeGroupHistoryResponse = await link.ask(request)
        except NotServed:
            raise Failure(
                f"the coordinator of group '{group}' at {link.address} keeps no history of rebalances: it is an older "
                "Sordini, or another broker"
            ) from None
        if answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            check_group(group, answer.error_code, answer.error_message)
        check(f"group '{group}'", answer.error_code, answer.error_message)
        if not answer.remembered_max:
            raise Failure(
                f"the coordinator of group '{group}' at {link.address} remembers no rebalances: "
                "sordini.group.rebalance.history.max is 0 there"
            )
        return answer

    answer = await cluster.retry(attempt)
    return {
        "group": group,
        "since": _time(answer.since_at_ms),
        "remembered_max": answer.remembered_max,
        "rebalances": [_rebalance(row) for row in answer.rebalances],
    }


def _rebalance(row: RebalanceRow) -> dict[str, Any]:
    return {
        "began": _time(row.began_at_ms),
        "ended": _time(row.ended_at_ms),
        "duration_ms": _known(row.duration_ms),
        "generation_before": row.generation_before,
        "generation_after": row.generation_after,
        "assignor": row.protocol_name,
        "causes": [_cause(cause) for cause in row.causes],
        "causes_omitted": row.causes_omitted,
        "members": [_member(member) for member in row.members],
        "members_omitted": row.members_omitted,
        "moves": [_move(move) for move in row.moves] if row.partitions_known else None,
        "moves_omitted": row.moves_omitted,
    }


def _cause(row: RebalanceCauseRow) -> dict[str, Any]:
    return {
        "cause": CAUSES[row.cause][0] if row.cause in CAUSES else f"cause_{row.cause}",
        "at": _time(row.at_ms),
        "member_id": row.member_id or None,
        "instance_id": row.group_instance_id,
        "client_id": row.client_id or None,
        "host": row.client_host or None,
        "detail": row.detail or None,
    }


def _member(row: RebalanceMemberRow) -> dict[str, Any]:
    return {
        "member_id": row.member_id,
        "instance_id": row.group_instance_id,
        "client_id": row.client_id,
        "host": row.client_host,
        "partitions": _known(row.partitions),
        "waited_ms": _known(row.waited_ms),
    }


def _move(row: PartitionMoveRow) -> dict[str, Any]:
    return {"topic": row.topic, "partition": row.partition, "from": row.source, "to": row.target}


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _time(at_ms: int) -> str | None:
    return None if at_ms < 0 else utc_text(at_ms)


def history_text(found: dict[str, Any], *, details: int) -> str:
    """The table of all rebalances, and the details of the last ones; every text of a client is escaped."""
    rebalances = found["rebalances"]
    count = len(rebalances)
    head = (
        f"group {shown(found['group'])}: {count} rebalance{'' if count == 1 else 's'}, known since {found['since']} "
        f"(at most {found['remembered_max']} are remembered)"
    )
    if not rebalances:
        return f"{head}\nIts coordinator has seen no rebalance since then. An earlier coordinator may have."
    rows = [_table_row(row) for row in rebalances]
    text = [head, table(["BEGAN", "TOOK", "GENERATION", "MEMBERS", "MOVED", "WHY"], rows)]
    text += [_details(row) for row in rebalances[max(count - details, 0) :]]
    return "\n\n".join(text)


def _table_row(row: dict[str, Any]) -> list[object]:
    first, more = (row["causes"] or [None])[0], len(row["causes"]) + row["causes_omitted"] - 1
    why = "unknown" if first is None else _why(first)
    moves = row["moves"]
    return [
        row["began"],
        "in progress" if row["ended"] is None else _seconds(row["duration_ms"]),
        f"{row['generation_before']} -> {row['generation_after']}",
        len(row["members"]) + row["members_omitted"],
        None if moves is None or row["ended"] is None else len(moves) + row["moves_omitted"],
        why if more < 1 else f"{why} (and {more} more)",
    ]


def _details(row: dict[str, Any]) -> str:
    state = "in progress" if row["ended"] is None else f"took {_seconds(row['duration_ms'])}"
    generations = f"generation {row['generation_before']} -> {row['generation_after']}"
    text = [f"{row['began']}: {generations}, {state}"]
    causes = [
        [cause["at"], _cause_words(cause), _who(cause), cause["host"], cause["detail"]] for cause in row["causes"]
    ]
    text.append(_with_omitted(["AT", "CAUSE", "MEMBER", "HOST", "DETAIL"], causes, row["causes_omitted"], "causes"))
    members = [
        [_who(member), member["host"], member["partitions"], _seconds(member["waited_ms"])] for member in row["members"]
    ]
    if members:
        heads = ["MEMBER", "HOST", "PARTITIONS", "WAITED"]
        text.append(_with_omitted(heads, members, row["members_omitted"], "members"))
    if row["ended"] is None:
        return "\n\n".join(text)
    if row["moves"] is None:
        text.append("Which partitions moved is not known: the assignments are no consumers', or too large to compare.")
    elif row["moves"]:
        moves = [[f"{move['topic']}:{move['partition']}", move["from"], move["to"]] for move in row["moves"]]
        text.append(_with_omitted(["PARTITION", "FROM", "TO"], moves, row["moves_omitted"], "partitions"))
    else:
        text.append("No partition moved.")
    return "\n\n".join(text)


def _with_omitted(head: Sequence[str], rows: Sequence[Sequence[object]], omitted: int, what: str) -> str:
    text = table(head, rows)
    return text if not omitted else f"{text}\nand {omitted} more {what}"


def _why(cause: dict[str, Any]) -> str:
    """`joined: worker-1 (consumer poll timeout has expired.)`."""
    words = _cause_words(cause)
    if cause["member_id"] is not None:
        words += f": {_who(cause)}"
    return words if cause["detail"] is None else f"{words} ({cause['detail']})"


def _cause_words(cause: dict[str, Any]) -> str:
    return next((words for name, words in CAUSES.values() if name == cause["cause"]), str(cause["cause"]))


def _who(member: dict[str, Any]) -> str | None:
    name: str | None = member["instance_id"] or member["member_id"]
    return name


def _seconds(duration_ms: int | None) -> str | None:
    return None if duration_ms is None else f"{duration_ms / 1000:.3f} s"
