"""Compaction without a second process: what unit tests and the simulation give the cleaner as its worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sordini.storage.compaction.task import CleaningResult, CleaningTask
from sordini.storage.disk import Disk
from sordini.testing.brokers import inline_workers


class CleaningHere(inline_workers.CleaningHere):
    """Notes what it does, and what else happens meanwhile is a test's to say."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.tasks: list[CleaningTask] = []
        self.is_closed = False
        self.before: Callable[[CleaningTask], Awaitable[None]] | None = None
        self.after: Callable[[CleaningTask], Awaitable[None]] | None = None
        """What else happens while the worker works."""

    async def run(self, task: CleaningTask) -> CleaningResult:
        self.tasks.append(task)
        if self.before is not None:
            await self.before(task)
        result = await super().run(task)
        if self.after is not None:
            await self.after(task)
        # As it comes from another process.
        return CleaningResult.from_json(result.as_json())

    async def close(self) -> None:
        self.is_closed = True
