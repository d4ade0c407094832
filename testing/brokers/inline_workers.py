"""Compaction and the decoding of records without child processes, which could not read files in memory."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.records.jobs.ports import JobResult
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.jobs import DecodeJob, Job, Outcome, run_job
from sordini.storage.cleaner import FailureKind, WorkerFailed
from sordini.storage.compaction.cleaning import clean
from sordini.storage.compaction.errors import DamagedSegment
from sordini.storage.compaction.task import CleaningResult, CleaningTask
from sordini.storage.directory_failure import PASSING
from sordini.storage.disk import Disk


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

    def __init__(self) -> None:
        self._decode: Callable[[DecodeJob], Outcome] | None = None

    async def run(self, job: Job, cpu_ms: int) -> JobResult:
        del cpu_ms
        try:
            return JobResult(self._decoded(job) if isinstance(job, DecodeJob) else run_job(job), 0)
        except BrokerError as error:
            return JobResult(error, 0)

    def _decoded(self, job: DecodeJob) -> Outcome:
        if self._decode is None:
            # With the libraries of schemas, which most tests do without.
            from sordini.broker.records.schemas.decoding import Decoder

            self._decode = Decoder(lambda check, value: check(value)).run
        return self._decode(job)

    async def close(self) -> None:
        """There is nothing to end."""
