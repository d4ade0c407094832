"""The pool of child processes that run record jobs (`child.py`)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from sordini.broker.process.child_processes import IDLE_S, Child, ChildFailed, Children
from sordini.broker.record_jobs.ports import JobResult, WorkerLost
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.jobs import Job, job_as_wire, outcome_from_wire

OPENER = (sys.executable, "-m", "sordini.broker.record_jobs.child")
PATIENCE_S = 10.0
"""A child that has not answered by then hangs: its CPU time is limited to a tenth of this."""
ANSWER_BYTES_MAX = 128 * 1024 * 1024
"""More than any outcome has: stored batches are bounded by `max.message.bytes`, which may be this large."""


class RecordWorkerProcesses:
    """The `RecordWorker` of a broker: one child process per concurrent job."""

    def __init__(self, command: Sequence[str] = OPENER, idle_s: float = IDLE_S, patience_s: float = PATIENCE_S) -> None:
        self._children = Children(command, idle_s, niceness=0)
        self._patience_s = patience_s

    @property
    def died(self) -> int:
        return self._children.died

    async def run(self, job: Job, cpu_ms: int) -> JobResult:
        about, data = job_as_wire(job)
        try:
            child = await self._children.take()
        except OSError as error:
            raise WorkerLost(f"no process could be started: {error}") from error
        try:
            async with asyncio.timeout(self._patience_s):
                answer, made = await child.exchange(about | {"cpu_ms": cpu_ms}, data, ANSWER_BYTES_MAX)
            done = _done(child, answer, made)
        except TimeoutError:
            await self._children.lose(child)
            raise WorkerLost(f"no answer after {self._patience_s:g} s") from None
        except ChildFailed as error:
            await self._children.lose(child)
            raise WorkerLost(str(error)) from error
        except asyncio.CancelledError:
            self._children.drop(child)
            raise
        self._children.give_back(child)
        return done

    async def close(self) -> None:
        """End every child, and wait until the system has reaped them. No `run` may be in progress."""
        await self._children.close()


def _done(child: Child, answer: dict[str, Any], made: bytearray) -> JobResult:
    """Raises ChildFailed for a malformed answer."""
    try:
        if "bug" in answer:
            raise ChildFailed(f"process {child.pid} failed: {answer['bug']}")
        cpu_ms = int(answer["cpu_ms"])
        try:
            return JobResult(outcome_from_wire(answer, made), cpu_ms)
        except BrokerError as error:
            return JobResult(error, cpu_ms)
    except (KeyError, TypeError, ValueError) as error:
        raise ChildFailed(f"process {child.pid} sent a malformed answer: {error!r}") from error
