"""Bugs of consumer groups are found by what simulated members consume (`--planted` searches for all of them)."""

from __future__ import annotations

import pytest

from tests.sim.planted_bugs import BUGS, laws_broken, planted
from tests.sim.planted_static_bugs import STATIC_BUGS
from tests.support.parts import part_of

ALL_BUGS = (*BUGS, *STATIC_BUGS)
FIRST_SEED = 1
IN_THE_FIRST_SEED = {
    "a commit is answered, and not stored",
    "a fetch of offsets is one record ahead",
    "offsets are read back ahead when a group is loaded",
}
OF_STATIC_MEMBERS = {
    "a static member that is away is removed at once",
    "an instance id is not released by leaving",
    "a static member that is away is never removed",
}
"""Found in the first seed, too."""


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug.name in IN_THE_FIRST_SEED], ids=lambda bug: bug.name)
def test_a_bug_that_loses_or_skips_committed_offsets_is_found_by_its_law(bug):
    assert bug.law in laws_broken(bug, FIRST_SEED)


@pytest.mark.parametrize(
    "bug", part_of([bug for bug in STATIC_BUGS if bug.name in OF_STATIC_MEMBERS], 1), ids=lambda bug: bug.name
)
def test_a_bug_of_static_members_is_found_by_its_law(bug):
    assert bug.law in laws_broken(bug, FIRST_SEED)


@pytest.mark.parametrize("bug", ALL_BUGS, ids=lambda bug: bug.name)
def test_the_product_is_as_before_when_a_bug_is_removed_again(bug):
    right = bug.target.__dict__[bug.attribute]
    with planted(bug):
        assert bug.target.__dict__[bug.attribute] is not right
    assert bug.target.__dict__[bug.attribute] is right


def test_each_law_of_consumption_has_planted_bugs():
    assert {bug.law for bug in ALL_BUGS} == {"K1", "K2", "K3", "K4", "K5", "K6"}
