"""What a command shows on a terminal while it waits for a cluster."""

from __future__ import annotations

import asyncio
import io
import sys

import pytest

from sordini.cli.common.output import PROGRESS_MS
from sordini.cli.common.waiting_line import FIRST_MS, waiting_line
from sordini.testing.simulation.virtual_loop import SimLoop, elapse, run
from tests.unit.cli.common.test_output import Terminal


class LoopClock:
    """The virtual time of the running loop."""

    def now_ms(self) -> int:
        return self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)


def written(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, wait_ms: int) -> str:
    """What a wait of some milliseconds leaves on the standard error."""

    async def main() -> None:
        async with waiting_line("waiting for kafka:9092", LoopClock()):
            await elapse(wait_ms / 1000)

    monkeypatch.setattr(sys, "stderr", stream)
    run(SimLoop(1), main())
    return stream.getvalue()


def test_what_takes_longer_than_a_second_is_named_with_its_seconds_and_nothing_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "waiting for kafka:9092 (1 s)"
    shown = written(monkeypatch, Terminal(), FIRST_MS + PROGRESS_MS // 2)
    assert shown == f"\r{text}\r{' ' * len(text)}\r"
    assert "(2 s)" in written(monkeypatch, Terminal(), 2 * FIRST_MS + PROGRESS_MS)


def test_what_is_answered_within_a_second_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, Terminal(), FIRST_MS - 1) == ""


def test_where_there_is_no_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert written(monkeypatch, io.StringIO(), 10 * FIRST_MS) == ""
