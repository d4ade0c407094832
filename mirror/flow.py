"""One source copied into the target, until it is stopped.

Each attempt begins with nothing in memory: it opens a session, which ends what an earlier one left open, and reads from
the target where it has come to. Any error ends the attempt, and the next one begins after a pause. So there is one way
to begin, after a kill as after a lost connection, and exactly-once needs no other recovery.
"""

from __future__ import annotations

import asyncio
from typing import Final

from sordini.client.errors import ClientError, Refused
from sordini.client.retries import Backoff
from sordini.mirror.cluster import Cluster
from sordini.mirror.copier import Copier, Shared
from sordini.mirror.errors import TakenOver, first_error
from sordini.mirror.figures import Figures
from sordini.mirror.plan import Source
from sordini.mirror.reader import Reader
from sordini.protocol.errors import ErrorCode

PAUSE_MS_FIRST: Final = 100
PAUSE_MS_MAX: Final = 10_000
CALM_S: Final = 60.0
"""A session that was fenced is opened again once in so long; the second time another mirror is at work."""
_FENCED: Final = frozenset(
    {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED}
)


class Flow:
    """Copies from one source."""

    def __init__(self, shared: Shared, source: Source) -> None:
        self.source = source
        self.figures = Figures()
        self._shared = shared
        self._stopping = asyncio.Event()
        self._reader: Reader | None = None
        self._task: asyncio.Task[None] | None = None
        self._fenced_at = float("-inf")

    @property
    def alias(self) -> str:
        return self.source.access.alias

    def stop(self) -> None:
        """Commit what is under way, and end `run`."""
        self._stopping.set()
        if self._reader is not None:
            self._reader.inbox.wake()
        elif self._task is not None:
            self._task.cancel()  # Nothing is under way: it waits for a cluster, or for its next attempt.

    async def run(self) -> None:
        """Copy until stopped, which may cancel the task. Raises TakenOver."""
        backoff = Backoff(PAUSE_MS_FIRST, PAUSE_MS_MAX)
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        while not self._stopping.is_set():
            began = loop.time()
            try:
                await self._attempt()
            except ClientError as error:
                self._failed(error)
            self.figures.is_running = False
            if loop.time() - began > CALM_S:
                backoff.reset()
            if not self._stopping.is_set():
                await asyncio.sleep(backoff.next_ms() / 1000)

    def _failed(self, error: ClientError) -> None:
        figures = self.figures
        figures.failures += 1
        if str(error) != figures.problem:
            self._shared.notice(f"{self.alias}: {error}; it begins again from its last committed position")
        figures.problem = str(error)
        if isinstance(error, Refused) and error.code in _FENCED:
            now = asyncio.get_running_loop().time()
            if now - self._fenced_at < CALM_S:
                raise TakenOver(
                    f"{self.alias}: another mirror called '{self._shared.plan.name}' copies it into the target: {error}"
                )
            self._fenced_at = now

    async def _attempt(self) -> None:
        async with Cluster(self.source.access) as source, Cluster(self._shared.plan.target) as target:
            copier = Copier(self._shared, self.source, self.figures, source, target)
            await copier.open()
            self._reader = copier.reader
            self.figures.is_running, self.figures.problem = True, ""
            self._shared.notice(f"{self.alias}: {copier.summary}")
            try:
                async with asyncio.TaskGroup() as tasks:
                    helpers = [tasks.create_task(helper) for helper in copier.helpers()]
                    await copier.copy(self._stopping)
                    for helper in helpers:
                        helper.cancel()
            except BaseExceptionGroup as group:
                raise first_error(group) from None
            finally:
                self._reader = None
