"""Changes that are asked for again: what an earlier attempt of the same command has done is recognised as done.

An attempt whose answer is lost, or that ends in REQUEST_TIMED_OUT, may have been carried out all the same. The next one
is then refused because the change is there already. That is a success, if it was not there before the first attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from sordini.cli.cluster import PASSING, Cluster, RefusedForNow
from sordini.cli.common.options import Failure
from sordini.cli.link import Link, LinkLost, Refused
from sordini.protocol.errors import ErrorCode

MAY_HAVE_BEEN_APPLIED: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})
"""Errors after which the change may be under way, or done."""
MAY_BE_DONE: Final = "the cluster had not finished in time; it may still do it"
STILL_BEING_DELETED: Final = "it is being deleted, and the cluster has not finished with that"

Ask = Callable[[Link, list[str]], Awaitable[Sequence[Any]]]
"""Asks the controller for the change of some names; a row for each."""


async def apply_change(
    cluster: Cluster,
    names: Sequence[str],
    ask: Ask,
    name_of: Callable[[Any], str],
    is_own_change: Callable[[str, Any, bool], Awaitable[bool]],
) -> list[Any]:
    """The last row of each name, in order; raises Failure.

    `is_own_change(name, row, was_there)` says whether a refusal means that the change is there, and is this command's when
    an earlier attempt may have been carried out; `was_there` is whether a topic of that name was there at first.
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
        except LinkLost:
            unsure.update(left)
            raise
        refusal: Refused | None = None
        for row in rows:
            name = name_of(row)
            if row.error_code in PASSING:
                may_be_applied = row.error_code in MAY_HAVE_BEEN_APPLIED
                unsure.update([name] if may_be_applied else [])
                refusal = Refused(f"topic '{name}'", row.error_code, MAY_BE_DONE if may_be_applied else None)
                continue
            if row.error_code and name in unsure and await is_own_change(name, row, name in before):
                row.error_code = ErrorCode.NONE.value
            elif row.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and await _is_unknown(cluster, name):
                refusal = RefusedForNow(f"topic '{name}'", row.error_code, STILL_BEING_DELETED)
                continue
            done[name] = row
        if refusal is not None:
            raise refusal

    await cluster.persist(attempt)
    missing = [name for name in wanted if name not in done]
    if missing:
        raise Failure(f"the broker did not say what became of {', '.join(missing)}")
    return [done[name] for name in wanted]


async def _is_unknown(cluster: Cluster, name: str) -> bool:
    """Whether the brokers know no such topic: a deletion is reported when they have forgotten the topic.

    The coordination store has the topic for some milliseconds more, or until a broker that is down is back.
    """
    found = await cluster.metadata([name])
    return all(topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for topic in found.topics)


async def partition_counts(cluster: Cluster, names: Sequence[str]) -> dict[str, int]:
    """How many partitions those of the topics have that are there."""
    found = await cluster.persist(lambda: cluster.metadata(names))
    return {topic.name or "": len(topic.partitions) for topic in found.topics if not topic.error_code}
