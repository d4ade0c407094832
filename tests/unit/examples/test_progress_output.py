"""What an example says while it runs: few lines, and on a terminal one that renews itself."""

from __future__ import annotations

import io

from examples.progress_output import QUIET_SECONDS, ProgressOutput


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def run(out: io.StringIO) -> str:
    """A step that lasts a minute and reports twice a second, between two others."""
    clock = Clock()
    tell = ProgressOutput(out, clock)
    tell("begin")
    for half in range(120):
        clock.now = 100.0 + half / 2
        tell.passing(f"{half} records")
    tell("end")
    return out.getvalue()


def test_on_a_terminal_a_step_that_goes_on_renews_one_line() -> None:
    said = run(Terminal())
    assert said.count("\n") == 2
    assert said.startswith("   0.0 s  begin\n\r\x1b[K   0.0 s  0 records\r\x1b[K   0.5 s  1 records")
    assert said.endswith("\r\x1b[K  59.5 s  119 records\r\x1b[K  59.5 s  end\n")


def test_elsewhere_it_says_so_now_and_then() -> None:
    lines = run(io.StringIO()).splitlines()
    assert len(lines) == 2 + int(59.5 // QUIET_SECONDS)
    assert lines[1] == f"{QUIET_SECONDS:6.1f} s  {QUIET_SECONDS * 2:.0f} records"
