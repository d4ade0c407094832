"""Answers that wait until all in-sync replicas have what a request wrote (acks=all): no task, no future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from sordini.broker.dispatch import Call
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import Offset
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.pending_commits import PendingCommit


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""Takes seconds, as the loop's own does."""


class Coded(Protocol):
    """A part of an answer that has an error code of its own."""

    error_code: int


class PartitionAppend(NamedTuple):
    """What one partition of a request wrote, and the part of the answer that says so."""

    partition: Partition
    leader: Leader
    """In whose term it was written: what another term has at that offset may be something else."""
    end_offset: int
    answer: Coded

    @property
    def is_of_the_past(self) -> bool:
        """Whether the term is over, so that nobody here will know what became of it."""
        return self.partition.leader is not self.leader

    @property
    def is_committed(self) -> bool:
        """Whether it counts already: the way of every append that no other replica has to have."""
        return not self.is_of_the_past and self.end_offset <= self.leader.high_watermark


class DelayedProduce:
    """One answer that waits; `ended` gets it once, when each part counts, has failed, or is out of time."""

    def __init__(
        self,
        written: Iterable[PartitionAppend],
        ended: Callable[[], None],
        call_later: CallLater,
        timeout_ms: int,
    ) -> None:
        self._ended = ended
        self._waiting: dict[PendingCommit, Coded] = {}
        for part in written:
            if part.is_of_the_past:
                part.answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            commit = part.partition.pending_commits.add(Offset(part.end_offset), self._settled)
            self._waiting[commit] = part.answer
        self._timer = call_later(max(timeout_ms, 0) / 1000, self._expire)
        if not self._waiting:
            self._end()

    def _settled(self, commit: PendingCommit, code: ErrorCode) -> None:
        self._waiting.pop(commit).error_code = code
        if not self._waiting:
            self._end()

    def _expire(self) -> None:
        for commit, answer in self._waiting.items():
            commit.withdraw()
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting.clear()
        self._end()

    def _end(self) -> None:
        self._timer.cancel()
        self._ended()

    def withdraw(self) -> None:
        """Nobody waits for the answer any more."""
        self._timer.cancel()
        for commit in self._waiting:
            commit.withdraw()
        self._waiting.clear()


async def committed(written: Iterable[PartitionAppend], call_later: CallLater, timeout_ms: int) -> None:
    """Wait until everything counts, or has failed."""
    waiting = [part for part in written if not part.is_committed]
    if not waiting:
        return
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell() -> None:
        if not ended.done():
            ended.set_result(None)

    DelayedProduce(waiting, tell, call_later, timeout_ms)
    await ended


def answer_when_committed(
    call: Call, response: Any, written: Iterable[PartitionAppend], call_later: CallLater, timeout_ms: int
) -> DelayedResponse:
    """The answer to a request, once everything it wrote counts."""
    pending = DelayedResponse()
    committing = DelayedProduce(written, lambda: call.complete(pending, response), call_later, timeout_ms)
    pending.on_abandon = committing.withdraw
    return pending
