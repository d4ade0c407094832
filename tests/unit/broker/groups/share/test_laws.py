"""Laws of share groups, whatever happens: invariants, a log that says the same, and members that get to their target."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.broker.groups.consumer.machine.events import HeartbeatAnswer
from sordini.broker.groups.share.machine.events import DeleteOffsets, TopicsDeleted
from sordini.broker.groups.share.machine.simple_assignor import AssignableGroup
from tests.support.share_assignor_groups import ShareGroupMaker, assigned
from tests.support.share_group_world import ShareGroupWorld, persistent

NAMES = ("a", "b", "c")
MEMBERS = ("m", "n", "o")

joins = st.tuples(st.just("join"), st.sampled_from(MEMBERS), st.sets(st.sampled_from(NAMES), min_size=1))
others = st.tuples(
    st.sampled_from(("beat", "leave", "subscribe", "store", "fail", "wait", "grow", "delete", "forget", "restart")),
    st.sampled_from(MEMBERS),
    st.sets(st.sampled_from(NAMES), min_size=1),
)


def play(world: ShareGroupWorld, what: str, member_id: str, names: set[str]) -> None:
    member, chosen = world.group.members.get(member_id), sorted(names)
    epoch = 0 if member is None else member.epoch
    topic_ids = [topic_id for topic_id in map(world.topics.id_of, chosen) if topic_id is not None]
    match what:
        case "join":
            world.beat(member_id, 0, *chosen)
        case "beat" if epoch > 0:
            world.beat(member_id, epoch)
        case "subscribe" if epoch > 0:
            world.beat(member_id, epoch, *chosen)
        case "leave":
            world.beat(member_id, -1)
        case "store" | "fail":
            world.store(fails=what == "fail")
        case "wait":
            world.now_ms += 20_000
            world.tick()
        case "grow":
            known = world.topics.get(chosen[0])
            world.topics.put(chosen[0], 1 if known is None else known.partitions + 1)
        case "delete":
            world.topics.delete(chosen[0])
            world.apply(TopicsDeleted(frozenset(topic_ids[:1])))
        case "forget":
            world.apply(DeleteOffsets(tuple(topic_ids)))
        case "restart":
            world.restart()


@settings(max_examples=60)
@given(st.lists(st.one_of(joins, others), max_size=30))
def test_whatever_happens_members_have_all_partitions_in_the_end(script: list[tuple[str, str, set[str]]]) -> None:
    """The world asserts the invariants, and that the log has the group, after every step."""
    world = ShareGroupWorld(a=2, b=1)
    for what, member_id, names in script:
        play(world, what, member_id, names)
    for _ in range(4):
        world.now_ms += 1_000
        for member_id, member in list(world.group.members.items()):
            answer = world.beat(member_id, member.epoch or 0, *sorted(member.subscribed_topics))
            assert isinstance(answer, HeartbeatAnswer)
        world.now_ms += 30_000
        for member_id, member in list(world.group.members.items()):
            world.beat(member_id, member.epoch)
        world.store()
    members = world.group.members.values()
    subscribed = {name for member in members for name in member.subscribed_topics}
    held = {(topic, index) for member in members for topic, found in member.assigned.items() for index in found}
    topics = [topic for topic in map(world.topics.get, sorted(subscribed)) if topic is not None]
    assert held == {(topic.topic_id, index) for topic in topics for index in range(topic.partitions)}
    assert persistent(world.loaded()) == persistent(world.group)


def all_assignable(group: AssignableGroup) -> AssignableGroup:
    """As it is without a deletion of states: what members have is assignable."""
    assignable = dict(group.assignable)
    for member in group.members.values():
        for topic, found in member.target.items():
            assignable[topic] = assignable.get(topic, frozenset()) | found
    return group._replace(assignable=assignable)


@settings(max_examples=60)
@given(st.integers(0, 10_000_000))
def test_every_partition_has_a_member_and_no_member_has_what_it_does_not_subscribe_to(seed: int) -> None:
    group = all_assignable(ShareGroupMaker(seed).group())
    found = assigned(group)
    assert found.keys() == group.members.keys()
    held = {(topic, index) for partitions in found.values() for topic, some in partitions.items() for index in some}
    subscribed = frozenset[bytes]().union(*(member.subscribed_topics for member in group.members.values()))
    assert {(topic, i) for topic in subscribed for i in group.assignable.get(topic, ())} <= held  # type: ignore[call-overload]
    for name, member in group.members.items():
        gained = {topic for topic, some in found[name].items() if some - member.target.get(topic, frozenset())}
        assert gained <= member.subscribed_topics
