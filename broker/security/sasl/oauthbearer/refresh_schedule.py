"""When a key set is fetched again: regularly, sooner after a failure, and early for a key that is missing. Pure."""

from __future__ import annotations

from typing import Final

EARLY_MS: Final = 10_000
"""Between two early refreshes: tokens with invented key ids cause no more of them."""
_DOUBLINGS_MAX: Final = 30


class RefreshSchedule:
    """The times of one source; all on the monotonic clock, in ms."""

    def __init__(self, refresh_ms: int, backoff_ms: int, backoff_ms_max: int, now_ms: int) -> None:
        """The back-off is doubled with each failure, up to `backoff_ms_max`. The first fetch is due now."""
        self._refresh_ms = refresh_ms
        self._backoff_ms = backoff_ms
        self._backoff_ms_max = backoff_ms_max
        self._failures = 0
        self._early_from_ms = now_ms
        self.due_ms = now_ms

    def succeeded(self, now_ms: int) -> None:
        """Keys were fetched."""
        self._failures = 0
        self.due_ms = now_ms + self._refresh_ms

    def failed(self, now_ms: int) -> None:
        """They were not."""
        self.due_ms = now_ms + min(self._backoff_ms << min(self._failures, _DOUBLINGS_MAX), self._backoff_ms_max)
        self._failures += 1

    def missed(self, now_ms: int) -> bool:
        """A key is missing; whether keys are fetched early for it. Not while fetching fails, which has a back-off."""
        if self._failures or now_ms < self._early_from_ms or now_ms >= self.due_ms:
            return False
        self._early_from_ms = now_ms + EARLY_MS
        self.due_ms = now_ms
        return True
