"""The queue of record jobs: which run, which wait, and which are refused.

    handler ── job, allowance, address ──► waiting (by address, oldest first) ──► at most `workers` at once ──► outcome

The limits:
  - `workers` jobs run at once (sordini.record.workers). One worker is reserved for other addresses: however many jobs
    one address has waiting, a client at another one gets a worker, if there is more than one;
  - `waiting_bytes_max` bytes of records run or wait (sordini.record.workers.queue.bytes.max), and JOBS_MAX jobs. A job
    beyond is refused at once, unless the queue is empty: so every job that fits into a request can be run;
  - a job that has waited for WAIT_S is refused;
  - a request has a `CpuAllowance`, which its jobs spend.

Addresses are served round-robin. One connection has one job at a time: its next request starts afterwards (see
`RequestPipeline`).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from sordini.broker.records.jobs.ports import RecordWorker, WorkerLost
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import CheckJob, ConvertJob, CopyJob, DecodeJob, FramesJob, Job, Outcome
from sordini.replication.ports import Logger
from sordini.system.named_tuple import NamedTuple

JOBS_MAX: Final = 1_000
WAIT_S: Final = 5.0
CPU_MS_PER_MIB: Final = 900
"""CPU time for all jobs of one request, for each started mebibyte of it."""
DECODE_MS_PER_MIB: Final = 5_000
"""The same for DecodeJobs. A small value takes 1 to 20 microseconds, by the kind of its schema."""
RETRY = ErrorCode.NOT_ENOUGH_REPLICAS
"""Refused for now: the one code upon which producers of every version retry (KIP-890 chose it for that)."""


class CpuAllowance:
    """The CPU time, in ms, that is left for the jobs of one request."""

    __slots__ = ("_decoding", "_mebibytes", "left_ms")

    def __init__(self, request_bytes: int, ms_per_mib: int = CPU_MS_PER_MIB) -> None:
        self._mebibytes = max(-(-request_bytes // (1024 * 1024)), 1)
        self._decoding: CpuAllowance | None = None
        self.left_ms = ms_per_mib * self._mebibytes

    @property
    def decoding(self) -> CpuAllowance:
        """That of the same request for its DecodeJobs."""
        if self._decoding is None:
            self._decoding = CpuAllowance(self._mebibytes * 1024 * 1024, DECODE_MS_PER_MIB)
        return self._decoding


class JobTotals:
    """Totals since the start, for the metrics."""

    __slots__ = ("cpu_ms", "done", "refused")

    def __init__(self) -> None:
        self.done = 0
        self.refused = 0
        self.cpu_ms = 0


class _Waiting(NamedTuple):
    job: Job
    size: int
    address: str
    start: asyncio.Future[None]


class JobQueue:
    """All jobs of one broker."""

    def __init__(
        self,
        worker: RecordWorker,
        workers: Callable[[], int],
        waiting_bytes_max: Callable[[], int],
        log: Logger,
        job_ms_max: int = CPU_MS_PER_MIB,
    ) -> None:
        """`job_ms_max` is the CPU time that one job may take."""
        self.worker = worker
        self.totals = JobTotals()
        self._workers = workers
        self._waiting_bytes_max = waiting_bytes_max
        self._log = log
        self._job_ms_max = job_ms_max
        self._waiting: OrderedDict[str, deque[_Waiting]] = OrderedDict()
        """By address; the address served next comes first."""
        self._running: dict[str, int] = {}
        self.waiting_count = 0
        self.held_bytes = 0
        """Of jobs that run or wait."""

    @property
    def running_count(self) -> int:
        return sum(self._running.values())

    async def run(self, job: Job, allowance: CpuAllowance, address: str) -> Outcome:
        """Run a job; raises BrokerError: the job's own, or `RETRY` when it cannot be run now."""
        size = _size(job)
        self._check_room(job, size, allowance, address)
        self.held_bytes += size
        try:
            await self._acquire(job, size, address)
            try:
                return await self._run(job, allowance, address)
            finally:
                self._release(address)
        finally:
            self.held_bytes -= size

    def _check_room(self, job: Job, size: int, allowance: CpuAllowance, address: str) -> None:
        if allowance.left_ms <= 0:
            raise self._refused(job, address, "the request's other records have used up its CPU time")
        if self.waiting_count >= JOBS_MAX:
            raise self._refused(job, address, f"{JOBS_MAX} jobs wait already")
        if self.held_bytes and self.held_bytes + size > self._waiting_bytes_max():
            raise self._refused(job, address, f"{self.held_bytes} bytes wait already")

    async def _acquire(self, job: Job, size: int, address: str) -> None:
        """Wait for a worker, and take it."""
        if self._may_run(address) and address not in self._waiting:
            self._running[address] = self._running.get(address, 0) + 1
            return
        waiting = _Waiting(job, size, address, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(address, deque()).append(waiting)
        self.waiting_count += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await waiting.start
        except BaseException as error:  # Raised again - the worker is released on every path.
            if waiting.start.done() and not waiting.start.cancelled():
                self._release(address)  # The worker was granted at the same moment.
            else:
                self._withdraw(waiting)
            if isinstance(error, TimeoutError):
                raise self._refused(job, address, f"it has waited for {WAIT_S:g} s") from None
            raise

    def _withdraw(self, waiting: _Waiting) -> None:
        queue = self._waiting.get(waiting.address)
        if queue is None or waiting not in queue:
            return  # Skipped after it was cancelled.
        queue.remove(waiting)
        self.waiting_count -= 1
        if not queue:
            del self._waiting[waiting.address]

    def _release(self, address: str) -> None:
        """Release a worker, and start waiting jobs."""
        self._running[address] -= 1
        if not self._running[address]:
            del self._running[address]
        if address in self._waiting:
            self._waiting.move_to_end(address)  # Others come first.
        for other in list(self._waiting):
            while other in self._waiting and self._may_run(other):
                self._start_next(other)

    def _start_next(self, address: str) -> None:
        """Give a worker to the oldest job of an address, unless that was cancelled."""
        queue = self._waiting[address]
        waiting = queue.popleft()
        self.waiting_count -= 1
        if queue:
            self._waiting.move_to_end(address)
        else:
            del self._waiting[address]
        if not waiting.start.done():
            self._running[address] = self._running.get(address, 0) + 1
            waiting.start.set_result(None)

    def _may_run(self, address: str) -> bool:
        workers = self._workers()
        return self.running_count < workers and self._running.get(address, 0) < max(workers - 1, 1)

    async def _run(self, job: Job, allowance: CpuAllowance, address: str) -> Outcome:
        try:
            done = await self.worker.run(job, min(allowance.left_ms, self._job_ms_max))
        except WorkerLost as error:
            allowance.left_ms -= self._job_ms_max
            raise self._refused(job, address, str(error)) from error
        allowance.left_ms -= done.cpu_ms
        self.totals.cpu_ms += done.cpu_ms
        self.totals.done += 1
        if isinstance(done.outcome, BaseException):
            raise done.outcome
        return done.outcome

    def _refused(self, job: Job, address: str, why: str) -> BrokerError:
        self.totals.refused += 1
        self._log.warning(
            "record job refused", peer=address, job=type(job).__name__.removesuffix("Job").lower(), reason=why
        )
        return BrokerError(RETRY, f"the records cannot be opened now: {why}")


def _size(job: Job) -> int:
    if isinstance(job, DecodeJob):
        return len(job.records) + sum(len(schema["text"]) for schema in job.schemas)
    if isinstance(job, CheckJob | FramesJob):
        return len(job.records)
    return len(job.batches) if isinstance(job, ConvertJob | CopyJob) else len(job.batch)
