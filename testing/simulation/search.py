"""`search`: many seeds of `simulate`, up to the first one with findings, within a time limit and with progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass
from typing import Any, Final, Self

from sordini.testing.arguments import ArgumentRefused, number
from sordini.testing.simulation.app import App
from sordini.testing.simulation.app_loop import OutOfTime
from sordini.testing.simulation.run import Plan
from sordini.testing.simulation.simulate import RUNS_MAX, Result, SimulationFailed, simulate

LIMIT_S: Final = 600.0
LIMIT_S_MAX: Final = 30 * 86_400
PROGRESS_S: Final = 2.0
"""Between two lines of progress."""


@dataclass(frozen=True, slots=True)
class Search:
    """Many seeds, up to the first one with findings."""

    runs: int
    failure: Result | None
    """The first run with findings, shrunk."""
    found: Result | None
    """The same run before it was shrunk."""
    virtual_s: float
    cpu_s: float
    left: str = ""
    """What the time limit has left out."""

    def check(self) -> Self:
        """Raises SimulationFailed when a seed had findings, or when the time limit came before the end of the first."""
        if self.failure is not None:
            raise SimulationFailed(self.failure.text())
        if self.left and not self.runs:
            raise SimulationFailed(self.left)
        return self

    def text(self) -> str:
        """The figures in a line."""
        rate = self.virtual_s / 60 / max(self.cpu_s, 1e-9)
        found = "nothing found" if self.found is None else f"seed {self.found.seed}: {self.found.findings[0]}"
        left = f" ({self.left})" if self.left else ""
        return (
            f"{self.runs} seeds, {self.virtual_s:.0f} virtual s, {rate:.1f} virtual minutes per CPU second; "
            f"{found}{left}"
        )


def search(
    app: App,
    seeds: Iterable[int] = range(200),
    *,
    shrinks: bool = True,
    on_run: Callable[[Result], object] | None = None,
    limit_s: float | None = LIMIT_S,
    progress: Callable[[str], object] | None = None,
    **settings: Any,
) -> Search:
    """Run `simulate` with each seed until one has findings, and shrink that one. `settings` are those of `simulate`.

    It ends after `limit_s` seconds of the machine's clock, in the middle of a run if need be; None: without a limit.
    `progress` is called with a line every other second; by default lines go to standard error. Raises ValueError.
    """
    if isinstance(seeds, str | bytes) or not isinstance(seeds, Iterable):
        raise ArgumentRefused("seeds", seeds, "whole numbers in a list, or a range such as range(200)")
    if limit_s is not None:
        number("limit_s", limit_s, 0, LIMIT_S_MAX)
    searching = _Searching(progress or _to_standard_error, limit_s, len(seeds) if isinstance(seeds, Sized) else None)
    for seed in seeds:
        searching.tell(lambda seed=seed: f"seed {seed}")  # type: ignore[misc]
        try:
            result = simulate(app, seed=seed, limit_s=searching.left_s(), **settings)
        except OutOfTime:
            return searching.ended(None, None, is_cut=True)
        searching.runs += 1
        searching.virtual_s += result.outcome.virtual_s
        if on_run is not None:
            on_run(result)
        if result.findings:
            failure = searching.shrunk(result) if shrinks else result
            return searching.ended(failure, result)
    return searching.ended(None, None)


class _Searching:
    """Where a search is."""

    def __init__(self, say: Callable[[str], object], limit_s: float | None, total: int | None) -> None:
        self.runs = 0
        self.virtual_s = 0.0
        self._say = say
        self._limit_s = limit_s
        self._of = "" if total is None else f" of {total}"
        self._began_s = self._reported_s = time.monotonic()
        self._began_cpu_s = time.process_time()
        self.end_s = None if limit_s is None else self._began_s + limit_s

    def left_s(self) -> float | None:
        """How long the next run may take."""
        return None if self.end_s is None else max(0.0, self.end_s - time.monotonic())

    def tell(self, text: Callable[[], str], *, now: bool = False) -> None:
        """Say what is done, unless something was said a moment ago."""
        now_s = time.monotonic()
        if now or now_s - self._reported_s >= PROGRESS_S:
            self._reported_s = now_s
            self._say(f"search: {text()}; {self.runs}{self._of} seeds in {now_s - self._began_s:.0f} s")

    def shrunk(self, found: Result) -> Result:
        """A smaller run, as far as the time limit allows."""
        self.tell(lambda: f"seed {found.seed} has findings, and is made smaller: {_first_line(found)}", now=True)

        def attempts(runs: int, smallest: Plan) -> None:
            faults = len(smallest.schedule)
            self.tell(lambda: f"attempt {runs} of {RUNS_MAX} to make seed {found.seed} smaller: {faults} faults")

        return found.shrink(RUNS_MAX, self.end_s, attempts)

    def ended(self, failure: Result | None, found: Result | None, *, is_cut: bool = False) -> Search:
        left = f"the time limit of {self._limit_s:g} s came after {self.runs}{self._of} seeds" if is_cut else ""
        if left:
            self.tell(lambda: left, now=True)
        cpu_s = time.process_time() - self._began_cpu_s
        return Search(self.runs, failure, found, self.virtual_s, cpu_s, left)


def _first_line(found: Result) -> str:
    return found.findings[0].partition("\n")[0]


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
