"""The pool of child processes that run record jobs (`child.py`)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from sordini.broker.records.jobs.ports import JobResult, NotInTime, ProcessEnded, WorkerLost
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.jobs import DecodeJob, Job, job_as_wire, outcome_from_wire
from sordini.system.child_processes import IDLE_S, Child, ChildFailed, Children

OPENER = (sys.executable, "-m", "sordini.broker.records.jobs.child")
DECODER = (sys.executable, "-m", "sordini.broker.records.schemas.decoding_child")
PATIENCE_S = 10.0
"""A child that has not answered by then hangs: its CPU time is limited to a tenth of this."""
DECODING_PATIENCE_S = 15.0
"""Of a DecodeJob, with three times the CPU time that one may take."""
DECODERS_MAX = 2
"""Processes that may end at the values of one DecodeJob."""
ANSWER_BYTES_MAX = 128 * 1024 * 1024
"""More than any outcome has: stored batches are bounded by `max.message.bytes`, which may be this large."""


class RecordWorkerProcesses:
    """The `RecordWorker` of a broker: one child process per concurrent job, and others for values and their schemas."""

    def __init__(
        self,
        command: Sequence[str] = OPENER,
        idle_s: float = IDLE_S,
        patience_s: float = PATIENCE_S,
        decoder: Sequence[str] = DECODER,
        decoding_patience_s: float = DECODING_PATIENCE_S,
    ) -> None:
        self._records = _Pool(command, idle_s, patience_s)
        self._values = _Pool(decoder, idle_s, decoding_patience_s)

    @property
    def died(self) -> int:
        return self._records.died + self._values.died

    async def run(self, job: Job, cpu_ms: int) -> JobResult:
        if not isinstance(job, DecodeJob):
            return await self._records.run(job, cpu_ms)
        return await self._decoded(job, cpu_ms)

    async def close(self) -> None:
        """End every child, and wait until the system has reaped them. No `run` may be in progress."""
        await self._records.close()
        await self._values.close()

    async def _decoded(self, job: DecodeJob, cpu_ms: int) -> JobResult:
        """Values that no process survives are refused for good: a producer would send them again and again.

        fastavro recurses without a limit and overflows the stack: values that are nested deeply end the process. An
        operator, too, or the system when memory is short, may end one, so the values have a second.
        """
        why = ""
        for _ in range(DECODERS_MAX):
            try:
                return await self._values.run(job, cpu_ms)
            except NotInTime as error:
                why = str(error)
                break
            except ProcessEnded as error:
                why = str(error)
        refused = BrokerError(ErrorCode.INVALID_RECORD, f"the values end the process that decodes them: {why}")
        return JobResult(refused, cpu_ms)


class _Pool:
    """The children of one command."""

    def __init__(self, command: Sequence[str], idle_s: float, patience_s: float) -> None:
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
            raise NotInTime(f"no answer after {self._patience_s:g} s") from None
        except ChildFailed as error:
            await self._children.lose(child)
            raise ProcessEnded(str(error)) from error
        except asyncio.CancelledError:
            self._children.drop(child)
            raise
        self._children.give_back(child)
        return done

    async def close(self) -> None:
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
