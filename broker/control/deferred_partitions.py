"""Partitions whose log could not be made for now, for want of a descriptor or of room on the disk.

The controller counts such a replica as offline. Once the want is over, a note has it ask this broker again what it
holds, as after the failure of a log directory (KIP-112). When it is over cannot be known: so the note is repeated,
after RETRY_MS at first and twice as long each time, up to RETRY_MS_MAX.

A replica may also be made between two notes, by a command that takes its leader away because it counts as offline. The
controller goes on counting it as offline then, so a note follows each refusal, whatever is made meanwhile.
"""

from __future__ import annotations

from typing import Final

from sordini.broker.network.ports import Log
from sordini.protocol.types import TopicPartition

RETRY_MS: Final = 1000
RETRY_MS_MAX: Final = 30_000


class DeferredPartitions:
    """What this broker was told to hold and does not hold yet."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._names: set[TopicPartition] = set()
        self._unnamed: set[TopicPartition] = set()
        """Those of them that no line names."""
        self._is_owed = False
        """Whether the controller was refused a replica since the last note."""
        self._delay_ms = RETRY_MS
        self._due_ms: int | None = None

    def __len__(self) -> int:
        return len(self._names)

    def refused(self, name: TopicPartition, reason: str, *, has_line: bool = False) -> None:
        """A log could not be made. Only the first time is worth a line.

        With `has_line` there is one for all partitions together (a full disk): the first one put off is named.
        """
        self._is_owed = True
        if name in self._names:
            return
        if self._names and has_line:
            self._unnamed.add(name)
        else:
            self._log.warning("partition deferred", partition=str(name), reason=reason)
        self._names.add(name)

    def taken(self, name: TopicPartition) -> None:
        """It is held now."""
        if name in self._names:
            if name not in self._unnamed:
                self._log.info("deferred partition opened", partition=str(name))
            self.forget(name)

    def forget(self, name: TopicPartition) -> None:
        """It is held, or shall not be held any more."""
        self._names.discard(name)
        self._unnamed.discard(name)

    def is_due(self, now_ms: int) -> bool:
        """Whether the controller is to be asked now to send everything again; monotonic milliseconds."""
        if not self._names and not self._is_owed:
            self._due_ms, self._delay_ms = None, RETRY_MS
            return False
        if self._due_ms is None:
            self._due_ms = now_ms + self._delay_ms
        if now_ms < self._due_ms:
            return False
        self._is_owed = False
        self._delay_ms = min(2 * self._delay_ms, RETRY_MS_MAX)
        self._due_ms = now_ms + self._delay_ms
        return True
