"""The meters of client quotas. Pure: the time is an argument, in milliseconds on the monotonic clock.

`WindowedRate` is Apache Kafka's rate: over the last windows, and over all but one of them at least. A client that was
quiet may therefore use the allowance of ten windows at once. `TokenBucket` is that of controller mutations (KIP-599).
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Final

from sordini.system.named_tuple import NamedTuple

_ROUNDING: Final = 1e-6
"""Sums of fractions do not end at 0 exactly."""


class RateWindows(NamedTuple):
    """How long a rate is measured."""

    number: int = 11
    ms: int = 1000
    """Length of one window, in milliseconds."""


class WindowedRate:
    """Units per second over the last windows."""

    __slots__ = ("_total", "_windows", "length")

    def __init__(self, length: RateWindows) -> None:
        self.length = length
        self._windows: deque[tuple[int, float]] = deque()
        """The start of each window, and its units."""
        self._total = 0.0

    def record(self, units: float, now_ms: int) -> None:
        """`units` were used now; a negative number takes some back."""
        self._expire(now_ms)
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self.length.ms:
            begin_ms, before = windows[-1]
            windows[-1] = begin_ms, before + units
        else:
            windows.append((now_ms, units))
        self._total += units

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        self._expire(now_ms)
        return self._total * 1000 / self._span_ms(now_ms)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may be used until the rate is `bound` again; 0 if it is not above."""
        self._expire(now_ms)
        span_ms = self._span_ms(now_ms)
        excess = self._total * 1000 - bound * span_ms
        if excess <= 0:
            return 0
        return max(int(excess / bound), 1) if bound > 0 else span_ms

    def _span_ms(self, now_ms: int) -> int:
        count, window_ms = self.length
        elapsed_ms = now_ms - self._windows[0][0] if self._windows else 0
        return elapsed_ms + max(count - 1 - elapsed_ms // window_ms, 0) * window_ms or window_ms

    def _expire(self, now_ms: int) -> None:
        windows, kept_ms = self._windows, self.length.number * self.length.ms
        while windows and now_ms - windows[0][0] >= kept_ms:
            self._total -= windows.popleft()[1]
        if not windows:
            self._total = 0.0


class TokenBucket:
    """Tokens that come back at a rate, up to what all windows allow; they may be overdrawn once."""

    __slots__ = ("_full", "_last_ms", "_per_second", "_tokens")

    def __init__(self, per_second: float, length: RateWindows, now_ms: int) -> None:
        self._per_second = per_second
        self._full = self._tokens = per_second * length.number * length.ms / 1000
        self._last_ms = now_ms

    def limit(self, per_second: float, length: RateWindows) -> None:
        """Change the rate; tokens in hand stay."""
        self._per_second = per_second
        self._full = per_second * length.number * length.ms / 1000
        self._tokens = min(self._tokens, self._full)

    def take(self, tokens: float, now_ms: int) -> None:
        """Use tokens, whether they are there or not."""
        self._refill(now_ms)
        self._tokens -= tokens

    def wait_ms(self, now_ms: int) -> int:
        """How long until the bucket is not overdrawn; 0 if it is not."""
        self._refill(now_ms)
        missing = -self._tokens - _ROUNDING
        if missing <= 0:
            return 0
        return ceil(missing * 1000 / self._per_second) if self._per_second > 0 else 1000

    def _refill(self, now_ms: int) -> None:
        added = (now_ms - self._last_ms) * self._per_second / 1000
        self._tokens = min(self._tokens + added, self._full)
        self._last_ms = now_ms
