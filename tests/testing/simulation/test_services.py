"""The example services under many seeds, and mistakes planted in them: `make simulate` runs all, other runs a part.

SORDINI_SIMULATE is `all`, or a number that selects other seeds of the right services, and other mistakes.

Client libraries iterate over sets of texts, so which seed finds a mistake depends on PYTHONHASHSEED.
"""

from __future__ import annotations

import os
import sys

import pytest

from examples.services.simulations import SIMULATIONS
from tests.support.parts import part_of
from tests.testing.simulation.planted_bugs import BUGS, Bug

QUICK = {
    "the committed offset is the record's own",
    "the loop is blocked",
    "aborted records are read",
    "a task ends with an exception that nothing awaits",
}
"""Mistakes that almost every seed finds."""


PART = os.environ.get("SORDINI_SIMULATE", "")
EACH, PARTS = 5, 40


def right_seeds(part: str) -> range:
    """Those of the right services: one of them, or a part."""
    everything = range(EACH * PARTS)
    if part == "all":
        return everything
    start = int(part or 0) % PARTS * EACH
    return everything[start : start + (EACH if part else 1)]


RIGHT_SEEDS = right_seeds(PART)


@pytest.mark.parametrize("name", SIMULATIONS)
def test_a_right_service_comes_to_rest_whatever_the_seed(name: str):
    found = SIMULATIONS[name].search(RIGHT_SEEDS).check()
    assert found.runs == len(RIGHT_SEEDS)
    sys.stdout.write(f"\n{name}: {found.text()}\n")


def chosen_bugs(part: str) -> list[Bug]:
    """All mistakes, or one of those that are found soon."""
    return list(BUGS) if part == "all" else part_of([bug for bug in BUGS if bug.name in QUICK], 1, part)


@pytest.mark.parametrize("bug", chosen_bugs(PART), ids=lambda bug: bug.name)
def test_a_planted_mistake_is_found(bug: Bug):
    found = bug.simulation.search(range(bug.seeds_max), shrinks=False)
    assert found.found is not None, f"not found in {found.runs} seeds"
    sys.stdout.write(f"\n{bug.service}, {bug.name}: {found.text()}\n")


def test_there_are_twenty_mistakes_and_more():
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= 20
    assert {bug.name for part in range(len(QUICK)) for bug in chosen_bugs(str(part))} == QUICK


def test_the_parts_together_are_all_seeds():
    found = [seed for part in range(PARTS, 2 * PARTS) for seed in right_seeds(str(part))]
    assert found == list(right_seeds("all"))
    assert set(right_seeds("")) < set(found)
