"""Retried changes: a change that an earlier attempt of the same command has made is recognised as a success.

An attempt whose answer was lost, or that ended in REQUEST_TIMED_OUT, may have been applied. The retry is then refused
because the change exists already. That is a success if it did not exist before the first attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import RETRIABLE, ClusterClient, RetriableRefusal
from sordini.admin.failure import Failure
from sordini.client.cluster import Link
from sordini.client.errors import Disconnected, Refused
from sordini.protocol.errors import ErrorCode

MAY_HAVE_BEEN_APPLIED: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})
"""Errors after which the change may be pending or applied."""
MAY_BE_DONE: Final = "the cluster did not finish in time and may still apply the change"
STILL_BEING_DELETED: Final = "it is being deleted, and the deletion has not finished"

Ask = Callable[[Link, list[str]], Awaitable[Sequence[Any]]]
"""Sends the change of some topics to the controller and returns a row for each."""


async def apply_change(
    cluster: ClusterClient,
    names: Sequence[str],
    ask: Ask,
    name_of: Callable[[Any], str],
    is_own_change: Callable[[str, Any, bool], Awaitable[bool]],
) -> list[Any]:
    """The last row of each name, in order. Raises Failure.

    `is_own_change(name, row, was_there)` says whether a refusal means that an earlier attempt of this command made the
    change; `was_there` is whether a topic of that name existed before the first attempt.
    """
    wanted = list(dict.fromkeys(names))
    before = await partition_counts(cluster, wanted)
    done: dict[str, Any] = {}
    unsure: set[str] = set()

    async def attempt() -> None:
        link = await cluster.controller()
        left = [name for name in wanted if name not in done]
        try:
            rows = await ask(link, left)
        except Disconnected:
            unsure.update(left)
            raise
        refusal: Refused | None = None
        for row in rows:
            name = name_of(row)
            if row.error_code in RETRIABLE:
                may_be_applied = row.error_code in MAY_HAVE_BEEN_APPLIED
                unsure.update([name] if may_be_applied else [])
                refusal = Refused(f"topic '{name}'", row.error_code, MAY_BE_DONE if may_be_applied else None)
                continue
            if row.error_code and name in unsure and await is_own_change(name, row, name in before):
                row.error_code = ErrorCode.NONE.value
            elif row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and await _is_unknown(cluster, name):
                refusal = RetriableRefusal(f"topic '{name}'", row.error_code, STILL_BEING_DELETED)
                continue
            done[name] = row
        if refusal is not None:
            raise refusal

    await cluster.retry(attempt)
    missing = [name for name in wanted if name not in done]
    if missing:
        raise Failure(f"the broker's answer has no result for {', '.join(missing)}")
    return [done[name] for name in wanted]


async def _is_unknown(cluster: ClusterClient, name: str) -> bool:
    """Whether the brokers know no such topic: a deletion is reported once they have removed it from their metadata.

    The coordination store keeps the topic some milliseconds longer, or until a broker that is down has returned.
    """
    found = await cluster.metadata([name])
    return all(topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in found.topics)


async def partition_counts(cluster: ClusterClient, names: Sequence[str]) -> dict[str, int]:
    """The number of partitions of each of the topics that exists."""
    found = await cluster.retry(lambda: cluster.metadata(names))
    return {topic.name or "": len(topic.partitions) for topic in found.topics if not topic.error_code}
