"""A slice of the seeded campaign, and every planted bug found by it. `make crash` runs the rest."""

from __future__ import annotations

import pytest

from tests.crash.campaign import first_finding, reported, run_seed, run_seeds
from tests.crash.planted import BUGS
from tests.crash.script import OPERATIONS, draw

SLICE = range(40)


def test_crashes_and_broken_disks_break_no_promise_of_the_log() -> None:
    summary = run_seeds(SLICE)
    assert not summary.findings, "\n".join(reported(*finding) for finding in summary.findings)
    assert summary.crashes > len(SLICE)
    assert {*OPERATIONS, "close"} <= summary.tally.keys()
    assert {"kills", "power losses", "clean stops", "start: kills", "start: power losses"} <= summary.tally.keys()


def test_the_same_seed_runs_the_same_way() -> None:
    assert str(draw(7)) == str(draw(7)) != str(draw(8))
    assert run_seed(7) == run_seed(7)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    found = first_finding(range(bug.seed, bug.seed + bug.seeds_max), name)
    assert found is not None, f"{bug.what} ({bug.seeds_max} seeds from {bug.seed})"
    # The very seed is silent without the bug: it was the bug that was found.
    assert not run_seed(found.seed).finding
