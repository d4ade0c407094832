"""A campaign of many seeds."""

from __future__ import annotations

from tests.sim.cluster.campaign import report, run_one
from tests.sim.cluster.scenario import ClusterScenario


def _without_a_plan(seed: int) -> ClusterScenario:
    raise ValueError(f"no plan of {seed}")


def test_an_exception_that_escapes_a_run_is_a_finding_of_its_seed():
    verdict = run_one(4711, _without_a_plan)
    assert verdict.text().startswith("seed 4711: 1 findings")
    assert "ValueError('no plan of 4711')" in verdict.findings[0]
    assert "_without_a_plan" in verdict.findings[0]
    assert report([verdict], 1.0).endswith("1 findings in seeds 4711")
