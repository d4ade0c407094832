"""Jobs on records without a second process: what unit tests and the simulation give the broker as its worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sordini.broker.records.jobs.ports import JobResult
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.jobs import (
    DecodeJob,
    Job,
    Outcome,
    error_as_wire,
    job_as_wire,
    job_from_wire,
    outcome_as_wire,
    outcome_from_wire,
    run_job,
)


def as_if_sent(job: Job) -> Outcome:
    """Run a job on a copy of its input, as in another process, and return a copy of its result."""
    about, data = job_as_wire(job)
    received = job_from_wire(about, bytearray(data))
    assert not isinstance(received, DecodeJob), "of children with libraries: tests/process and the test kit"
    try:
        answer = outcome_as_wire(run_job(received))
    except BrokerError as error:
        answer = error_as_wire(error)
    return outcome_from_wire(answer[0], bytearray(answer[1]))


class RecordsHere:
    """Does the real work, in no processor time unless a test sets it."""

    died = 0

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.is_closed = False
        self.cpu_ms = 0
        self.before: Callable[[Job], Awaitable[None]] | None = None
        """What else happens while the worker works."""

    async def run(self, job: Job, cpu_ms: int) -> JobResult:
        self.jobs.append(job)
        if self.before is not None:
            await self.before(job)
        try:
            return JobResult(as_if_sent(job), min(self.cpu_ms, cpu_ms))
        except BrokerError as error:
            return JobResult(error, min(self.cpu_ms, cpu_ms))

    async def close(self) -> None:
        self.is_closed = True
