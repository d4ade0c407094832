"""Child processes for CPU-bound work that would block the loop: compaction, and jobs on records.

A child is started when there is work, gets one request at a time over its standard input and output, and ends after
some idle time: an idle broker has no children, a registry has one. It ends when its input is closed, so none survives
the broker. A child can be killed at any time, with what it has started, because it holds no state. Children that
compact have a low priority, because no client waits for them; clients do wait for jobs on records.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from typing import Any

from sordini.system.child_requests import SIZES

IDLE_S = 30.0
"""How long an idle child waits for more work: longer than the cleaner's pause."""
STOP_S = 5.0
LINE_BYTES_MAX = 64 * 1024 * 1024
"""A result of half a million segments."""


class ChildFailed(Exception):
    """The process ended, or its response is invalid."""


class Child:
    """One process that answers requests."""

    def __init__(self, process: Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._input = process.stdin
        self._output = process.stdout

    @classmethod
    async def start(cls, command: Sequence[str], niceness: int) -> Child:
        """Raises OSError."""
        # A new session: signals of a terminal or supervisor to the broker's process group do not reach the child.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES_MAX, start_new_session=True
        )
        if niceness:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, process.pid, niceness)
        return cls(process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a line of JSON and wait for the response, another line; raises ChildFailed."""
        return await self.request_line(json.dumps(request).encode() + b"\n")

    async def request_line(self, request: bytes) -> dict[str, Any]:
        """Send a line, with its end, and wait for the response, a line of JSON; raises ChildFailed."""
        try:
            self._input.write(request)
            await self._input.drain()
            line = await self._output.readline()
        except ConnectionError:
            raise await self._ended() from None
        except (OSError, ValueError) as error:
            raise ChildFailed(str(error)) from error
        if not line.endswith(b"\n"):
            raise await self._ended()
        return self._object(line)

    async def exchange(
        self, about: dict[str, Any], data: bytes | bytearray | memoryview, answer_bytes_max: int
    ) -> tuple[dict[str, Any], bytearray]:
        """Send a JSON object and bytes, and wait for an object and bytes; raises ChildFailed.

        A response larger than `answer_bytes_max` is not read.
        """
        text = json.dumps(about).encode()
        try:
            self._input.write(SIZES.pack(len(text), len(data)) + text)
            self._input.write(data)
            await self._input.drain()
            sizes = SIZES.unpack(await self._output.readexactly(SIZES.size))
            if sum(sizes) > answer_bytes_max:
                raise ChildFailed(f"process {self.pid} answered with {sum(sizes)} bytes of {answer_bytes_max}")
            answer = await self._output.readexactly(sizes[0])
            made = bytearray(await self._output.readexactly(sizes[1]))
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._ended() from None
        except OSError as error:
            raise ChildFailed(str(error)) from error
        return self._object(answer), made

    async def _ended(self) -> ChildFailed:
        """The error for a child that has closed a pipe, which is closed at its end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        if self.is_alive:
            return ChildFailed(f"process {self.pid} has closed its pipes")
        return ChildFailed(f"process {self.pid} ended with status {self._process.returncode}")

    def _object(self, text: bytes) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise ChildFailed(f"process {self.pid} answered with invalid JSON: {text[:100]!r}") from error
        return answer

    def kill(self) -> None:
        """Kill it, and the processes that it has started: they are in its session."""
        if self.is_alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._input.close()

    async def stop(self) -> None:
        """Close its input, so that it ends; kill it if it does not end in time."""
        self._input.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()


class Children:
    """A pool of processes of one kind, which grows with demand."""

    def __init__(self, command: Sequence[str], idle_s: float, niceness: int, retained: int = 0) -> None:
        """`retained` children do not end when they are idle."""
        self._command = command
        self._idle_s = idle_s
        self._retained = retained
        self._niceness = niceness
        self._idle: list[Child] = []
        self._endings: dict[Child, asyncio.Task[None]] = {}
        """Idle and ending children, with the task that ends each."""
        self.died = 0
        """Children that failed or were killed during their work."""

    @property
    def idle_count(self) -> int:
        """Idle children."""
        return len(self._idle)

    async def take(self) -> Child:
        """An idle child, or a new one; raises OSError. The caller calls `give_back`, `lose` or `drop` for it."""
        while self._idle:
            child = self._idle.pop()
            self._endings.pop(child).cancel()
            if child.is_alive:
                return child
        return await Child.start(self._command, self._niceness)

    def give_back(self, child: Child) -> None:
        self._idle.append(child)
        self._endings[child] = asyncio.create_task(self._end_idle(child))

    async def lose(self, child: Child) -> None:
        """Kill a child that failed, and wait for its end."""
        self.died += 1
        child.kill()
        await child.stop()

    def drop(self, child: Child) -> None:
        """Kill a child whose work was cancelled."""
        child.kill()
        self._endings[child] = asyncio.create_task(self._end(child))

    async def close(self) -> None:
        """End every child, and wait for their ends. None may be in use."""
        for child, ending in self._endings.items():
            ending.cancel()
            child.kill()
        await asyncio.gather(*(child.stop() for child in self._endings))
        self._idle.clear()
        self._endings.clear()

    async def _end_idle(self, child: Child) -> None:
        while True:
            await asyncio.sleep(self._idle_s)
            if len(self._idle) > self._retained:
                break
        self._idle.remove(child)
        await self._end(child)

    async def _end(self, child: Child) -> None:
        await child.stop()
        del self._endings[child]
