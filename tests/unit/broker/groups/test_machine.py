"""The machine's contract with the shell; scenarios of groups are in tests/scenarios/groups."""

from __future__ import annotations

import pytest

from sordini.broker.groups.machine import machine, static_members
from sordini.broker.groups.machine.events import (
    DeleteGroup,
    GroupAnswer,
    GroupLimits,
    GroupReply,
    GroupWrite,
    Heartbeat,
    LeavingMember,
    Now,
    Tick,
    Unload,
    WriteCompleted,
)
from sordini.broker.groups.machine.member_sessions import GRACE_MS_MIN
from sordini.broker.groups.machine.persistent_state import persistent_value, restore_group
from sordini.broker.groups.machine.state import Caller, Group, GroupState
from sordini.broker.groups.machine.transition import GroupTransition
from sordini.protocol.errors import ErrorCode
from tests.support.groups_world import Client, World


def settled(*names: str, static: str = "") -> World:
    """A stable group in which the first leads; those named in `static` have instance ids."""
    world = World()
    for name in names:
        world.client(name).instance_id = name.lower() if name in static else None
        world.join(world.client(name))
    if len(names) > 1:
        world.join(world.client(names[0]))  # The first join was a generation of its own.
    for name in reversed(names):
        world.sync(world.client(name), {name: name.lower().encode() for name in names})
    assert world.group.state is GroupState.STABLE
    world.said.clear()
    return world


def test_a_step_changes_nothing_but_what_it_returns() -> None:
    world = settled("A", "B")
    before, members = world.group, dict(world.group.members)
    event = Heartbeat(Caller(99), "B-1", None, before.generation_id)
    after = [machine.step(before, event, Now(5_000, 0), world.limits) for _ in range(2)]
    assert after[0] == after[1]
    assert before.members == members
    assert after[0][0].members["B-1"].session_deadline_ms == 15_000
    assert after[0][0].members["A-1"] == members["A-1"]


def test_a_group_is_immutable() -> None:
    group = settled("A").group
    with pytest.raises(TypeError):
        group.members["B"] = group.members["A-1"]  # type: ignore[index]
    with pytest.raises(AttributeError):
        group.generation_id = 7  # type: ignore[misc]


def test_nothing_is_due_before_the_next_due_time_and_a_tick_makes_it_exact() -> None:
    world = settled("A", "B")
    assert machine.next_due_ms(world.group) == 10_000
    world.now_ms = 4_000
    world.heartbeat(world.client("A"))
    world.heartbeat(world.client("B"))
    due_ms = machine.next_due_ms(world.group)
    assert due_ms is not None
    assert due_ms <= 14_000
    group, actions = machine.step(world.group, Tick(0), Now(13_999, 0), world.limits)
    assert not actions
    assert machine.next_due_ms(group) == 14_000
    group, _ = machine.step(group, Tick(0), Now(14_000, 0), world.limits)
    assert group.state is GroupState.EMPTY
    assert machine.next_due_ms(group) is None


def test_a_late_tick_starts_a_grace_period_of_one_session_at_most() -> None:
    group = settled("A").group
    ends_ms = group.members["A-1"].session_deadline_ms
    for late_ms, grace_ms in ((1, GRACE_MS_MIN), (3_000, 3_000), (50_000, 10_000)):
        now = Now(ends_ms + late_ms, 0)
        graced, actions = machine.step(group, Tick(late_ms), now, GroupLimits())
        assert not actions
        assert machine.next_due_ms(graced) == now.monotonic_ms + grace_ms
        early, _ = machine.step(graced, Tick(0), Now(now.monotonic_ms + grace_ms - 1, 0), GroupLimits())
        assert early == graced
        over, _ = machine.step(graced, Tick(7), Now(now.monotonic_ms + grace_ms, 0), GroupLimits())
        assert over.state is GroupState.EMPTY


def test_the_grace_period_covers_unused_ids_and_pending_syncs() -> None:
    world = World()
    world.join(world.client("A"), once=True)
    world.stall(11_000)
    world.join(world.client("A"))
    assert world.group.members.keys() == {"A-1"}
    world.stall(61_000)
    world.sync(world.client("A"), {})
    assert world.group.state is GroupState.STABLE


def test_a_stall_does_not_delay_the_first_generation() -> None:
    world = World(limits=GroupLimits(initial_rebalance_delay_ms=3_000))
    world.join(world.client("A"))
    world.stall(3_500)
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_a_completion_without_a_number_is_that_of_the_oldest_write_of_its_generation() -> None:
    world = settled("A", "B", static="AB")
    world.disk_waits = True
    for name in ("A", "B"):
        world.clients[name] = Client(name, name.lower())
        world.join(world.clients[name])
    generation_id, numbers = world.group.generation_id, [writing.number for writing in world.group.pending_writes]
    world.writes.clear()
    assert len(numbers) == 2
    world.apply(WriteCompleted(generation_id + 1, None))
    assert len(world.group.pending_writes) == 2
    world.apply(WriteCompleted(generation_id, None))
    assert [writing.number for writing in world.group.pending_writes] == numbers[1:]
    assert world.clients["A"].generation_id == generation_id
    world.apply(WriteCompleted(generation_id, None, numbers[1]))
    assert world.clients["B"].generation_id == generation_id
    assert not world.group.pending_writes


def test_the_completion_of_an_unknown_write_is_ignored() -> None:
    world = settled("A")
    before = world.group
    world.apply(WriteCompleted(before.generation_id, ErrorCode.COORDINATOR_NOT_AVAILABLE, 7))
    assert world.group == before
    assert not world.said


def test_replacements_may_be_written_in_any_order() -> None:
    world = settled("A", "B", static="AB")
    world.disk_waits = True
    for name in ("A", "B"):
        world.clients[name] = Client(name, name.lower())
        world.join(world.clients[name])
    world.writes.rotate()
    world.disk_answers()
    world.disk_answers(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert list(world.group.members) == ["a-1", world.clients["B"].member_id]
    assert world.group.leader_id == "a-1"


def test_a_rebalance_answers_the_join_of_a_static_member_that_is_being_written() -> None:
    for error in (None, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        world = settled("A", "B", static="B")
        world.disk_waits = True
        world.clients["B"] = Client("B", "b")
        world.join(world.clients["B"])
        world.join(world.client("C"))
        world.disk_answers(error)
        assert world.group.state is GroupState.PREPARING_REBALANCE
        world.join(world.client("A"))
        assert world.clients["B"].generation_id == world.group.generation_id
        assert world.clients["B"].member_id in world.group.members


def test_a_static_member_keeps_its_position_when_its_new_id_is_not_written() -> None:
    world = settled("A", "B", "C", static="AB")
    before = world.group
    world.disk_waits = True
    world.clients["B"] = Client("B", "b", session_timeout_ms=7_000, rebalance_timeout_ms=1)
    world.join(world.clients["B"])
    assert world.group.members[world.group.static_member_ids["b"]].rebalance_timeout_ms == 1
    world.now_ms = 4_000
    world.disk_answers(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert persistent_value(world.group) == persistent_value(before)
    assert world.group.members["b-1"].session_deadline_ms == 14_000
    assert list(world.group.members) == list(before.members)


def test_unwritten_static_members_are_limited() -> None:
    world = settled("A", static="A")
    world.disk_waits = True
    for _ in range(static_members.PENDING_WRITES_MAX):
        world.clients["A"] = Client("A", "a")
        world.join(world.clients["A"])
    assert world.said[-1].startswith("write")
    world.join(Client("A", "a"))
    assert world.said[-1] == "A <- join COORDINATOR_LOAD_IN_PROGRESS"
    assert len(world.group.pending_writes) == static_members.PENDING_WRITES_MAX


def test_unused_member_ids_are_limited_by_the_group_size() -> None:
    world = World(limits=GroupLimits(members_max=2))
    for name in "ABC":
        world.join(world.client(name), once=True)
    assert world.client("C").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.wait(10_000)
    world.join(world.client("C"), once=True)
    assert world.client("C").error is ErrorCode.MEMBER_ID_REQUIRED


def test_a_group_is_finished_when_it_is_dead_and_has_no_pending_writes() -> None:
    world = settled("A")
    world.leave(LeavingMember("A-1", None))
    assert not machine.is_finished(world.group)
    world.disk_waits = True
    world.join(world.client("B"), once=True)
    world.delete()
    assert world.group.state is GroupState.DEAD
    assert not world.group.pending_joins
    assert not machine.is_finished(world.group)
    world.disk_answers()
    assert machine.is_finished(world.group)


def test_requests_that_wait_for_the_disk_are_answered_when_the_group_is_unloaded() -> None:
    world = settled("A", static="A")
    world.disk_waits = True
    world.clients["A"] = Client("A", "a")
    world.join(world.clients["A"])
    world.unload()
    assert world.clients["A"].error is ErrorCode.NOT_COORDINATOR
    group, _ = machine.step(Group("g", generation_id=3), DeleteGroup(Caller(1)), Now(0, 0), GroupLimits())
    group, actions = machine.step(group, Unload(), Now(0, 0), GroupLimits())
    assert actions == [GroupReply(Caller(1), GroupAnswer(ErrorCode.NOT_COORDINATOR))]
    assert machine.is_finished(group)


def test_an_invalid_state_transition_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        GroupTransition(Group("g"), Now(0, 0), GroupLimits()).transition_to(GroupState.STABLE)


def test_a_restored_group_is_what_was_written() -> None:
    world = settled("A", "B", static="B")
    value = persistent_value(world.group)
    group = restore_group("g", value, Now(70_000, 0))
    machine.check_invariants(group)
    assert persistent_value(group) == value
    assert group.state is GroupState.STABLE
    assert {member.session_deadline_ms for member in group.members.values()} == {80_000}
    assert machine.next_due_ms(group) == 80_000


def test_a_restored_member_is_static_whatever_its_instance_is_called() -> None:
    value = persistent_value(settled("A", "B", static="B").group)
    unnamed = tuple(
        member if member.group_instance_id is None else member._replace(group_instance_id="")
        for member in value.members
    )
    group = restore_group("g", value._replace(members=unnamed), Now(0, 0))
    machine.check_invariants(group)
    assert list(group.static_member_ids) == [""]


def test_a_leader_that_is_no_member_of_its_record_is_replaced() -> None:
    value = persistent_value(settled("A", "B").group)
    for leader_id in (None, "gone"):
        group = restore_group("g", value._replace(leader_id=leader_id), Now(0, 0))
        machine.check_invariants(group)
        assert group.leader_id == "A-1"


def test_a_restored_empty_group_keeps_the_time_of_its_state() -> None:
    world = settled("A")
    world.now_ms = 5_000
    world.leave(LeavingMember("A-1", None))
    value = persistent_value(world.group)
    group = restore_group("g", value, Now(70_000, 0))
    machine.check_invariants(group)
    assert (group.state, group.generation_id, group.leader_id) == (GroupState.EMPTY, 2, None)
    assert group.state_since_ms == world.group.state_since_ms == 1_700_000_005_000
    assert group.protocol_type == "consumer"
    assert machine.next_due_ms(group) is None


def test_the_record_of_an_assignment_has_the_time_of_its_generations_start() -> None:
    world = World()
    world.join(world.client("A"))
    world.now_ms = 3_000
    world.disk_waits = True
    world.sync(world.client("A"), {"A": b"all"})
    assert isinstance(world.writes[0], GroupWrite)
    assert world.writes[0].value is not None
    assert world.writes[0].value.state_since_ms == 1_700_000_000_000


def test_a_failed_write_of_an_assignment_clears_the_previous_one() -> None:
    world = settled("A", "B")
    world.disk_waits = True
    world.join(world.client("A"))
    world.join(world.client("B"))
    world.sync(world.client("A"), {"A": b"p9"})
    assert world.group.members["A-1"].assignment == b"a"
    world.disk_answers(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert [member.assignment for member in world.group.members.values()] == [b"", b""]


def test_an_earlier_failed_write_does_not_revert_a_static_member_of_a_later_generation() -> None:
    world = settled("A", "B", static="B")
    world.disk_waits = True
    world.clients["B"] = Client("B", "b")
    world.join(world.clients["B"])
    world.join(world.client("A"))
    world.sync(world.client("A"), {})
    world.writes.rotate()
    world.disk_answers()
    assert world.group.state is GroupState.STABLE
    before = world.group.members
    world.disk_answers(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert world.group.members == before
