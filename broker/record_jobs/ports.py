"""Where jobs on records are carried out, and who waits for them."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sordini.protocol.records.jobs import Job, Outcome


class WorkerLost(Exception):
    """The process that worked on a job died, hung, or answered what is no answer."""


class Done(NamedTuple):
    """What a job came to."""

    outcome: Outcome | BaseException
    """The outcome, or the BrokerError that it ended in."""
    cpu_ms: int
    """Processor time that it took."""


class RecordWorker(Protocol):
    """Carries jobs out in other processes. As many may be under way at once as `run` is called."""

    @property
    def died(self) -> int:
        """Processes that ended, or had to be ended, while they worked on a job."""

    async def run(self, job: Job, cpu_ms: int) -> Done:
        """Carry out one job within `cpu_ms` of processor time; raises WorkerLost. Cancelled, nothing works on."""

    async def close(self) -> None:
        """End whatever runs."""
