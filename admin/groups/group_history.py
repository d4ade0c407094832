"""The rebalances of a group, requested from its coordinator, as rows of names and times."""

from __future__ import annotations

from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.failure import Failure
from sordini.admin.groups.group_requests import check_group
from sordini.client.errors import NotServed, check
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_group_history import (
    DescribeGroupHistoryRequest,
    DescribeGroupHistoryResponse,
    PartitionMoveRow,
    RebalanceCauseRow,
    RebalanceMemberRow,
    RebalanceRow,
)
from sordini.system.clock import utc_text

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
    14: ("topics_changed", "subscribed topics changed"),
    15: ("regex_resolved", "regular expression resolved"),
    16: ("assignor_changed", "other assignor"),
    17: ("protocol_changed", "protocol changed"),
    18: ("revocation_timeout", "poll timeout: did not release its partitions in time"),
    19: ("group_loaded", "in progress when this coordinator loaded the group"),
    20: ("states_initialized", "partitions initialized"),
}
"""By number (`RebalanceCause` of the broker): the name in JSON and in metrics, and the words in tables."""


async def group_history(cluster: ClusterClient, group: str, last: int | None) -> dict[str, Any]:
    """The rebalances of a group, oldest first, as JSON has them. Raises Failure where none is kept."""

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
        "protocol": "share" if row.is_share else "consumer" if row.is_consumer else "classic",
        "overtaken": row.is_overtaken,
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
    return {
        "topic": row.topic,
        "partition": row.partition,
        "from": row.source,
        "to": row.target,
        "released": _time(row.released_at_ms),
        "without_owner_ms": _known(row.without_owner_ms),
    }


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _time(at_ms: int) -> str | None:
    return None if at_ms < 0 else utc_text(at_ms)


def cause_words(cause: dict[str, Any]) -> str:
    """What a cause is called in a sentence."""
    return next((words for name, words in CAUSES.values() if name == cause["cause"]), str(cause["cause"]))
