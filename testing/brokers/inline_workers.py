"""Compaction and the decoding of records without child processes, which could not read files in memory."""

from __future__ import annotations

from sordini.broker.record_jobs.ports import JobResult
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.jobs import Job, run_job
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
    """Compacts on the loop; implements the cleaner's worker."""

    died = 0

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    async def run(self, task: CleaningTask) -> CleaningResult:
        try:
            return await self.disk.offload(lambda: clean(self.disk, task, NoTime()))
        except DamagedSegment as error:
            raise WorkerFailed(FailureKind.FINAL, str(error)) from error
        except OSError as error:
            kind = FailureKind.FULL if error.errno in PASSING else FailureKind.PASSING
            raise WorkerFailed(kind, str(error)) from error

    async def close(self) -> None:
        """There is nothing to end."""


class RecordsHere:
    """Decodes on the loop, in no CPU time of another process; implements the record worker."""

    died = 0

    async def run(self, job: Job, cpu_ms: int) -> JobResult:
        del cpu_ms
        try:
            return JobResult(run_job(job), 0)
        except BrokerError as error:
            return JobResult(error, 0)

    async def close(self) -> None:
        """There is nothing to end."""
