"""`simulate` and `search`: an application and a cluster under the faults of one seed, or of many."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from sordini.testing.simulation.app import App
from sordini.testing.simulation.run import Outcome, Plan, Settled, run_plan
from sordini.testing.simulation.schedule import ALL, Fault, draw, schedule_text
from sordini.testing.simulation.shrinking import shrunk

LINES_SHOWN: Final = 120
DURATION_S: Final = 60.0
CALM_S: Final = 400.0
"""Clients that miss a change of leader find it when their metadata is five minutes old, their default."""


class SimulationFailed(AssertionError):
    """A run had findings; the text has them, how to repeat the run, and its transcript."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run and how it ended."""

    plan: Plan
    outcome: Outcome

    @property
    def seed(self) -> int:
        return self.plan.seed

    @property
    def findings(self) -> list[str]:
        """What was wrong; nothing, if the application is right in this run."""
        return self.outcome.findings

    @property
    def digest(self) -> str:
        """Equal for two runs that did the same."""
        return self.outcome.digest

    @property
    def schedule(self) -> tuple[Fault, ...]:
        """The faults that were struck."""
        return self.plan.schedule

    @property
    def transcript(self) -> list[str]:
        """What happened, oldest first."""
        return self.outcome.lines

    def check(self) -> Self:
        """Raises SimulationFailed when there are findings."""
        if self.findings:
            raise SimulationFailed(self.text())
        return self

    def replay(self, log_level: int | None = None) -> Result:
        """The same run again; with a lower level of `logging` the transcript has more lines."""
        plan = self.plan if log_level is None else replace(self.plan, log_level=log_level)
        return Result(plan, run_plan(plan))

    def shrink(self, runs_max: int = 40) -> Result:
        """A run with fewer faults and a shorter one, if there is one with findings, after `runs_max` attempts."""
        plan, outcome = shrunk(self.plan, self.outcome, run_plan, runs_max)
        return Result(plan, outcome)

    def text(self, lines: int = LINES_SHOWN) -> str:
        """For people."""
        plan = self.plan
        return "\n".join(
            [
                f"seed {plan.seed}, {len(plan.schedule)} faults in {plan.duration:g} s: {len(self.findings)} findings",
                *(f"- {finding}" for finding in self.findings),
                "",
                *self.transcript[-lines:],
                "",
                f"To repeat it{_hash_seed()}:",
                f"simulate(..., seed={plan.seed}, duration={plan.duration:g}, schedule={schedule_text(plan.schedule)})",
                f"digest {self.digest[:16]}",
            ]
        )


def simulate(
    app: App,
    *,
    seed: int,
    faults: Collection[str] = ALL,
    duration: float = DURATION_S,
    calm: float = CALM_S,
    brokers: int = 3,
    instances: int = 1,
    topics: Mapping[str, int] | None = None,
    load: App | None = None,
    settled: Settled | None = None,
    schedule: Sequence[Fault] | None = None,
    config: Mapping[str, str] | None = None,
    blocked_max_s: float | None = 1.0,
    log_level: int = logging.WARNING,
) -> Result:
    """Run an application together with a cluster on one seeded loop, in virtual time.

    `app` is called once for each of `instances`, and again after each of its crashes. `load` is called once; no fault
    strikes it. `duration` is how long faults are struck, of the kinds of `faults` as drawn from the seed, or as
    `schedule` says. After that `settled` must hold within `calm`, by default that all groups have committed all there
    is. All times are virtual seconds. Raises ValueError for a kind of fault or a key of `config` that does not exist.
    """
    if schedule is None:
        schedule = draw(seed, faults, duration, brokers, instances)
    plan = Plan(
        app=app,
        seed=seed,
        schedule=tuple(schedule),
        duration=duration,
        calm=calm,
        brokers=brokers,
        instances=instances,
        topics=dict(topics or {}),
        load=load,
        settled=settled,
        config=dict(config or {}),
        blocked_max_s=blocked_max_s,
        log_level=log_level,
    )
    return Result(plan, run_plan(plan))


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

    def check(self) -> Self:
        """Raises SimulationFailed when a seed had findings."""
        if self.failure is not None:
            raise SimulationFailed(self.failure.text())
        return self

    def text(self) -> str:
        """The figures in a line."""
        rate = self.virtual_s / 60 / max(self.cpu_s, 1e-9)
        found = "nothing found" if self.found is None else f"seed {self.found.seed}: {self.found.findings[0]}"
        return f"{self.runs} seeds, {self.virtual_s:.0f} virtual s, {rate:.1f} virtual minutes per CPU second; {found}"


def search(
    app: App,
    seeds: Iterable[int] = range(200),
    *,
    shrinks: bool = True,
    on_run: Callable[[Result], object] | None = None,
    **settings: Any,
) -> Search:
    """Run `simulate` with each seed until one has findings, and shrink that one. `settings` are those of `simulate`."""
    began_s, virtual_s, runs = time.process_time(), 0.0, 0
    for seed in seeds:
        result = simulate(app, seed=seed, **settings)
        runs += 1
        virtual_s += result.outcome.virtual_s
        if on_run is not None:
            on_run(result)
        if result.findings:
            failure = result.shrink() if shrinks else result
            return Search(runs, failure, result, virtual_s, time.process_time() - began_s)
    return Search(runs, None, None, virtual_s, time.process_time() - began_s)


def _hash_seed() -> str:
    """Sets of texts are ordered by it, and clients use such sets."""
    fixed = os.environ.get("PYTHONHASHSEED", "random")
    if not sys.flags.hash_randomization:
        return " (with PYTHONHASHSEED=0)"
    return (
        " in this process (set PYTHONHASHSEED=0 to repeat runs in others)"
        if fixed == "random"
        else f" (with PYTHONHASHSEED={fixed})"
    )
