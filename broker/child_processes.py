"""Processes beside the broker for work that would hold its loop: compaction.

Each is started when there is work for it, is asked one thing at a time over its standard input and output, a line of
JSON each way, and ends when it has had nothing to do for a while: an idle broker has no children. It ends with its
input, so that none survives the broker, whatever ends that; a sudden end is a kill, for a child holds nothing that
would be lost. Its priority is low: requests go first.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from typing import Any

from sordini.storage.cleaner import FailureKind, WorkerFailed
from sordini.storage.compaction import policy
from sordini.storage.compaction.task import CleaningResult, CleaningTask

CLEANER = (sys.executable, "-m", "sordini.storage.compaction.child")
IDLE_S = 30.0
"""How long a child waits for more work: longer than the cleaner's pause, shorter than anybody counts its memory."""
STOP_S = 5.0
NICENESS = 10
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A result of half a million segments."""

_KINDS = {"full": FailureKind.FULL, "io": FailureKind.PASSING}


class ChildFailed(Exception):
    """The process died, or said what is no answer."""


class Child:
    """One process that answers a line with a line."""

    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = process.stdout

    @classmethod
    async def start(cls, command: Sequence[str]) -> Child:
        """Raises OSError."""
        # A session of its own: what a terminal or a supervisor signals to the broker's group is the broker's business.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX, start_new_session=True
        )
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send a question and wait for its answer; raises ChildFailed."""
        try:
            self._input.write(json.dumps(question).encode() + b"\n")
            await self._input.drain()
            line = await self._output.readline()
        except (OSError, ValueError) as error:
            raise ChildFailed(str(error)) from error
        if not line.endswith(b"\n"):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_S)
            raise ChildFailed(f"process {self.pid} ended with status {self._process.returncode}")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            raise ChildFailed(f"process {self.pid} said what is no JSON: {line[:100]!r}") from error
        return answer

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._input.close()

    async def stop(self) -> None:
        """End its input, and it with that; kill it if it does not end in time."""
        self._input.close()
        try:
            await asyncio.wait_for(self._process.wait(), STOP_S)
        except TimeoutError:
            self.kill()
            await self._process.wait()


class CleaningChildren:
    """The `Worker` of a broker: as many children as there are cleanings under way at once."""

    def __init__(
        self,
        command: Sequence[str] = CLEANER,
        idle_s: float = IDLE_S,
        patience_s: Callable[[CleaningTask], float] = policy.patience_s,
    ) -> None:
        self._command = command
        self._idle_s = idle_s
        self._patience_s = patience_s
        self._idle: list[Child] = []
        self._endings: dict[Child, asyncio.Task[None]] = {}
        """Idle children, and those that are on their way out, with what waits to end them."""
        self._died = 0

    @property
    def died(self) -> int:
        """Children that ended, or had to be ended, in the middle of their work."""
        return self._died

    @property
    def count(self) -> int:
        """Children that have nothing to do and are still there."""
        return len(self._idle)

    async def run(self, task: CleaningTask) -> CleaningResult:
        """Have one child do a cleaning; raises WorkerFailed, and then that child has ended unless it answered."""
        child = await self._take()
        try:
            async with asyncio.timeout(self._patience_s(task)):
                answer = await child.ask(task.as_json())
        except TimeoutError:
            await self._lose(child)
            raise WorkerFailed(FailureKind.PASSING, f"no answer after {self._patience_s(task):.0f} s") from None
        except ChildFailed as error:
            await self._lose(child)
            raise WorkerFailed(FailureKind.PASSING, str(error)) from error
        except asyncio.CancelledError:
            child.kill()
            self._endings[child] = asyncio.create_task(self._end(child))
            raise
        self._give_back(child)
        return _result(answer)

    async def close(self) -> None:
        """End every child, and wait until the system has let go of them. No `run` may be under way."""
        for child, ending in self._endings.items():
            ending.cancel()
            child.kill()
        await asyncio.gather(*(child.stop() for child in self._endings))
        self._idle.clear()
        self._endings.clear()

    async def _take(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            self._endings.pop(child).cancel()
            if child.is_alive:
                return child
        try:
            return await Child.start(self._command)
        except OSError as error:
            kind = (
                FailureKind.FULL if error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE) else FailureKind.PASSING
            )
            raise WorkerFailed(kind, f"no process could be started: {error}") from error

    async def _lose(self, child: Child) -> None:
        self._died += 1
        child.kill()
        await child.stop()

    def _give_back(self, child: Child) -> None:
        self._idle.append(child)
        self._endings[child] = asyncio.create_task(self._end_idle(child))

    async def _end_idle(self, child: Child) -> None:
        await asyncio.sleep(self._idle_s)
        self._idle.remove(child)
        await self._end(child)

    async def _end(self, child: Child) -> None:
        await child.stop()
        del self._endings[child]


def _result(answer: dict[str, Any]) -> CleaningResult:
    """Raises WorkerFailed."""
    try:
        if "error" in answer:
            raise WorkerFailed(_KINDS.get(answer.get("kind", ""), FailureKind.FINAL), str(answer["error"]))
        return CleaningResult.from_json(answer["result"])
    except (KeyError, TypeError, ValueError) as error:
        raise WorkerFailed(FailureKind.FINAL, f"an answer that is none: {error!r}") from error
