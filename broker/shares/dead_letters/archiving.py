"""The last steps of the records of one share partition that become dead letters: written, and then archived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sordini.broker.share_state.ports import SharePartitionKey
from sordini.broker.shares.machine.share_partition import Change, DeadLetters, SharePartition
from sordini.broker.shares.ports import DeadLetterQueues
from sordini.protocol.errors import ErrorCode
from sordini.replication.partition import Partition
from sordini.replication.ports import CallLater

PAUSE_S: Final = 1.0
"""Before a change is written again that the persister could not write in its time."""

Write = Callable[[Change, Callable[[ErrorCode], None]], None]


class Archiving:
    """Of one share partition, from when it is loaded until it ends."""

    def __init__(
        self,
        machine: SharePartition,
        queues: DeadLetterQueues,
        write: Write,
        on_stored: Callable[[Change, ErrorCode], bool],
        call_later: CallLater,
    ) -> None:
        """`on_stored` carries out what was stored, or rolls it back, and returns whether it is to be written again."""
        self._machine = machine
        self._queues = queues
        self._write = write
        self._on_stored = on_stored
        self._call_later = call_later
        self._is_ended = False

    def send(self, key: SharePartitionKey, of: Partition) -> None:
        """Have the dead letters written that there are since the last call."""
        if self._is_ended:  # The next leader, or the next load, finds them archiving.
            return
        letters = self._machine.take_dead_letters()
        if letters:
            self._queues.add(key, of, letters, self._archive)

    def end(self, key: SharePartitionKey) -> None:
        self._is_ended = True
        self._queues.drop(key)

    def _archive(self, written: Sequence[DeadLetters]) -> None:
        if self._is_ended:
            return
        changes = [change for one in written if (change := self._machine.archive(one.first, one.end)) is not None]
        if changes:  # There are none if their records were deleted meanwhile.
            change = Change(self._machine.start, tuple(part for each in changes for part in each.parts))
            self._write(change, partial(self._stored, change, written))

    def _stored(self, change: Change, written: Sequence[DeadLetters], error: ErrorCode) -> None:
        if not self._is_ended and self._on_stored(change, error):
            self._call_later(PAUSE_S, partial(self._archive, written))
