"""Answers that wait until everything their group has written is committed: no member knows what could be lost."""

from __future__ import annotations

from collections.abc import Callable

from sordini.protocol.errors import ErrorCode

OnCommitted = Callable[[ErrorCode], None]


class CommittedAnswers:
    """Of the groups of one partition of __consumer_offsets."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[OnCommitted]] = {}
        """By group with batches that are not committed: the answers that wait for the last of them."""
        self._batches: dict[str, int] = {}
        """How many batches of a group are not committed."""

    def appending(self, group_id: str) -> None:
        """A batch of a group is being appended."""
        self._batches[group_id] = self._batches.get(group_id, 0) + 1

    def committed(self, group_id: str) -> None:
        """A batch is committed, or could not be appended."""
        left = self._batches.pop(group_id, 1) - 1
        if left:
            self._batches[group_id] = left
            return
        for answer in self._waiting.pop(group_id, ()):
            answer(ErrorCode.NONE)

    def when_committed(self, group_id: str, answer: OnCommitted) -> None:
        """Call `answer` once, when all batches of a group are committed: at once if they are."""
        if group_id in self._batches:
            self._waiting.setdefault(group_id, []).append(answer)
        else:
            answer(ErrorCode.NONE)

    def close(self) -> None:
        """The leadership has ended: what waits is called with NOT_COORDINATOR."""
        waiting, self._waiting = self._waiting, {}
        for answers in waiting.values():
            for answer in answers:
                answer(ErrorCode.NOT_COORDINATOR)
