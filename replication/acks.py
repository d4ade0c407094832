"""The end of every append by a leader: notify purgatories, flush if due, wait until committed, acknowledge.

Produce requests, transaction markers and the coordinators append with `Partition.append`; `finish_appends` follows. An
ordinary append is finished when it returns. Else the caller waits, by `UnfinishedAppends`: a request with a callback
where only the commit is missing (no task, no future), or in a coroutine where a flush comes first; a coordinator with a
callback that outlives the request's timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import Offset
from sordini.replication.leader import Leader
from sordini.replication.partition import Partition
from sordini.replication.pending_commits import PendingCommit
from sordini.replication.ports import CallLater, Spawn, Timer
from sordini.storage.errors import StorageError
from sordini.system.named_tuple import NamedTuple


class Result(Protocol):
    """A row of a response, or a batch of a coordinator, with its own error code."""

    error_code: int


class PartitionAppend(NamedTuple):
    """What one caller appended to one partition, and the row of the response for it."""

    partition: Partition
    leader: Leader
    """The term of the append: another term may have other records at these offsets."""
    end_offset: int
    result: Result

    @property
    def is_superseded(self) -> bool:
        """Whether the term is over, so that this broker will not learn the outcome."""
        return self.partition.leader is not self.leader

    @property
    def is_committed(self) -> bool:
        """Whether the high watermark has passed it: at once where no other replica is in sync."""
        return not self.is_superseded and self.end_offset <= self.leader.high_watermark


class UnfinishedAppends(NamedTuple):
    """Appends that may not be acknowledged yet."""

    appends: Sequence[PartitionAppend]
    needs_flush: bool
    all_replicas: bool

    async def wait(self, call_later: CallLater, timeout_ms: int) -> None:
        """Flush if due, and with `all_replicas` wait until each append is committed or failed (see its result).

        Raises BrokerError KAFKA_STORAGE_ERROR when a flush fails.
        """
        if self.needs_flush:
            await self._flush()
        if not self.all_replicas:
            return
        uncommitted = [append for append in self.appends if not append.is_committed]
        if uncommitted:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def on_done() -> None:
                if not done.done():
                    done.set_result(None)

            DelayedProduce(uncommitted, on_done, call_later, timeout_ms)
            await done

    def when_committed(self, on_done: Callable[[], None], call_later: CallLater, timeout_ms: int) -> DelayedProduce:
        """Call `on_done` when each append is committed, failed or timed out. For appends that need no flush."""
        assert not self.needs_flush, "a flush comes first: use wait()"
        return DelayedProduce(self.appends, on_done, call_later, timeout_ms)

    def watch(self, on_done: Callable[[], None], on_flush_error: Callable[[], None], spawn: Spawn) -> None:
        """Call `on_done` for each append that is committed or whose term has ended (see its result), however late.

        A flush that is due starts here. When it fails, `on_flush_error` is called with KAFKA_STORAGE_ERROR in the
        results, and `on_done` may follow: a later flush may succeed.
        """
        for append in self.appends:
            append.partition.pending_commits.add(Offset(append.end_offset), partial(_set_code, append.result, on_done))
        if self.needs_flush:
            spawn(self._flush_for(on_flush_error))

    async def _flush_for(self, on_error: Callable[[], None]) -> None:
        try:
            await self._flush()
        except BrokerError as error:
            for append in self.appends:
                append.result.error_code = error.code
            on_error()

    async def _flush(self) -> None:
        try:
            # Together: one sync waits for another only where the disk makes it.
            await asyncio.gather(*(append.partition.log.flush_if_due() for append in self.appends))
        except (BrokerError, StorageError) as error:
            raise BrokerError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _set_code(result: Result, on_done: Callable[[], None], _commit: PendingCommit, code: ErrorCode) -> None:
    result.error_code = code
    on_done()


def finish_appends(appends: Sequence[PartitionAppend], *, all_replicas: bool) -> UnfinishedAppends | None:
    """Notify the operations that wait for the appended records; None if the appends may be acknowledged at once.

    `all_replicas` (acks=all): they may be when they are committed. To be called right after the appends, without an
    await in between.
    """
    needs_flush = False
    for partition, *_ in appends:
        if partition.has_delayed_operations:
            partition.notify_purgatory()
        needs_flush = needs_flush or partition.log.needs_flush
    if needs_flush:
        return UnfinishedAppends(appends, needs_flush, all_replicas)
    if all_replicas:
        uncommitted = [append for append in appends if not append.is_committed]
        if uncommitted:
            return UnfinishedAppends(uncommitted, needs_flush, all_replicas)
    return None


class DelayedProduce:
    """Appends of one request that wait to be committed. `on_done` is called once, also after a failure or a timeout."""

    def __init__(
        self, appends: Iterable[PartitionAppend], on_done: Callable[[], None], call_later: CallLater, timeout_ms: int
    ) -> None:
        self._on_done = on_done
        self._pending: dict[PendingCommit, Result] = {}
        for append in appends:
            if append.is_superseded:
                append.result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                continue
            commit = append.partition.pending_commits.add(Offset(append.end_offset), self._on_commit)
            self._pending[commit] = append.result
        self._timer: Timer = call_later(max(timeout_ms, 0) / 1000, self._expire)
        if not self._pending:
            self._finish()

    def _on_commit(self, commit: PendingCommit, code: ErrorCode) -> None:
        self._pending.pop(commit).error_code = code
        if not self._pending:
            self._finish()

    def _expire(self) -> None:
        for commit, result in self._pending.items():
            commit.cancel()
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._pending.clear()
        self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        self._on_done()

    def cancel(self) -> None:
        """Do not call `on_done`: the connection is closed."""
        self._timer.cancel()
        for commit in self._pending:
            commit.cancel()
        self._pending.clear()
