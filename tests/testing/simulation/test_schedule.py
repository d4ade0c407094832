"""The faults of a seed, and how a failing run is made smaller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sordini.testing.simulation.run import Outcome, Plan
from sordini.testing.simulation.schedule import (
    ALL,
    APPS,
    BROKERS,
    LINKS,
    SECONDS,
    Fault,
    FaultKind,
    draw,
    schedule_text,
)
from sordini.testing.simulation.shrinking import shrunk


async def _nothing(bootstrap_servers: str, scenario: object) -> None:
    """Is not called."""


def plan_of(*schedule: Fault, duration: float = 60.0) -> Plan:
    return Plan(
        app=_nothing,
        seed=1,
        schedule=schedule,
        duration=duration,
        calm=60.0,
        brokers=3,
        instances=1,
        topics={},
        load=None,
        settled=None,
        config={},
        blocked_max_s=None,
    )


def outcome_of(*findings: str) -> Outcome:
    return Outcome(findings=list(findings), digest="", virtual_s=0.0, cpu_s=0.0, steps=0, lines=[])


def failing_when(is_bad: Callable[[Plan], bool]) -> Callable[[Plan], Outcome]:
    return lambda plan: outcome_of("bad") if is_bad(plan) else outcome_of()


def test_a_seed_draws_the_same_faults_again_and_another_seed_draws_others():
    assert draw(7, ALL, 60, 3, 2) == draw(7, ALL, 60, 3, 2)
    assert draw(7, ALL, 60, 3, 2) != draw(8, ALL, 60, 3, 2)


def test_faults_are_of_the_allowed_kinds_within_the_run_and_of_what_exists():
    for seed in range(100):
        for fault in draw(seed, LINKS, 60, 3, 2):
            assert fault.kind in LINKS
            assert fault.at_s > 0
            assert fault.at_s + fault.seconds <= 60.001
            assert 1 <= fault.broker <= 3
            assert 1 <= fault.instance <= 2


def test_every_kind_is_drawn_by_some_seed():
    drawn = {fault.kind for seed in range(50) for fault in draw(seed, ALL, 60, 3, 2)}
    assert drawn == set(FaultKind) == {*BROKERS, *LINKS, *APPS} == set(SECONDS)


def test_without_kinds_there_are_no_faults():
    assert draw(1, (), 60, 3, 2) == []


def test_a_kind_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="meteor"):
        draw(1, ("meteor",), 60, 3, 2)


def test_a_schedule_is_printed_as_python_that_makes_it_again():
    schedule = draw(3, ALL, 60, 3, 2)
    assert eval(schedule_text(schedule), {"Fault": Fault}) == schedule
    assert schedule_text([]) == "[]"


def test_shrinking_keeps_the_faults_that_matter_and_drops_the_others():
    schedule = draw(2, ALL, 60, 3, 2)
    assert len(schedule) > 10
    needed = {schedule[4].at_s, schedule[9].at_s}
    smaller, outcome = shrunk(
        plan_of(*schedule),
        outcome_of("bad"),
        failing_when(lambda plan: needed <= {fault.at_s for fault in plan.schedule}),
        200,
    )
    assert {fault.at_s for fault in smaller.schedule} == needed
    assert outcome.findings == ["bad"]
    assert all(fault.seconds <= 0.5 for fault in smaller.schedule)
    assert smaller.duration == pytest.approx(max(needed) + 2.0)


def test_shrinking_stops_at_its_bound_and_returns_a_run_that_fails():
    runs = []

    def run(plan: Plan) -> Outcome:
        runs.append(plan)
        return outcome_of() if len(plan.schedule) < 3 else outcome_of("bad")

    smaller, outcome = shrunk(plan_of(*draw(2, ALL, 60, 3, 2)), outcome_of("bad"), run, 5)
    assert len(runs) == 5
    assert outcome.findings
    assert len(smaller.schedule) >= 3


def test_a_run_that_fails_without_faults_has_none_left():
    smaller, _ = shrunk(plan_of(*draw(2, ALL, 60, 3, 2)), outcome_of("bad"), failing_when(lambda _: True), 50)
    assert smaller.schedule == ()
    assert smaller.duration < 3
