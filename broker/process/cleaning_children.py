"""Compaction in child processes of low priority, because no client waits for it."""

from __future__ import annotations

import asyncio
import errno
import sys
from collections.abc import Callable, Sequence
from typing import Any

from sordini.storage.cleaner import FailureKind, WorkerFailed
from sordini.storage.compaction import log_selection
from sordini.storage.compaction.task import CleaningResult, CleaningTask
from sordini.system.child_processes import IDLE_S, ChildFailed, Children

CLEANER = (sys.executable, "-m", "sordini.storage.compaction.child")
NICENESS = 10

_KINDS = {"full": FailureKind.FULL, "io": FailureKind.PASSING}


class CleaningChildren:
    """The `Worker` of a broker: one child for each concurrent cleaning."""

    def __init__(
        self,
        command: Sequence[str] = CLEANER,
        idle_s: float = IDLE_S,
        patience_s: Callable[[CleaningTask], float] = log_selection.patience_s,
    ) -> None:
        self._children = Children(command, idle_s, NICENESS)
        self._patience_s = patience_s

    @property
    def died(self) -> int:
        """Children that failed or were killed during their work."""
        return self._children.died

    @property
    def count(self) -> int:
        """Idle children."""
        return self._children.idle_count

    async def run(self, task: CleaningTask) -> CleaningResult:
        """Run a cleaning in a child; raises WorkerFailed, and then the child has ended unless it answered."""
        try:
            child = await self._children.take()
        except OSError as error:
            kind = (
                FailureKind.FULL if error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE) else FailureKind.PASSING
            )
            raise WorkerFailed(kind, f"no process could be started: {error}") from error
        try:
            async with asyncio.timeout(self._patience_s(task)):
                answer = await child.request(task.as_json())
        except TimeoutError:
            await self._children.lose(child)
            raise WorkerFailed(FailureKind.PASSING, f"no answer after {self._patience_s(task):.0f} s") from None
        except ChildFailed as error:
            await self._children.lose(child)
            raise WorkerFailed(FailureKind.PASSING, str(error)) from error
        except asyncio.CancelledError:
            self._children.drop(child)
            raise
        self._children.give_back(child)
        return _result(answer)

    async def close(self) -> None:
        """End every child, and wait for their ends. No `run` may be in progress."""
        await self._children.close()


def _result(answer: dict[str, Any]) -> CleaningResult:
    """Raises WorkerFailed."""
    try:
        if "error" in answer:
            raise WorkerFailed(_KINDS.get(answer.get("kind", ""), FailureKind.FINAL), str(answer["error"]))
        return CleaningResult.from_json(answer["result"])
    except (KeyError, TypeError, ValueError) as error:
        raise WorkerFailed(FailureKind.FINAL, f"invalid answer of a cleaner process: {error!r}") from error
