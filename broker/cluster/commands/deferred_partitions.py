"""Partitions whose log could not be created, for lack of a file descriptor or of disk space.

The controller treats such a replica as offline. A notification in the store makes it send this broker LeaderAndIsr
again, as after the failure of a log directory (KIP-112). The broker cannot know when the resource is available, so the
notification is repeated, after RETRY_MS at first and after twice the delay each time, up to RETRY_MS_MAX.

A replica can also be created between two notifications, by the command that takes its leadership away because it is
offline. The controller still treats it as offline then, so a notification follows each refusal, even if the log has
been created meanwhile.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.types import TopicPartition
from sordini.replication.ports import Logger

RETRY_MS: Final = 1000
RETRY_MS_MAX: Final = 30_000


class DeferredPartitions:
    """Replicas that this broker is assigned and has not created yet."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._names: set[TopicPartition] = set()
        self._unnamed: set[TopicPartition] = set()
        """Those of them that no log line names."""
        self._is_notification_due = False
        """Whether a replica was deferred since the last notification."""
        self._delay_ms = RETRY_MS
        self._due_ms: int | None = None

    def __len__(self) -> int:
        return len(self._names)

    def defer(self, name: TopicPartition, reason: str, *, is_shared: bool = False) -> None:
        """The log could not be created. Only the first time is logged.

        With `is_shared` one line stands for all partitions (a full disk): the first deferred partition is named.
        """
        self._is_notification_due = True
        if name in self._names:
            return
        if self._names and is_shared:
            self._unnamed.add(name)
        else:
            self._log.warning("partition deferred", partition=str(name), reason=reason)
        self._names.add(name)

    def opened(self, name: TopicPartition) -> None:
        """The log exists now."""
        if name in self._names:
            if name not in self._unnamed:
                self._log.info("deferred partition opened", partition=str(name))
            self.forget(name)

    def forget(self, name: TopicPartition) -> None:
        """The replica exists, or is no longer assigned to this broker."""
        self._names.discard(name)
        self._unnamed.discard(name)

    def is_due(self, now_ms: int) -> bool:
        """Whether a notification is due now; `now_ms` is on the monotonic clock."""
        if not self._names and not self._is_notification_due:
            self._due_ms, self._delay_ms = None, RETRY_MS
            return False
        if self._due_ms is None:
            self._due_ms = now_ms + self._delay_ms
        if now_ms < self._due_ms:
            return False
        self._is_notification_due = False
        self._delay_ms = min(2 * self._delay_ms, RETRY_MS_MAX)
        self._due_ms = now_ms + self._delay_ms
        return True
