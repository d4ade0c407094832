"""When the sessions of groups are settled: an answer that depends on them waits for those that have just expired.

This fences no member: what is due may be extended by a heartbeat that is still in a socket (see
`machine/member_sessions.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from sordini.broker.coordinators.ports import Ports
from sordini.broker.groups.any_group import AnyGroup

DUE_WAIT_MS: Final = 10
"""Until the tick of a group that is due: one iteration of the loop that reads all sockets, and some more."""
DUE_WAIT_MS_MAX: Final = 1_000
"""The longest wait for the end of a grace period: after a long stall the answer is about the group as it is known."""
DUE_WAITS_MAX: Final = 5


class SessionWaits:
    """Waits for the groups of one coordinator."""

    def __init__(self, ports: Ports, existing: Callable[[Collection[str] | None], list[AnyGroup]]) -> None:
        """`existing` has those of the named groups that are there; None names all."""
        self._ports = ports
        self._existing = existing

    def when_none_is_due(
        self, group_ids: Collection[str] | None, then: Callable[[], None], waits: int = DUE_WAITS_MAX
    ) -> None:
        """Call `then` when no deadline of these groups is due; at once if none is. Raises nothing."""
        wait_ms = max((self._due_wait_ms(group) for group in self._existing(group_ids)), default=0)
        if not wait_ms or not waits:
            then()
            return
        self._ports.call_later(wait_ms / 1000, lambda: self.when_none_is_due(group_ids, then, waits - 1))

    def _due_wait_ms(self, group: AnyGroup) -> int:
        """How long to wait until what is due is done; 0 when nothing is."""
        now_ms = self._ports.clock.monotonic_ms()
        if group.grace is not None:
            return min(max(group.grace.ends_ms - now_ms, 0) + DUE_WAIT_MS, DUE_WAIT_MS_MAX)
        return DUE_WAIT_MS if group.due_ms is not None and group.due_ms <= now_ms else 0
