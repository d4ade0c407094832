"""Responses that depend on members' sessions: expired sessions are handled first (`GroupCoordinator.when_settled`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from sordini.broker.dispatch import Call
from sordini.broker.groups.coordinator import GroupCoordinator
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import Work

M = TypeVar("M")

GROUPS_BY_NAME_MAX: Final = 100
"""For a request with more groups, the sessions of all groups on this broker are handled."""


def after_expiry(
    call: Call, groups: GroupCoordinator, group_ids: Sequence[str] | None, work: Callable[[], Work[M | DelayedResponse]]
) -> Work[M | DelayedResponse]:
    """Do the work of a call once the expired sessions of these groups (None: of all groups here) are handled.

    At once if there are none. Later, errors of the work are answered as if the handler had raised them.
    """
    pending: DelayedResponse | None = None
    is_settled = False

    def then() -> None:
        nonlocal is_settled
        is_settled = True
        if pending is not None and not pending.abandoned:
            call.complete_by(pending, work())

    by_name = group_ids if group_ids is not None and len(group_ids) <= GROUPS_BY_NAME_MAX else None
    groups.when_settled(by_name, then)
    if is_settled:
        return (yield from work())
    pending = DelayedResponse()
    return pending
