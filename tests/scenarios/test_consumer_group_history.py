"""What the coordinator remembers of rebalances of a consumer group (KIP-848): causes, durations, and pauses of partitions."""

from __future__ import annotations

from sordini.broker.groups.consumer.machine.events import ConsumerLimits, RemoveMembers
from sordini.broker.groups.machine.partition_moves import PARTITION_BYTES
from sordini.broker.groups.machine.rebalance_cause import RebalanceCause
from sordini.broker.groups.machine.rebalance_history import ENTRY_BYTES, ROW_BYTES, Rebalance, move_cost
from tests.support.consumer_group_world import ConsumerWorld, FakeTopics, SimulatedMember


def a_world(interval_ms: int = 0, **topics: int) -> ConsumerWorld:
    limits = ConsumerLimits(session_timeout_ms=10_000, assignment_interval_ms=interval_ms, allows_downgrade=False)
    return ConsumerWorld(FakeTopics(**(topics or {"a": 4})), limits)


def beat(world: ConsumerWorld, *members: SimulatedMember) -> None:
    """A heartbeat of each, after which it does as it was told."""
    for member in members:
        world.heartbeat(member)
        member.settle()


def a_stable_pair(world: ConsumerWorld, **of_second: str) -> tuple[SimulatedMember, SimulatedMember]:
    """Two members that share the partitions; the rebalances until then are forgotten."""
    first, second = SimulatedMember("A"), SimulatedMember("B", **of_second)  # type: ignore[arg-type]
    for _ in range(3):
        beat(world, first, second)
        world.wait(world.settings.assignment_interval_ms)
    assert not world.history.in_progress(world.group)
    world.history.entries.clear()
    return first, second


def causes(rebalance: Rebalance) -> list[tuple[str, str, str]]:
    return [(entry.cause.name, entry.member.member_id, entry.detail) for entry in rebalance.causes]


def moves(rebalance: Rebalance) -> list[tuple[str, str | None, str | None, int]]:
    return [(f"{m.topic}:{m.partition}", m.source, m.target, m.without_owner_ms) for m in rebalance.moves]


def last(world: ConsumerWorld) -> Rebalance:
    return world.history.entries[-1]


def test_only_partitions_that_move_pause_from_their_release_until_they_are_given() -> None:
    world = a_world()
    first, second = SimulatedMember("A"), SimulatedMember("B")
    beat(world, first)
    assert moves(last(world)) == [(f"a:{index}", None, "A", -1) for index in range(4)]
    world.heartbeat(second)
    world.wait(300)
    world.heartbeat(first)  # It is sent what to give up,
    first.settle()
    world.wait(500)
    world.heartbeat(first)  # and has given it up.
    released_ms = world.wall_ms
    world.wait(700)
    world.heartbeat(second)
    (ended,) = list(world.history.entries)[1:]
    assert causes(ended) == [("MEMBER_JOINED", "B", "")]
    assert (ended.generation_before, ended.generation_after, ended.duration_ms) == (2, 3, 1_500)
    assert moves(ended) == [("a:2", "A", "B", 700), ("a:3", "A", "B", 700)]
    assert {move.released_ms for move in ended.moves} == {released_ms}
    assert [(m.member.member_id, m.partitions, m.waited_ms) for m in ended.members] == [("A", 2, 800), ("B", 2, 1_500)]
    assert not ended.is_overtaken


def test_a_member_that_leaves_begins_a_rebalance_that_has_no_target_before_the_next_heartbeat() -> None:
    world = a_world()
    first, second = a_stable_pair(world)
    world.leave(second)
    (waiting,) = world.history.in_progress(world.group)
    assert (causes(waiting), waiting.ended_ms) == ([("MEMBER_LEFT", "B", "")], -1)
    world.wait(900)
    beat(world, first)
    assert (last(world).duration_ms, world.history.last_duration_ms) == (900, 900)
    assert moves(last(world)) == [("a:2", "B", "A", 900), ("a:3", "B", "A", 900)]


def test_the_pause_of_a_group_without_members_ends_with_the_next_member() -> None:
    world = a_world(a=1)
    member = SimulatedMember("A")
    beat(world, member)
    world.leave(member)
    assert (moves(last(world)), last(world).members) == ([("a:0", "A", None, -1)], ())
    world.wait(5_000)
    beat(world, SimulatedMember("B"))
    assert moves(last(world)) == [("a:0", None, "B", 5_000)]


def test_a_target_that_is_replaced_before_all_have_reached_it_is_overtaken_and_a_pause_goes_on() -> None:
    world = a_world(a=2)
    _, second = a_stable_pair(world)
    world.leave(second)
    third = SimulatedMember("C")
    world.wait(100)
    beat(world, third)  # A has not sent a heartbeat: its epoch is old.
    world.wait(100)
    beat(world, SimulatedMember("D"))
    overtaken = last(world)
    assert (causes(overtaken), overtaken.is_overtaken) == (
        [("MEMBER_LEFT", "B", ""), ("MEMBER_JOINED", "C", "")],
        True,
    )
    assert [row.waited_ms for row in overtaken.members if row.member.member_id == "A"] == [-1]
    assert world.history.last_duration_ms == 0, "of the last one that was completed"


def test_causes_during_the_assignment_interval_are_those_of_one_target() -> None:
    world = a_world(1_000)
    first, second = a_stable_pair(world)
    third, fourth = SimulatedMember("C"), SimulatedMember("D")
    beat(world, third)
    world.wait(400)
    beat(world, fourth)
    world.leave(third)
    *_, waiting = world.history.in_progress(world.group)
    assert [name for name, _, _ in causes(waiting)] == ["MEMBER_JOINED", "MEMBER_LEFT"]
    world.wait(600)
    for _ in range(3):
        beat(world, first, second, fourth)
    assert [name for name, _, _ in causes(last(world))] == ["MEMBER_JOINED", "MEMBER_LEFT"]
    assert last(world).duration_ms == 600


def test_a_member_whose_session_expires_and_one_that_releases_nothing_have_different_causes() -> None:
    world = a_world()
    first, _ = a_stable_pair(world)
    world.wait(5_000)
    beat(world, first)
    world.wait(6_000)
    beat(world, first)
    assert causes(last(world)) == [("SESSION_TIMEOUT", "B", "")]
    assert {gap for *_, gap in moves(last(world))} == {1_000}
    third = SimulatedMember("C")
    beat(world, third)
    first.rebalance_timeout_ms = 20_000
    for _ in range(5):  # A is sent what to give up, and goes on with it.
        world.heartbeat(first)
        world.heartbeat(third)
        world.wait(5_000)
    beat(world, third)
    assert ("REVOCATION_TIMEOUT", "A", "") in causes(last(world))


def test_what_changed_is_part_of_the_cause() -> None:
    world = a_world(a=2, b=1)
    first, second = a_stable_pair(world)
    first.topics, first.says_all = frozenset({"b", "later"}), True
    for _ in range(3):
        beat(world, first, second)
    assert causes(last(world)) == [("SUBSCRIPTION_CHANGED", "A", "+b +later -a")]
    for change, detail in (
        (lambda: world.topics.put("a", 4), "a +2 partitions"),
        (lambda: world.topics.put("later", 1), "later created"),
        (lambda: world.topics.delete("b"), "b deleted"),
        (lambda: world.topics.put("later", 1, incarnation=1), "later created again"),
    ):
        change()
        for _ in range(3):
            beat(world, first, second)
        assert causes(last(world)) == [("TOPICS_CHANGED", "", detail)]


def test_a_regular_expression_that_matches_a_new_topic_is_the_cause() -> None:
    world = a_world(a=1)
    member = SimulatedMember("A", topics=frozenset(), regex="b.*")
    beat(world, member)
    world.finish_work()
    world.topics.put("bills", 2)
    beat(world, member)
    world.finish_work()
    beat(world, member)
    assert causes(last(world)) == [("REGEX_RESOLVED", "", "b.*")]
    assert moves(last(world)) == [("bills:0", None, "A", -1), ("bills:1", None, "A", -1)]


def test_an_administrator_and_a_member_that_leaves_by_the_classic_request_have_different_causes() -> None:
    for removal, cause in (
        (RemoveMembers((("B", None),), "client"), RebalanceCause.MEMBER_LEFT),
        (RemoveMembers((("B", None),), "admin"), RebalanceCause.REMOVED_BY_ADMIN),
        (RemoveMembers((("A", None), ("B", None)), "client"), RebalanceCause.REMOVED_BY_ADMIN),
        (RemoveMembers((("", "i"),), "client"), RebalanceCause.REMOVED_BY_ADMIN),
    ):
        world = a_world()
        first, _ = a_stable_pair(world, instance_id="i")
        world.apply(removal._replace(members=tuple((m, "i" if m == "B" else i) for m, i in removal.members)))
        beat(world, first)
        rebalances = [row for row in world.history.entries if row.first_cause is cause]
        assert rebalances, (removal, list(world.history.entries))


def test_a_static_member_that_comes_back_moves_nothing_even_while_others_are_on_their_way() -> None:
    world = a_world()
    first, second = a_stable_pair(world, instance_id="i")
    world.leave(second, epoch=-2)
    world.wait(2_000)
    beat(world, SimulatedMember("B2", instance_id="i"))
    assert not world.history.entries
    assert not world.history.in_progress(world.group)
    third = SimulatedMember("C")
    beat(world, third)
    world.leave(SimulatedMember("B2", instance_id="i"), epoch=-2)
    beat(world, successor := SimulatedMember("B3", instance_id="i"))
    for _ in range(4):
        beat(world, first, successor, third)
    found = [move for row in world.history.entries for move in moves(row)]
    assert all(source != target for _, source, target, _ in found), found
    assert {source for _, source, _, _ in found} <= {"A", "i"}
    assert {target for _, _, target, _ in found} <= {"A", "i", "C"}, "it was never without its partitions"


def test_a_group_that_is_loaded_while_its_members_are_on_their_way_has_a_rebalance_from_then_on() -> None:
    world = a_world()
    first, second = SimulatedMember("A"), SimulatedMember("B")
    beat(world, first, second)
    world.restart()
    (current,) = world.history.in_progress(world.group)
    assert causes(current) == [("GROUP_LOADED", "", "")]
    world.wait(250)
    for _ in range(3):
        beat(world, first, second)
    assert (causes(last(world)), last(world).duration_ms) == ([("GROUP_LOADED", "", "")], 250)
    world.restart()
    assert not world.history.in_progress(world.group)


def test_a_heartbeat_that_changes_nothing_leaves_the_history_alone() -> None:
    world = a_world()
    first, second = a_stable_pair(world)
    seen = len(world.moments)
    for _ in range(5):
        world.wait(1_000)
        beat(world, first, second)
    assert len(world.moments) == seen
    assert not world.history.entries


def test_a_member_that_leaves_for_a_while_holds_the_rebalance_open_until_it_is_back() -> None:
    world = a_world()
    first, second = a_stable_pair(world, instance_id="i")
    third = SimulatedMember("C")
    beat(world, third)
    for _ in range(3):
        beat(world, second)
    world.leave(second, epoch=-2)
    for _ in range(3):
        beat(world, first, third)
    assert not world.history.entries
    for _ in range(2):
        beat(world, SimulatedMember("B2", instance_id="i"))
    assert [(row.generation_after, row.is_overtaken) for row in world.history.entries] == [(4, False)]


def test_what_is_in_progress_is_counted_and_nothing_is_left_of_it_once_it_is_given_up() -> None:
    world = a_world(a=40)
    first, second = a_stable_pair(world)
    held = world.history.held_bytes
    world.leave(second)
    assert world.history.held_bytes >= held + ENTRY_BYTES + ROW_BYTES + 20 * PARTITION_BYTES
    world.heartbeat(SimulatedMember("C"))
    (current,) = world.history.in_progress(world.group)
    assert len(current.moves) == 20
    assert world.history.held_bytes - held >= ENTRY_BYTES + sum(map(move_cost, current.moves))
    beat(world, first)
    world.leave(first)
    world.history.entries.clear()
    world.history.abandon()
    assert world.history.held_bytes == world.history._entries_bytes
