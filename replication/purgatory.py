"""Operations that wait for a partition to grow: Kafka's purgatory, without threads or futures. Pure.

A `DelayedOperation` watches one or more logs. It is entered in the purgatory of each, and removed from all of them when
it completes, so an append costs one dictionary check while nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol


class WatchedLog(Protocol):
    """What an operation can watch."""

    @property
    def purgatory(self) -> dict[DelayedOperation, None]:
        """The delayed operations, in the order in which they were entered."""


class DelayedOperation:
    """Completes once enough readable bytes have arrived, or when `complete` is called."""

    __slots__ = ("_missing_bytes", "_on_complete", "_watched", "done")

    def __init__(self, missing_bytes: int, watched: Iterable[WatchedLog], on_complete: Callable[[], None]) -> None:
        self.enter(missing_bytes, tuple(watched), on_complete)

    def enter(self, missing_bytes: int, watched: tuple[WatchedLog, ...], on_complete: Callable[[], None]) -> None:
        """Begin to watch; called once."""
        self._missing_bytes = missing_bytes
        self._on_complete = on_complete
        self._watched = watched
        self.done = False
        for log in self._watched:
            log.purgatory[self] = None

    def bytes_arrived(self, size: int) -> None:
        """`size` more bytes of a watched log can be read."""
        self._missing_bytes -= size
        if self._missing_bytes <= 0 and not self.done:
            # As `complete`, inlined: every record of a topic that is tailed is on this path.
            self.done = True
            for log in self._watched:
                log.purgatory.pop(self, None)
            self._on_complete()

    def complete(self) -> None:
        """Complete now, with what there is: the deadline passed, or the leader or the partition changed."""
        if not self.done:
            self.cancel()
            self._on_complete()

    def cancel(self) -> None:
        """Remove the operation without completing it: its connection is closed."""
        self.done = True
        for log in self._watched:
            log.purgatory.pop(self, None)


class LogEndWaiters:
    """The purgatory at the end of a partition's log: fetches of followers."""

    __slots__ = ("new_bytes", "purgatory")

    def __init__(self) -> None:
        self.purgatory: dict[DelayedOperation, None] = {}
        self.new_bytes = 0
        """Appended since the last notification."""


class NotifiedPartition(Protocol):
    """A partition whose log has grown."""

    purgatory: dict[DelayedOperation, None]
    log_end_waiters: LogEndWaiters
    shared_answers: dict[object, object] | None


def notify(partition: NotifiedPartition, readable_bytes: int) -> None:
    """Report new bytes to the delayed operations of a partition: `readable_bytes` to consumers, and those to followers.

    What they make meanwhile for each other is in `shared_answers`: the log does not change before all are notified.
    """
    purgatory, waiters = partition.purgatory, partition.log_end_waiters
    new_bytes, waiters.new_bytes = waiters.new_bytes, 0
    if not purgatory and not waiters.purgatory:
        return
    partition.shared_answers = {}
    try:
        if readable_bytes:
            for operation in list(purgatory):
                operation.bytes_arrived(readable_bytes)
        if new_bytes:
            for operation in list(waiters.purgatory):
                operation.bytes_arrived(new_bytes)
    finally:
        partition.shared_answers = None
