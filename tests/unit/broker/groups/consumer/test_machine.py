"""Steps of a consumer group's machine that follow each other in an order that laws on random histories seldom have."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.groups.consumer.machine import machine
from sordini.broker.groups.consumer.machine.assignors.group import Group as AssignorInput
from sordini.broker.groups.consumer.machine.changes import GroupEpochChange, OldMetadataChange
from sordini.broker.groups.consumer.machine.events import ClassicState, Now, StepContext, Tick
from sordini.broker.groups.consumer.machine.state import Partitions
from tests.support.consumer_group_world import ConsumerWorld, FakeTopics, SimulatedMember, computed, pairs


def world_of(partitions: int) -> ConsumerWorld:
    return ConsumerWorld(FakeTopics(a=partitions))


def assigned_at_once(_group_id: str, _epoch: int, assignor: str, group: AssignorInput) -> Mapping[str, Partitions]:
    return computed(assignor, group)


def owned_pairs(world: ConsumerWorld) -> int:
    return sum(len(epochs) for member in world.group.members.values() for epochs in member.assigned.values())


def test_a_target_that_was_under_way_when_a_static_member_got_another_id_is_the_new_ones() -> None:
    world = world_of(4)
    first, other = SimulatedMember("m1", instance_id="i"), SimulatedMember("m2")
    world.heartbeat(first)
    world.assigns_slowly = True
    world.heartbeat(other)
    world.leave(first, epoch=-2)
    successor = SimulatedMember("m3", instance_id="i")
    world.heartbeat(successor)
    assert world.group.epoch > world.group.assignment_epoch
    world.finish_work()
    for _ in range(4):
        for member in (successor, other):
            world.heartbeat(member)
            member.settle()
    world.finish_work()
    assert sum(len(pairs(target)) for target in world.group.targets.values()) == 4
    assert owned_pairs(world) == 4


def test_what_a_member_had_before_it_took_the_place_of_a_static_one_is_assigned_again() -> None:
    world = world_of(6)
    paused, member, third = SimulatedMember("m1", instance_id="i"), SimulatedMember("m2"), SimulatedMember("m3")
    for _ in range(4):
        for each in (paused, member, third):
            world.heartbeat(each)
            each.settle()
    world.leave(paused, epoch=-2)
    again = SimulatedMember("m2", instance_id="i")
    for _ in range(4):
        for each in (again, third):
            world.heartbeat(each)
            each.settle()
    assert set(world.group.members) == {"m2", "m3"}
    assert owned_pairs(world) == 6


def test_the_session_of_the_last_new_member_and_the_join_of_a_classic_one_end_together() -> None:
    world = world_of(2)
    new, classic = SimulatedMember("n"), SimulatedMember("c", rebalance_timeout_ms=10_000, is_classic=True)
    world.heartbeat(new)
    world.settings = world.settings._replace(session_timeout_ms=60_000)
    world.beat_classic(classic, is_eager=False)
    world.settings = world.settings._replace(session_timeout_ms=10_000)
    world.heartbeat(new)  # It owns all partitions, and has to give one up.
    new.settle()
    world.heartbeat(new)
    world.beat_classic(classic, is_eager=False)  # There is one for it: it is told to join.
    assert world.group.session_deadlines_ms["n"] == world.group.rebalance_deadlines_ms["c"]
    world.now_ms = world.group.session_deadlines_ms["n"]
    now = Now(world.now_ms, world.wall_ms)
    step = machine.step(world.group, Tick(0), StepContext(now, world.settings, world.topics, assigned_at_once))
    assert step.becomes_classic is ClassicState.REBALANCING
    assert list(step.group.members) == ["c"]
    assert GroupEpochChange(None) in step.changes
    assert all(isinstance(change, OldMetadataChange) or change.value is None for change in step.changes)


def test_a_loaded_member_of_the_classic_protocol_may_be_silent_for_as_long_as_it_said() -> None:
    world = world_of(2)
    new, classic = SimulatedMember("n"), SimulatedMember("c", is_classic=True)
    world.heartbeat(new)
    world.settings = world.settings._replace(session_timeout_ms=300_000)
    world.beat_classic(classic, is_eager=False)
    world.settings = world.settings._replace(session_timeout_ms=10_000)
    world.restart()
    sessions = {name: deadline_ms - world.now_ms for name, deadline_ms in world.group.session_deadlines_ms.items()}
    assert sessions == {"n": 10_000, "c": 300_000}
