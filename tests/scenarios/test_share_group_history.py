"""What the coordinator remembers of rebalances of a share group (KIP-932): causes, durations, and who got which partitions."""

from __future__ import annotations

from sordini.broker.groups.machine.partition_moves import MOVES_MAX
from sordini.broker.groups.machine.rebalance_history import Rebalance
from tests.support.share_group_world import ShareGroupWorld


def a_world(interval_ms: int = 0, **topics: int) -> ShareGroupWorld:
    """With `A` in the group, which has all partitions of `a`; the rebalances until then are forgotten."""
    world = ShareGroupWorld(interval_ms=interval_ms, **(topics or {"a": 2}))
    world.beat("A", 0, "a")
    world.store()
    world.now_ms += interval_ms
    world.beat("A", world.group.members["A"].epoch)
    world.now_ms += interval_ms
    assert not world.history.in_progress(world.group)
    world.history.entries.clear()
    return world


def keep(world: ShareGroupWorld, member_id: str) -> None:
    """A heartbeat of a member that changes nothing."""
    world.beat(member_id, world.group.members[member_id].epoch)


def causes(rebalance: Rebalance) -> list[tuple[str, str, str]]:
    return [(entry.cause.name, entry.member.member_id, entry.detail) for entry in rebalance.causes]


def moves(rebalance: Rebalance) -> list[tuple[str, str | None, str | None]]:
    return [(f"{move.topic}:{move.partition}", move.source, move.target) for move in rebalance.moves]


def last(world: ShareGroupWorld) -> Rebalance:
    return world.history.entries[-1]


def test_a_first_member_joins_and_has_partitions_once_their_states_are_initialized() -> None:
    world = ShareGroupWorld(a=2)
    world.beat("A", 0, "a")
    world.now_ms += 300
    world.store()
    world.now_ms += 200
    keep(world, "A")
    joined, initialized = world.history.entries
    assert (causes(joined), moves(joined)) == ([("MEMBER_JOINED", "A", "")], [])
    assert causes(initialized) == [("STATES_INITIALIZED", "", "")]
    assert moves(initialized) == [("a:0", None, "A"), ("a:1", None, "A")]
    assert (initialized.is_share, initialized.is_consumer, initialized.protocol_name) == (True, False, "simple")
    assert [(row.member.member_id, row.partitions) for row in initialized.members] == [("A", 2)]


def test_a_rebalance_ends_when_every_member_has_the_target() -> None:
    world = a_world()
    world.now_ms += 100
    world.beat("B", 0, "a")
    (current,) = world.history.in_progress(world.group)
    assert (causes(current), current.ended_ms) == ([("MEMBER_JOINED", "B", "")], -1)
    world.now_ms += 700
    keep(world, "A")
    assert not world.history.in_progress(world.group)
    ended = last(world)
    assert (ended.duration_ms, ended.generation_after - ended.generation_before, ended.is_overtaken) == (700, 1, False)
    assert [(row.member.member_id, row.waited_ms) for row in ended.members] == [("A", 700), ("B", 0)]
    assert world.history.last_duration_ms == 700


def test_what_a_member_that_leaves_had_is_taken_in_the_rebalance_that_its_leaving_begins() -> None:
    world = a_world()
    world.beat("B", 0, "a")
    keep(world, "A")
    held = sorted(index for part in world.group.members["B"].assigned.values() for index in part)
    assert held
    world.beat("B", -1)
    (waiting,) = world.history.in_progress(world.group)
    assert (causes(waiting), waiting.protocol_name) == ([("MEMBER_LEFT", "B", "")], None)
    assert moves(waiting) == [(f"a:{index}", "B", None) for index in held]
    world.now_ms += 400
    keep(world, "A")
    taken = [(f"a:{index}", "B", None) for index in held]
    assert (causes(last(world)), last(world).duration_ms) == ([("MEMBER_LEFT", "B", "")], 400)
    assert [move for move in moves(last(world)) if move[2] is None] == taken


def test_the_last_member_takes_everything_along_at_once() -> None:
    world = a_world()
    world.beat("A", -1)
    assert (causes(last(world)), last(world).duration_ms, last(world).members) == ([("MEMBER_LEFT", "A", "")], 0, ())
    assert moves(last(world)) == [("a:0", "A", None), ("a:1", "A", None)]


def test_a_member_whose_session_has_expired_is_named_as_such() -> None:
    world = a_world()
    world.now_ms += world.settings.session_timeout_ms + 1
    world.tick()
    assert causes(last(world)) == [("SESSION_TIMEOUT", "A", "")]
    assert moves(last(world)) == [("a:0", "A", None), ("a:1", "A", None)]


def test_a_target_that_is_replaced_before_all_have_it_is_overtaken() -> None:
    world = a_world()
    world.history.last_duration_ms = 0
    world.beat("B", 0, "a")
    world.now_ms += 50
    world.beat("C", 0, "a")
    assert (causes(last(world)), last(world).is_overtaken) == ([("MEMBER_JOINED", "B", "")], True)
    assert [row.waited_ms for row in last(world).members if row.member.member_id == "A"] == [-1]
    assert world.history.last_duration_ms == 0, "of the last one that was completed"


def test_causes_during_the_assignment_interval_are_those_of_one_target() -> None:
    world = a_world(1_000)
    world.beat("B", 0, "a")
    world.now_ms += 400
    world.beat("C", 0, "a")
    world.beat("B", -1)
    *_, waiting = world.history.in_progress(world.group)
    assert [name for name, _, _ in causes(waiting)] == ["MEMBER_JOINED", "MEMBER_LEFT"]


def test_topics_that_a_member_subscribes_to_or_not_any_more_are_named() -> None:
    world = a_world(a=1, b=1)
    world.beat("A", world.group.members["A"].epoch, "b")
    assert causes(last(world)) == [("SUBSCRIPTION_CHANGED", "A", "+b -a")]
    assert moves(last(world)) == [("a:0", "A", None)]


def test_topics_that_have_grown_are_named() -> None:
    world = a_world()
    world.topics.put("a", 3)
    keep(world, "A")
    assert causes(last(world)) == [("TOPICS_CHANGED", "", "a +1 partition")]


def test_a_topic_that_was_deleted_keeps_its_name_in_the_moves() -> None:
    world = a_world()
    world.topics.delete("a")
    keep(world, "A")
    assert causes(last(world)) == [("TOPICS_CHANGED", "", "a deleted")]
    assert moves(last(world)) == [("a:0", "A", None), ("a:1", "A", None)]


def test_more_moves_than_are_kept_are_counted() -> None:
    world = a_world(a=MOVES_MAX + 30)
    world.beat("A", -1)
    assert (len(last(world).moves), last(world).moves_omitted) == (MOVES_MAX, 30)


def test_a_new_coordinator_begins_with_what_is_in_progress() -> None:
    world = a_world()
    world.beat("B", 0, "a")
    world.restart()
    (current,) = world.history.in_progress(world.group)
    assert causes(current) == [("GROUP_LOADED", "", "")]
    world.now_ms += 250
    keep(world, "A")
    assert (causes(last(world)), last(world).duration_ms) == ([("GROUP_LOADED", "", "")], 250)


def test_a_new_coordinator_of_a_stable_group_has_nothing_to_remember() -> None:
    world = a_world()
    world.restart()
    assert (world.history.in_progress(world.group), world.history.held_bytes) == ([], 0)
