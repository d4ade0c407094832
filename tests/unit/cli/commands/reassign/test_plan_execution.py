"""Progress of a plan where it is read: on a terminal, and in a pipe or a file."""

from __future__ import annotations

import io
import sys

import pytest

from sordini.cli.commands.reassign.plan_execution import LINE_MS, Display
from sordini.cli.common.output import PROGRESS_MS
from tests.unit.cli.common.test_output import StoppedClock, Terminal


def test_in_a_pipe_progress_is_a_line_at_once_and_then_one_for_each_change_and_no_more_often_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, pipe = StoppedClock(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    display = Display(clock)
    for time_ms, text in enumerate(["three left", "two left", "one left"]):
        clock.time_ms = time_ms
        display.show(text)
    clock.time_ms = LINE_MS
    display.show("three left")
    display.show("one left")
    display.clear()
    assert pipe.getvalue() == "three left\none left\n"


def test_on_a_terminal_progress_is_one_line_that_is_never_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, terminal = StoppedClock(), Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    display = Display(clock)
    clock.time_ms = PROGRESS_MS
    display.show("a" * 50)
    display.clear()
    assert terminal.getvalue() == f"\r{'a' * 19}\r{' ' * 19}\r"
