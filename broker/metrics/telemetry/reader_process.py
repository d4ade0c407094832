"""The `PushReader` of a broker: one child process (`child.py`), which ends after some idle time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, Final

from sordini.broker.metrics.telemetry.child import decoded_from_json
from sordini.broker.metrics.telemetry.ports import PushRead
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.system.child_processes import IDLE_S, Child, ChildFailed, Children

READER: Final = (sys.executable, "-m", "sordini.broker.metrics.telemetry.child")
NICENESS: Final = 5
"""No client waits for it with records."""
CPU_MS: Final = 2_000
"""For one push: twenty times of what a mebibyte of metrics takes."""
PATIENCE_S: Final = 20.0
"""A child that has not answered by then hangs."""
ANSWER_BYTES_MAX: Final = 16 * 1024 * 1024


class PushReaderProcess:
    """Reads pushes beside the broker."""

    def __init__(
        self,
        command: Sequence[str] = READER,
        idle_s: float = IDLE_S,
        patience_s: float = PATIENCE_S,
        cpu_ms: int = CPU_MS,
    ) -> None:
        self._children = Children(command, idle_s, NICENESS)
        self._patience_s = patience_s
        self._cpu_ms = cpu_ms

    @property
    def died(self) -> int:
        return self._children.died

    async def read(self, codec: int, data: bytes, bytes_max: int) -> PushRead:
        about = {"codec": codec, "bytes_max": bytes_max, "cpu_ms": self._cpu_ms}
        try:
            child = await self._children.take()
        except OSError as error:
            raise _failed(f"no process could be started: {error}") from error
        try:
            async with asyncio.timeout(self._patience_s):
                answer, _ = await child.exchange(about, data, ANSWER_BYTES_MAX)
            done = _done(child, answer)
        except TimeoutError:
            await self._children.lose(child)
            raise _failed(f"no answer after {self._patience_s:g} s") from None
        except ChildFailed as error:
            await self._children.lose(child)
            raise _failed(str(error)) from error
        except asyncio.CancelledError:
            self._children.drop(child)
            raise
        self._children.give_back(child)
        if isinstance(done, str):
            raise BrokerError(ErrorCode.INVALID_RECORD, done)
        return done

    async def close(self) -> None:
        """End the child, and wait until the system has reaped it. No `read` may be in progress."""
        await self._children.close()


def _failed(why: str) -> BrokerError:
    # Not INVALID_RECORD, after which a client pushes nothing for the rest of its life: the fault is on this side.
    return BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, f"the metrics cannot be read: {why}")


def _done(child: Child, answer: dict[str, Any]) -> PushRead | str:
    """What was read, or why it is refused. Raises ChildFailed for a malformed answer."""
    try:
        if "bug" in answer:
            raise ChildFailed(f"process {child.pid} failed: {answer['bug']}")
        if "refused" in answer:
            return str(answer["refused"])
        return PushRead(decoded_from_json(answer), int(answer["cpu_ms"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ChildFailed(f"process {child.pid} sent a malformed answer: {error!r}") from error
