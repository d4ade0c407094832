"""A command that waits says for what, on a terminal: in one line, from the second second on, gone with the answer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from sordini.cli.common.output import PROGRESS_MS, ProgressLine
from sordini.cli.common.terminal import is_terminal
from sordini.replication.ports import Clock
from sordini.system.clock import SystemClock

FIRST_MS: Final = 1_000


@asynccontextmanager
async def waiting_line(what: str, clock: Clock | None = None) -> AsyncIterator[None]:
    """Show `what` and the seconds while the block runs. The block writes nothing to the terminal itself."""
    if not is_terminal(sys.stderr):
        yield
        return
    clock = clock or SystemClock()
    line = ProgressLine(clock)
    shown = asyncio.create_task(_show(what, clock, line))
    try:
        yield
    finally:
        shown.cancel()
        line.clear()


async def _show(what: str, clock: Clock, line: ProgressLine) -> None:
    began_ms = clock.monotonic_ms()
    await asyncio.sleep(FIRST_MS / 1000)
    while True:
        line.show(f"{what} ({(clock.monotonic_ms() - began_ms) // 1000} s)")
        await asyncio.sleep(PROGRESS_MS / 1000)
