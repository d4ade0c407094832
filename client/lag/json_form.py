"""A snapshot for programs: plain values, units in the names, None for what is not known. Pure."""

from __future__ import annotations

from typing import Any

from sordini.client.lag.model import GroupLag, PartitionLag, UnreadRecord
from sordini.client.lag.outlook import Outlook, Rate


def group_json(group: GroupLag) -> dict[str, Any]:
    """One group with all its partitions."""
    oldest = group.oldest
    return {
        "group": group.name,
        "type": group.kind,
        "state": group.state or None,
        "members": group.members,
        "error": group.problem,
        "lag": group.lag,
        "oldest_unread": None if oldest is None or oldest.unread is None else _unread(oldest.unread),
        "rate_in_per_s": _per_s(group.rate_in),
        "rate_out_per_s": _per_s(group.rate_out),
        "outlook": _outlook(group.outlook),
        "partitions": [_partition(row) for row in group.partitions],
    }


def _partition(row: PartitionLag) -> dict[str, Any]:
    owner = row.owner
    return {
        "topic": row.topic,
        "partition": row.partition,
        "condition": row.condition.value,
        "error": row.problem,
        "committed_offset": row.committed,
        "log_start_offset": row.start,
        "end_offset": row.end,
        "last_stable_offset": row.stable_end,
        "lag": row.lag,
        "client_lag": row.client and row.client.lag,
        "client_lag_age_s": None if row.client is None else _seconds(row.client.pushed_ms_ago),
        "expired": row.expired,
        "oldest_unread": None if row.unread is None else _unread(row.unread),
        "rate_in_per_s": _per_s(row.rate_in),
        "rate_out_per_s": _per_s(row.rate_out),
        "last_commit_age_s": _seconds(row.commit_age_ms),
        "outlook": _outlook(row.outlook),
        "member_id": owner and owner.member_id,
        "client_id": owner and owner.client_id,
        "host": owner and owner.host,
        "without_owner": row.lacks_owner,
        "holds_but_does_not_read": row.is_stuck,
    }


def _unread(record: UnreadRecord) -> dict[str, Any]:
    return {
        "offset": record.offset,
        "exact": record.is_exact,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if record.is_log_append_time else "CreateTime",
        "own_age_s": _seconds(record.own_age_ms),
        "appended_at_least_s_ago": _seconds(record.appended.at_least_ms),
        "appended_at_most_s_ago": _seconds(record.appended.at_most_ms),
    }


def _outlook(outlook: Outlook) -> dict[str, Any]:
    return {
        "kind": outlook.kind.value,
        "caught_up_in_s": None if outlook.seconds is None else round(outlook.seconds, 3),
        "behind_by_per_s": None if outlook.per_s is None else round(outlook.per_s, 3),
    }


def _per_s(rate: Rate | None) -> float | None:
    return None if rate is None else round(rate.per_s, 3)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
