"""A slice of the model of a share partition, and bugs planted in its machine that the model must find."""

from __future__ import annotations

import pytest

from tests.model.shares import planted_bugs
from tests.model.shares.world import EVERYTHING, SCOPES, Scope, explore


@pytest.mark.parametrize("scope", [*SCOPES, EVERYTHING], ids=lambda scope: scope.name)
def test_no_world_near_the_start_breaks_a_law(scope: Scope) -> None:
    explored = explore(worlds_max=1_000, scope=scope)
    assert not explored.broken, (explored.way, explored.broken)
    assert explored.worlds >= 1_000


@pytest.mark.parametrize("bug", planted_bugs.BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    assert planted_bugs.found(bug).broken
