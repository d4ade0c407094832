"""A slice of the model in every scope, one scope whole, and what the model must find. `make model` runs the rest."""

from __future__ import annotations

import pytest

from tests.model import invariants, planted_bugs, variants
from tests.model.explore import explore
from tests.model.rules import SCOPES, Rules, Scope
from tests.model.space import Space
from tests.model.state import RENAMINGS, World, renamed_copy, renamed_shared, start
from tests.model.trace_text import reported

SLICE = 3_000
SMALL = Scope("small", epochs=2, records=1, is_isr_at_once=False, is_exchange_at_once=False)
QUICK = [
    "the leader counts its own append only",
    "a majority is enough",
    "a new leader takes all it has for committed",
    "only the committed in sync set counts",
    "a shrunk set counts before it is granted",
    "a followers watermark is the end of its log",
    "an equal epoch begins a term",
    "changes without a condition",
    "silence is taken for a refusal",
    "replicas outside the isr are elected",
    "a new leader believes to be alone",
    "a leader shrinks its set without the store",
    "a session that ends refuses what was proposed",
]
"""Found in a second; `make model ARGS=--planted` finds all."""


@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_no_world_near_the_start_breaks_a_law(scope: Scope) -> None:
    explored = explore(Space(Rules(scope)), SLICE)
    assert not explored.broken, reported(explored.way, explored.broken)
    assert explored.worlds >= SLICE


def test_no_world_of_one_epoch_with_everything_in_flight_breaks_a_law() -> None:
    explored = explore(Space(Rules(SMALL._replace(epochs=1))))
    assert not explored.broken, reported(explored.way, explored.broken)
    assert explored.is_whole
    assert explored.worlds > 1_000


def test_of_worlds_that_differ_by_the_names_of_replicas_one_is_explored() -> None:
    space = Space(Rules(SMALL._replace(epochs=1)))
    first = space.numbered(start())
    reached, left = {first}, [first]
    while left:
        after = {step[1] for step in space.steps(left.pop())} - reached
        reached |= after
        left += after
    assert len({space.canonical(world) for world in reached}) == explore(Space(Rules(SMALL._replace(epochs=1)))).worlds


def test_truncation_to_the_high_watermark_loses_what_was_committed() -> None:
    explored = variants.found("truncation to the high watermark")
    assert explored.broken == invariants.STRONG
    story = reported(explored.way, explored.broken)
    assert story.splitlines()[1].startswith("  0. A new partition")
    assert story.endswith("Broken: strong in-sync consistency.")


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_bug_is_found(name: str) -> None:
    explored = planted_bugs.found(name, 10_000)
    assert explored.broken, planted_bugs.BUGS[name].what
    assert len(explored.way) == explored.depth + 1


@pytest.mark.parametrize("renaming", RENAMINGS[1:])
def test_renaming_the_replicas_renames_what_can_happen(renaming: tuple[int, ...]) -> None:
    space = Space(Rules(SMALL))
    ways = 0
    here = [space.numbered(start())]
    for _ in range(60):
        numbered = here[len(here) // 2]
        world, after = space.world(numbered), [space.world(step[1]) for step in space.steps(numbered)]
        there = space.numbered(_renamed(world, renaming))
        assert {_renamed(one, renaming) for one in after} == {space.world(step[1]) for step in space.steps(there)}
        assert space.canonical(there) == space.canonical(numbered)
        ways += len(after)
        here = [space.numbered(one) for one in after] or here[:1]
    assert ways > 100


def _renamed(world: World, renaming: tuple[int, ...]) -> World:
    copies = [renamed_copy(world.copies[renaming.index(place)], renaming) for place in range(3)]
    return World((copies[0], copies[1], copies[2]), renamed_shared(world.shared, renaming))
