"""A campaign of many seeds."""

from __future__ import annotations

import pytest

from tests.sim.cluster.campaign import ALL_BUGS, report, run_one
from tests.sim.cluster.plan import ClusterScenario
from tests.sim.cluster.planted_bugs import planted


def _without_a_plan(seed: int) -> ClusterScenario:
    raise ValueError(f"no plan of {seed}")


def test_an_exception_that_escapes_a_run_is_a_finding_of_its_seed():
    verdict = run_one(4711, _without_a_plan)
    assert verdict.text().startswith("seed 4711: 1 findings")
    assert "ValueError('no plan of 4711')" in verdict.findings[0]
    assert "_without_a_plan" in verdict.findings[0]
    assert report([verdict], 1.0).endswith("1 findings in seeds 4711")


@pytest.mark.parametrize("bug", ALL_BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_in_the_product_for_a_while_and_gone_after_it(bug):
    places = [(target, attribute) for target, attribute, _ in ((bug.target, bug.attribute, bug.change), *bug.more)]
    right = [target.__dict__[attribute] for target, attribute in places]
    with planted(bug):
        changed = [target.__dict__[attribute] for target, attribute in places]
    assert all(one is not other for one, other in zip(changed, right, strict=True))
    assert [target.__dict__[attribute] for target, attribute in places] == right
