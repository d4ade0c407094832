"""A slice of the model of consumer groups in every scope, small scopes whole, and what the model must find."""

from __future__ import annotations

import pickle

import pytest

from sordini.broker.groups.consumer.member_connections import OlderConnection
from tests.model.__main__ import _timed
from tests.model.consumer_groups import invariants, planted_bugs, variants
from tests.model.consumer_groups.rules import Rules
from tests.model.consumer_groups.scopes import DELAYED, GROWN, LARGER, OFFLOADED, PLAIN, SCOPES, Scope
from tests.model.consumer_groups.space import Numbered, Space
from tests.model.consumer_groups.state import HEARTBEAT, JOIN
from tests.model.consumer_groups.trace_text import reported
from tests.model.explore import explore

SLICE = 1_500
SMALL = PLAIN._replace(joins=2, leaves=0, moves=0)
SMALL_MOVED = PLAIN._replace(joins=2, leaves=0, fences=0)
SMALL_OFFLOADED = OFFLOADED._replace(leaves=0, joins=2)
SMALL_GROWN = GROWN._replace(moves=0, fences=0)
SMALL_DELAYED = DELAYED._replace(moves=0, fences=0)


@pytest.mark.parametrize("scope", [*SCOPES, *LARGER], ids=lambda scope: scope.name)
def test_no_world_near_the_start_breaks_a_law(scope: Scope) -> None:
    explored = explore(Space(Rules(scope)), SLICE)
    assert not explored.broken, reported(explored.way, explored.broken)
    assert explored.worlds >= SLICE


@pytest.mark.parametrize("scope", [SMALL, SMALL_MOVED, SMALL_OFFLOADED, SMALL_GROWN, SMALL_DELAYED])
def test_no_world_of_a_small_scope_breaks_a_law(scope: Scope) -> None:
    explored = explore(Space(Rules(scope)))
    assert not explored.broken, reported(explored.way, explored.broken)
    assert explored.is_whole
    assert explored.worlds > 500


def test_groups_are_settled_in_many_ways_and_most_worlds_are_not() -> None:
    """That every world comes to a settled one says something only if both kinds are there."""
    space = Space(Rules(SMALL))
    worlds = [space.world(numbered) for numbered in _reached(space)]
    settled = [world for world in worlds if invariants.is_settled(world)]
    both = [world for world in settled if len(world.coordinator.group.members) == 2]
    assert len({world.clients for world in both}) > 3
    assert len(settled) < len(worlds) / 2
    assert any(client.is_void and client.owned for world in worlds for client in world.clients)


def test_states_are_unpacked_as_they_were_packed() -> None:
    space = Space(Rules(SMALL))
    for numbered in _reached(space):
        assert space.unpacked(space.canonical(numbered)) == numbered
        assert space.numbered(space.world(numbered)) == numbered


@pytest.mark.parametrize("name", planted_bugs.BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    explored = planted_bugs.found(name)
    assert explored.broken == planted_bugs.BUGS[name].law, planted_bugs.BUGS[name].what
    assert len(explored.way) == explored.depth + 1


@pytest.mark.parametrize("name", [name for name in planted_bugs.BUGS if name.startswith("older connections")])
def test_a_delayed_heartbeat_that_is_served_does_harm(name: str) -> None:
    did = [step[0] for step, _ in planted_bugs.found(name).way]
    assert did.count("is delayed") == did.count("arrives") == 1


def test_delayed_heartbeats_are_served_before_newer_ones_and_refused_after_them() -> None:
    """That no law is broken says something only if both happen."""
    space = Space(Rules(SMALL_DELAYED))
    arrived = [step[0] for numbered in _reached(space) for step in space.steps(numbered) if step[0][0] == "arrives"]
    refused = [did for did in arrived if isinstance(did[2], OlderConnection)]
    assert 0 < len(refused) < len(arrived)
    assert {did[1].kind for did in refused} == {JOIN, HEARTBEAT}


def test_three_bugs_are_planted_for_each_law_at_least() -> None:
    laws_of_bugs = [one.law for one in planted_bugs.BUGS.values()]
    assert all(laws_of_bugs.count(law) >= 3 for law in invariants.ALL)


def test_a_bug_is_planted_for_as_long_as_it_is_looked_for() -> None:
    for one in planted_bugs.BUGS.values():
        before = [getattr(where, name) for where, name in one.places]
        with planted_bugs.planted(one):
            assert [getattr(where, name) for where, name in one.places] != before
        assert [getattr(where, name) for where, name in one.places] == before


@pytest.mark.parametrize("name", variants.VARIANTS)
def test_a_heartbeat_that_is_delayed_until_the_coordinator_is_back_does_the_harm_it_is_known_for(name: str) -> None:
    explored = variants.found(name)
    assert explored.broken == variants.VARIANTS[name].law
    did = [step[0] for step, _ in explored.way]
    assert did.count("is delayed") == did.count("moves") == did.count("arrives") == 1
    story = reported(explored.way, explored.broken)
    assert story.splitlines()[1] == "  0. The group is empty."
    assert story.endswith(f"Broken: {explored.broken}.")


def test_what_was_found_goes_from_one_process_to_another() -> None:
    timed = _timed("consumer groups", "variants", next(iter(variants.VARIANTS)))
    assert pickle.loads(pickle.dumps(timed)) == timed
    assert timed.story.endswith(f"Broken: {timed.explored.broken}.")


def _reached(space: Space) -> set[Numbered]:
    reached, left = {space.first()}, [space.first()]
    while left:
        after = {step[1] for step in space.steps(left.pop())} - reached
        reached |= after
        left += after
    return reached
