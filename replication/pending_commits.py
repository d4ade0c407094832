"""Appends whose answers wait until every in-sync replica has them (acks=all), in the order of their offsets.

Pure: waking costs one comparison when nobody waits, and those whose turn has come are told in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset


class PendingCommit:
    """One append that waits. `ended` is called once: with NONE when it counts, else with why nobody will know."""

    __slots__ = ("end_offset", "ended", "is_withdrawn")

    def __init__(self, end_offset: Offset, ended: Ended) -> None:
        self.end_offset = end_offset
        self.ended = ended
        self.is_withdrawn = False

    def withdraw(self) -> None:
        """Nobody waits any more."""
        self.is_withdrawn = True


Ended = Callable[[PendingCommit, ErrorCode], None]


class PendingCommits:
    """Those that wait in one partition. A duplicate may wait for an offset before the last, so they are kept sorted."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[PendingCommit] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end_offset: Offset, ended: Ended) -> PendingCommit:
        """Wait for the watermark to come to `end_offset`."""
        commit = PendingCommit(end_offset, ended)
        waiting = self._waiting
        if not waiting or waiting[-1].end_offset <= end_offset:
            waiting.append(commit)
            return commit
        later = []
        while waiting and waiting[-1].end_offset > end_offset:
            later.append(waiting.pop())
        waiting.append(commit)
        waiting.extend(reversed(later))
        return commit

    def reached(self, high_watermark: Offset, code: ErrorCode = ErrorCode.NONE) -> None:
        """The watermark has come this far: whoever waits for no more than that is told `code`."""
        waiting = self._waiting
        while waiting and waiting[0].end_offset <= high_watermark:
            commit = waiting.popleft()
            if not commit.is_withdrawn:
                commit.ended(commit, code)

    def fail(self, code: ErrorCode) -> None:
        """The term is over: nobody here will know what becomes of them."""
        while self._waiting:
            commit = self._waiting.popleft()
            if not commit.is_withdrawn:
                commit.ended(commit, code)
