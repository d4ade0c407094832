"""Which jobs run, which wait, and which are refused."""

from __future__ import annotations

import asyncio

import pytest

from sordini.broker.records.jobs.ports import JobResult, WorkerLost
from sordini.broker.records.jobs.queue import CPU_MS_PER_MIB, JOBS_MAX, RETRY, WAIT_S, CpuAllowance, JobQueue
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import Found, Job, SearchJob
from sordini.testing.simulation.virtual_loop import SimLoop, elapse, run
from tests.support.fake_ports import ListLog

OUTCOME = Found(None)


class Gates:
    """A worker whose jobs a test ends."""

    died = 0

    def __init__(self) -> None:
        self.running: dict[bytes, asyncio.Future[JobResult]] = {}
        self.allowed_ms: list[int] = []
        self.most = 0

    async def run(self, job: Job, cpu_ms: int) -> JobResult:
        assert isinstance(job, SearchJob)
        self.allowed_ms.append(cpu_ms)
        ended = self.running[job.batch] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.running))
        try:
            return await ended
        finally:
            del self.running[job.batch]

    def end(self, name: bytes, cpu_ms: int = 1, *, error: BrokerError | None = None) -> None:
        self.running[name].set_result(JobResult(OUTCOME if error is None else error, cpu_ms))

    async def close(self) -> None: ...


class Bench:
    def __init__(self, workers: int = 2, bytes_max: int = 1_000) -> None:
        self.worker = Gates()
        self.log = ListLog()
        self.queue = JobQueue(self.worker, lambda: workers, lambda: bytes_max, self.log)

    def ask(self, name: bytes, address: str = "a", allowance: CpuAllowance | None = None) -> asyncio.Task[object]:
        allowance = allowance or CpuAllowance(0)
        return asyncio.ensure_future(self.queue.run(SearchJob(name, 0, 0), allowance, address))

    @property
    def running(self) -> list[bytes]:
        return sorted(self.worker.running)

    def is_empty(self) -> bool:
        queue = self.queue
        return (queue.running_count, queue.waiting_count, queue.held_bytes) == (0, 0, 0)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_worker_is_reserved_for_other_addresses() -> None:
    bench = Bench(workers=2)
    mine = [bench.ask(b"a%d" % number) for number in range(5)]
    await settle()
    assert bench.running == [b"a0"]
    other = bench.ask(b"b", "b")
    await settle()
    assert bench.running == [b"a0", b"b"]
    bench.worker.end(b"b")
    for number in range(5):
        await settle()
        assert bench.running == [b"a%d" % number]
        bench.worker.end(b"a%d" % number)
    assert await asyncio.gather(*mine, other) == [OUTCOME] * 6
    assert bench.is_empty()
    assert bench.queue.totals.done == 6


async def test_addresses_are_served_round_robin_and_at_most_the_workers_run() -> None:
    bench = Bench(workers=1)
    tasks = [bench.ask(b"%s%d" % (name.encode(), number), name) for name in "abc" for number in range(2)]
    order = []
    while len(order) < 6:
        await settle()
        [name] = bench.running
        order.append(name)
        bench.worker.end(name)
    assert order == [b"a0", b"b0", b"c0", b"a1", b"b1", b"c1"]
    assert bench.worker.most == 1
    await asyncio.gather(*tasks)


async def test_more_bytes_than_may_wait_are_refused_at_once_and_logged() -> None:
    bench = Bench(bytes_max=10)
    first = bench.ask(b"x" * 50)
    await settle()
    with pytest.raises(BrokerError, match="50 bytes wait already") as refusal:
        await bench.ask(b"y")
    assert refusal.value.code == RETRY == ErrorCode.NOT_ENOUGH_REPLICAS
    assert bench.queue.totals.refused == 1
    [(level, event, fields)] = [line[:3] for line in bench.log.lines]
    assert (level, event, fields["peer"]) == ("warning", "record job refused", "a")
    bench.worker.end(b"x" * 50)
    await first
    assert bench.is_empty()


async def test_more_jobs_than_may_wait_are_refused() -> None:
    bench = Bench(workers=1, bytes_max=10**9)
    tasks = [bench.ask(b"%d" % number) for number in range(JOBS_MAX + 1)]
    await settle()
    assert bench.queue.waiting_count == JOBS_MAX
    with pytest.raises(BrokerError, match="jobs wait already"):
        await bench.ask(b"y")
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert bench.is_empty()


def test_a_job_that_has_waited_for_long_is_refused() -> None:
    async def main() -> None:
        bench = Bench(workers=1)
        first, second = bench.ask(b"1"), bench.ask(b"2")
        await elapse(WAIT_S - 0.1)
        assert not second.done()
        await elapse(0.2)
        assert isinstance(second.exception(), BrokerError)
        bench.worker.end(b"1")
        await first
        assert bench.is_empty()

    run(SimLoop(1), main())


async def test_a_cancelled_job_leaves_its_worker_to_the_next() -> None:
    bench = Bench(workers=1)
    tasks = [bench.ask(b"%d" % number) for number in range(4)]
    await settle()
    tasks[1].cancel()
    tasks[0].cancel()
    await settle()
    assert bench.running == [b"2"]
    bench.worker.end(b"2")
    await settle()
    bench.worker.end(b"3")
    await asyncio.gather(*tasks, return_exceptions=True)
    assert bench.is_empty()


async def test_the_jobs_of_a_request_spend_its_time() -> None:
    bench = Bench()
    allowance = CpuAllowance(1)
    for cpu_ms in (CPU_MS_PER_MIB - 100, 200):
        task = bench.ask(b"1", allowance=allowance)
        await settle()
        bench.worker.end(b"1", cpu_ms)
        await task
    assert bench.worker.allowed_ms == [CPU_MS_PER_MIB, 100]
    with pytest.raises(BrokerError, match="used up its CPU time"):
        await bench.ask(b"1", allowance=allowance)
    assert CpuAllowance(1024 * 1024 + 1).left_ms == 2 * CPU_MS_PER_MIB
    assert bench.queue.totals.cpu_ms == CPU_MS_PER_MIB + 100


async def test_a_job_whose_process_is_lost_is_refused_for_now() -> None:
    bench = Bench()
    task = bench.ask(b"1")
    await settle()
    bench.worker.running[b"1"].set_exception(WorkerLost("it died"))
    with pytest.raises(BrokerError, match="it died") as refusal:
        await task
    assert refusal.value.code == RETRY
    assert bench.is_empty()


async def test_a_jobs_own_refusal_is_no_refusal_of_the_queue() -> None:
    bench = Bench()
    task = bench.ask(b"1")
    await settle()
    bench.worker.end(b"1", error=BrokerError(ErrorCode.CORRUPT_MESSAGE, "it is damaged"))
    with pytest.raises(BrokerError, match="it is damaged"):
        await task
    assert (bench.queue.totals.refused, bench.queue.totals.done) == (0, 1)
