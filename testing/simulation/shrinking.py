"""Makes a failing run smaller: fewer faults, shorter ones, a shorter run. Each attempt is a run of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from sordini.testing.simulation.app_loop import OutOfTime
from sordini.testing.simulation.run import Outcome, Plan
from sordini.testing.simulation.schedule import Fault

SHORTER: Final = 0.5
LEAST_S: Final = 0.2
TAIL_S: Final = 2.0
"""A run lasts at least so long after the begin of its last fault."""


def shrunk(
    plan: Plan,
    outcome: Outcome,
    run: Callable[[Plan], Outcome],
    runs_max: int,
    on_attempt: Callable[[int, Plan], object] = lambda _runs, _smallest: None,
) -> tuple[Plan, Outcome]:
    """The smallest plan found that has findings, and its outcome. Anything wrong counts, not only what was wrong.

    When `run` raises OutOfTime, that is the smallest one found until then.
    """
    runs = 0
    while True:
        for smaller in _smaller(plan):
            if runs >= runs_max:
                return plan, outcome
            runs += 1
            on_attempt(runs, plan)
            try:
                attempted = run(smaller)
            except OutOfTime:
                return plan, outcome
            if attempted.findings:
                plan, outcome = smaller, attempted
                break
        else:
            return plan, outcome


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Candidates, those first that save most."""
    faults = plan.schedule
    size = len(faults)
    while size:
        for start in range(0, len(faults), size):
            yield _with(plan, faults[:start] + faults[start + size :])
        size //= 2
    end_s = max((fault.at_s + TAIL_S for fault in faults), default=TAIL_S)
    for shorter in (end_s, plan.duration * SHORTER):
        if end_s <= shorter < plan.duration * 0.9:
            yield replace(plan, duration=round(shorter, 3))
    for index, fault in enumerate(faults):
        if fault.seconds > 2 * LEAST_S:
            shorter_fault = fault._replace(seconds=round(fault.seconds * SHORTER, 3))
            yield _with(plan, (*faults[:index], shorter_fault, *faults[index + 1 :]))


def _with(plan: Plan, faults: tuple[Fault, ...]) -> Plan:
    return replace(plan, schedule=faults)
