"""Replication quotas: how many bytes a broker may send or fetch per second for replication (KIP-73).

Pure: the time is an argument, in milliseconds on the monotonic clock. The rate is measured over the last few windows.
Only replicas listed in the topic's configuration are throttled, and only while they lag: traffic of in-sync replicas is
measured, too, but never throttled, or a quota would shrink in-sync sets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sordini.protocol.types import TopicPartition

UNLIMITED = 2**63 - 1


class RateMeter:
    """Bytes per second over the last `windows_count` windows, the current one included."""

    __slots__ = ("_bytes", "_window_ms", "_windows", "_windows_count")

    def __init__(self, windows_count: int, window_ms: int) -> None:
        self._windows_count = windows_count
        self._window_ms = window_ms
        self._windows: deque[tuple[int, int]] = deque()
        """The start of each window, and its bytes."""
        self._bytes = 0

    def record(self, size: int, now_ms: int) -> None:
        """`size` bytes were transferred now."""
        self._expire(now_ms)
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._window_ms:
            begin_ms, before = windows[-1]
            windows[-1] = begin_ms, before + size
        else:
            windows.append((now_ms, size))
        self._bytes += size

    def bytes_per_second(self, now_ms: int) -> float:
        """The rate; a span shorter than one window is measured as a whole one."""
        self._expire(now_ms)
        return self._bytes * 1000 / self._span_ms(now_ms)

    def wait_ms(self, bound: float, now_ms: int) -> int:
        """How long to wait before checking again if the rate is above `bound`: one window at most. 0 if it is not."""
        self._expire(now_ms)
        span_ms = self._span_ms(now_ms)
        if self._bytes * 1000 <= bound * span_ms:
            return 0
        if bound <= 0:
            return self._window_ms
        return min(int(self._bytes * 1000 / bound) + 1 - span_ms, self._window_ms)

    def _span_ms(self, now_ms: int) -> int:
        return max(now_ms - self._windows[0][0], self._window_ms) if self._windows else self._window_ms

    def _expire(self, now_ms: int) -> None:
        windows, kept_ms = self._windows, self._windows_count * self._window_ms
        while windows and now_ms - windows[0][0] >= kept_ms:
            self._bytes -= windows.popleft()[1]


class ReplicaQuota:
    """The quota of one direction: what this broker's leaders send, or what its followers fetch."""

    __slots__ = ("_bytes_per_second_max", "_is_listed", "_meter", "is_limited")

    def __init__(
        self,
        is_listed: Callable[[TopicPartition], bool],
        bytes_per_second_max: int = UNLIMITED,
        *,
        windows_count: int = 11,
        window_ms: int = 1000,
    ) -> None:
        """`is_listed`: whether a partition's replica here is in its topic's list of throttled replicas."""
        self._is_listed = is_listed
        self._bytes_per_second_max = bytes_per_second_max
        self._meter = RateMeter(windows_count, window_ms)
        self.is_limited = bytes_per_second_max < UNLIMITED
        """Whether there is a quota at all."""

    def limit(self, bytes_per_second_max: int) -> None:
        """Change the quota."""
        self._bytes_per_second_max = bytes_per_second_max
        self.is_limited = bytes_per_second_max < UNLIMITED

    def is_throttled(self, name: TopicPartition, now_ms: int) -> bool:
        """Whether a lagging replica of this partition must get no bytes now."""
        return self.wait_ms(name, now_ms) > 0

    def wait_ms(self, name: TopicPartition, now_ms: int) -> int:
        """How long a lagging replica of this partition must get no bytes; 0 if it is not throttled."""
        bound = self._bytes_per_second_max
        if not self.is_limited or not self._is_listed(name):
            return 0
        return self._meter.wait_ms(bound, now_ms)

    def record(self, name: TopicPartition, size: int, now_ms: int) -> None:
        """Bytes of this partition were sent to or fetched from another broker."""
        if self.is_limited and self._is_listed(name):
            self._meter.record(size, now_ms)
