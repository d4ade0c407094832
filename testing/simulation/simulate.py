"""`simulate`: an application and a cluster under the faults of one seed."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Self

from sordini.testing.arguments import INT32_MAX, ArgumentRefused, number, partitions_by_topic, texts, whole
from sordini.testing.owned_keys import broker_settings
from sordini.testing.simulation.app import App
from sordini.testing.simulation.run import Outcome, Plan, Settled, run_plan
from sordini.testing.simulation.schedule import ALL, Fault, draw, schedule_text
from sordini.testing.simulation.shrinking import shrunk

LINES_SHOWN: Final = 120
DURATION_S: Final = 60.0
RUNS_MAX: Final = 40
"""Attempts to make a run smaller."""
BROKERS_MAX: Final = 9
INSTANCES_MAX: Final = 99
VIRTUAL_S_MAX: Final = 30 * 86_400
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

    def shrink(
        self,
        runs_max: int = RUNS_MAX,
        end_s: float | None = None,
        on_attempt: Callable[[int, Plan], object] = lambda _runs, _smallest: None,
    ) -> Result:
        """A run with fewer faults and a shorter one, if there is one with findings, after `runs_max` attempts.

        It ends at `end_s` of the machine's monotonic clock with the smallest found until then. `on_attempt` is called
        before each attempt with its number and the smallest plan.
        """
        run = partial(run_plan, end_s=end_s)
        plan, outcome = shrunk(self.plan, self.outcome, run, runs_max, on_attempt)
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
    faults: Iterable[str] = ALL,
    duration: float = DURATION_S,
    calm: float = CALM_S,
    brokers: int = 3,
    instances: int = 1,
    topics: Mapping[str, int] | Iterable[str] | None = None,
    load: App | None = None,
    settled: Settled | None = None,
    schedule: Fault | Iterable[Fault] | None = None,
    config: Mapping[str, object] | None = None,
    blocked_max_s: float | None = 1.0,
    log_level: int = logging.WARNING,
    limit_s: float | None = None,
) -> Result:
    """Run an application together with a cluster on one seeded loop, in virtual time.

    `app` is called once for each of `instances`, and again after each of its crashes. `load` is called once; no fault
    strikes it. `duration` is how long faults are struck, of the kinds of `faults` as drawn from the seed, or as
    `schedule` says. After that `settled` must hold within `calm`, by default that all groups have committed all there
    is. All times are virtual seconds, but for `limit_s`: a run that takes longer on the machine's clock raises
    OutOfTime. Raises ValueError for a kind of fault or a key of `config` that does not exist, and for whatever else
    cannot mean anything.
    """
    whole("seed", seed, -INT32_MAX, INT32_MAX)
    whole("brokers", brokers, 1, BROKERS_MAX)
    whole("instances", instances, 1, INSTANCES_MAX)
    number("duration", duration, 0, VIRTUAL_S_MAX)
    number("calm", calm, 0, VIRTUAL_S_MAX)
    if schedule is None:
        schedule = draw(seed, texts("faults", faults), duration, brokers, instances)
    plan = Plan(
        app=app,
        seed=seed,
        schedule=_faults(schedule, brokers, instances),
        duration=duration,
        calm=calm,
        brokers=brokers,
        instances=instances,
        topics=partitions_by_topic("topics", topics),
        load=load,
        settled=settled,
        config=broker_settings(config),
        blocked_max_s=blocked_max_s,
        log_level=log_level,
    )
    end_s = None if limit_s is None else time.monotonic() + number("limit_s", limit_s, 0, VIRTUAL_S_MAX)
    return Result(plan, run_plan(plan, end_s))


def _faults(given: Any, brokers: int, instances: int) -> tuple[Fault, ...]:
    """A single fault is a list of one: it is a tuple, too, but not one of faults. Raises ArgumentRefused."""
    found = (given,) if isinstance(given, Fault) else tuple(given) if isinstance(given, Iterable) else (given,)
    for fault in found:
        if not isinstance(fault, Fault):
            raise ArgumentRefused("schedule", given, "a Fault, or several in a list")
        if fault.kind not in ALL:
            raise ArgumentRefused("kind", fault.kind, f"one of {', '.join(ALL)}")
        whole("broker", fault.broker, 1, brokers)
        whole("instance", fault.instance, 1, instances)
        number("at_s", fault.at_s, 0, VIRTUAL_S_MAX)
        number("seconds", fault.seconds, 0, VIRTUAL_S_MAX)
    return found


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
