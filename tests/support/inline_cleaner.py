"""Compaction without a second process: what unit tests and the simulation give the cleaner as its worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sordini.storage.cleaner import FailureKind, WorkerFailed
from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.task import CleaningResult, CleaningTask
from sordini.storage.disk import Disk
from sordini.storage.log_dir_handle import PASSING


class NoTime:
    """A clock on which no work takes time and no wait lasts."""

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        del seconds


class CleaningHere:
    """Does the real work on a test's disk, as its thread would."""

    died = 0

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.tasks: list[CleaningTask] = []
        self.is_closed = False
        self.before: Callable[[CleaningTask], Awaitable[None]] | None = None
        self.after: Callable[[CleaningTask], Awaitable[None]] | None = None
        """What else happens while the worker works."""

    async def run(self, task: CleaningTask) -> CleaningResult:
        self.tasks.append(task)
        if self.before is not None:
            await self.before(task)
        try:
            result = await self.disk.offload(lambda: clean(self.disk, task, NoTime()))
        except DamagedSegment as error:
            raise WorkerFailed(FailureKind.FINAL, str(error)) from error
        except OSError as error:
            kind = FailureKind.FULL if error.errno in PASSING else FailureKind.PASSING
            raise WorkerFailed(kind, str(error)) from error
        if self.after is not None:
            await self.after(task)
        # As it comes from another process.
        return CleaningResult.from_json(result.as_json())

    async def close(self) -> None:
        self.is_closed = True
