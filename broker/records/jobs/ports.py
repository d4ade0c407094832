"""The port to the processes that run record jobs."""

from __future__ import annotations

from typing import Protocol

from sordini.protocol.records.jobs import Job, Outcome
from sordini.system.named_tuple import NamedTuple


class WorkerLost(Exception):
    """The process of a job died, hung, or sent a malformed answer."""


class NotInTime(WorkerLost):
    """The process was killed because it had not answered in time."""


class ProcessEnded(WorkerLost):
    """The process ended during the job, or sent a malformed answer."""


class JobResult(NamedTuple):
    """The result of one job."""

    outcome: Outcome | BaseException
    """The outcome, or the BrokerError that the job raised."""
    cpu_ms: int
    """CPU time used."""


class RecordWorker(Protocol):
    """Runs jobs in other processes, one per concurrent call of `run`."""

    @property
    def died(self) -> int:
        """Processes that died, or were killed, during a job."""

    async def run(self, job: Job, cpu_ms: int) -> JobResult:
        """Run one job within `cpu_ms` of CPU time; raises WorkerLost. Cancellation ends the job."""

    async def close(self) -> None:
        """End all processes."""
