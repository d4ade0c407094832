"""Answers that depend on group sessions wait until none is due (`session_waits.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work

M = TypeVar("M")

GROUPS_LOOKED_AT_MAX: Final = 100
"""For a request that names more groups, all groups of this broker are settled: that needs no look-up by name."""


def after_due_sessions(
    call: Call, groups: GroupCoordinator, group_ids: Sequence[str] | None, work: Callable[[], Work[M | DelayedResponse]]
) -> Work[M | DelayedResponse]:
    """Do the work that answers a call when no session of these groups (None: of all groups here) is due any more.

    That is at once when none is due. Later, the work's errors are answered as if its handler had raised them.
    """
    pending: DelayedResponse | None = None
    is_settled = False

    def then() -> None:
        nonlocal is_settled
        is_settled = True
        if pending is not None and not pending.abandoned:
            call.complete_by(pending, work())

    looked_at = group_ids if group_ids is not None and len(group_ids) <= GROUPS_LOOKED_AT_MAX else None
    groups.session_waits.when_none_is_due(looked_at, then)
    if is_settled:
        return (yield from work())
    pending = DelayedResponse()
    return pending
