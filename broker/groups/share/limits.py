"""What the membership of share groups needs of their configuration."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from sordini.broker.configuration.share_group_configs import ShareGroupLimits
from sordini.broker.groups.share.machine.events import ShareGroupTimings

KEPT_MAX: Final = 1_000
"""Different values that are kept. Groups of equal settings share theirs, so there are few."""


class ShareMembershipLimits:
    """By group id."""

    def __init__(self, limits: ShareGroupLimits, initialize_retry_ms: int) -> None:
        self._limits = limits
        self._initialize_retry_ms = initialize_retry_ms
        self._timings = lru_cache(KEPT_MAX)(ShareGroupTimings)

    def of(self, group_id: str) -> ShareGroupTimings:
        found = self._limits.of(group_id)
        return self._timings(
            found.session_timeout_ms,
            found.heartbeat_interval_ms,
            found.assignment_interval_ms,
            found.members_max,
            self._initialize_retry_ms,
        )
