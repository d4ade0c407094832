"""After a stall of the broker, no member of a consumer group is fenced before its heartbeat could be read."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import Tick
from tests.support.consumer_group_world import ConsumerWorld, FakeTopics, SimulatedMember

SESSION_MS = 10_000


def _world(*members: SimulatedMember) -> ConsumerWorld:
    world = ConsumerWorld(FakeTopics(a=2))
    for member in members:
        world.heartbeat(member)
    return world


def test_a_member_is_fenced_at_the_end_of_the_grace_period_of_a_stall_and_not_before():
    world = _world(SimulatedMember("m"))
    world.wait(SESSION_MS + 3_000, late_ms=3_000)
    world.wait(2_999)
    world.apply(Tick(0))
    assert "m" in world.group.members
    world.wait(1)
    assert "m" not in world.group.members
    assert world.group.grace is None


def test_a_second_stall_over_the_end_of_a_grace_period_has_a_grace_period_of_its_own():
    """The member's session expires in the second stall; a heartbeat of it may wait in a socket."""
    member = SimulatedMember("m")
    world = _world(member)
    world.wait(SESSION_MS + 6_000, late_ms=6_000)
    world.wait(100)
    world.heartbeat(member)
    world.wait(SESSION_MS + 6_000, late_ms=10_100)
    assert "m" in world.group.members
    world.wait(9_999)
    assert "m" in world.group.members
    world.wait(1)
    assert "m" not in world.group.members


def test_a_second_stall_does_not_save_a_member_that_has_had_its_grace_period():
    kept, lost = SimulatedMember("kept"), SimulatedMember("lost")
    world = _world(kept, lost)
    world.wait(SESSION_MS + 6_000, late_ms=6_000)
    world.heartbeat(kept)
    world.wait(SESSION_MS + 1_000, late_ms=5_000)
    assert set(world.group.members) == {"kept"}
