"""Appends of one partition that are answered when every in-sync replica has them (acks=all), in offset order.

Pure. A check costs one comparison while nothing is pending.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset


class PendingCommit:
    """One append. `on_done` is called once: with NONE when it is committed, else with the error to answer."""

    __slots__ = ("end_offset", "is_cancelled", "on_done")

    def __init__(self, end_offset: Offset, on_done: OnDone) -> None:
        self.end_offset = end_offset
        self.on_done = on_done
        self.is_cancelled = False

    def cancel(self) -> None:
        """Do not call `on_done`."""
        self.is_cancelled = True


OnDone = Callable[[PendingCommit, ErrorCode], None]


class PendingCommits:
    """The pending appends of one partition, sorted: a duplicate may end before the last one."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: deque[PendingCommit] = deque()
        """In offset order. Each append of a leader reads whether it is empty: a method would be a call more."""

    def __bool__(self) -> bool:
        return bool(self.waiting)

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, end_offset: Offset, on_done: OnDone) -> PendingCommit:
        """Call `on_done` when the high watermark reaches `end_offset`, or the term ends."""
        commit = PendingCommit(end_offset, on_done)
        pending = self.waiting
        if not pending or pending[-1].end_offset <= end_offset:
            pending.append(commit)
            return commit
        later = []
        while pending and pending[-1].end_offset > end_offset:
            later.append(pending.pop())
        pending.append(commit)
        pending.extend(reversed(later))
        return commit

    def complete(self, high_watermark: Offset, code: ErrorCode = ErrorCode.NONE) -> None:
        """Complete what ends at or below the high watermark with `code`."""
        pending = self.waiting
        while pending and pending[0].end_offset <= high_watermark:
            commit = pending.popleft()
            if not commit.is_cancelled:
                commit.on_done(commit, code)

    def fail(self, code: ErrorCode) -> None:
        """Complete everything with an error: the term is over, and the outcome is not known here."""
        while self.waiting:
            commit = self.waiting.popleft()
            if not commit.is_cancelled:
                commit.on_done(commit, code)
