"""Laws of the assignors, over random groups and their changes; Apache Kafka's results are in tests/compat/assignors."""

from __future__ import annotations

from collections import Counter

import pytest

from sordini.broker.groups.consumer.machine.assignors.by_name import ASSIGNORS
from sordini.broker.groups.consumer.machine.assignors.group import Assignment, Group, Member, Partitions
from sordini.protocol.types import TopicId
from tests.support.assignor_groups import GroupMaker, assigned, fresh, group_of, topic_id, with_target
from tests.support.parts import examples

SEEDS = range(20_000, 20_000 + examples(1_600))
names = pytest.mark.parametrize("name", ASSIGNORS)
A, B, C = map(topic_id, range(1, 4))


def each_of(partitions: Partitions) -> set[tuple[TopicId, int]]:
    return {(each, number) for each, numbers in partitions.items() for number in numbers}


def load(partitions: Partitions) -> int:
    return len(each_of(partitions))


def balanced(seed: int) -> Group:
    """A group whose target is what `uniform` gives it, all subscriptions equal."""
    group = GroupMaker(seed).group()
    topics = frozenset(group.partition_counts)
    members = {name: member._replace(subscribed_topics=topics) for name, member in group.members.items()}
    group = group_of(members, group.partition_counts)
    return with_target(group, assigned("uniform", group))


def without(group: Group, member_id: str) -> Group:
    return group_of(
        {name: member for name, member in group.members.items() if name != member_id}, group.partition_counts
    )


def moved(before: Assignment, after: Assignment) -> int:
    return sum(len(each_of(after[name]) - each_of(before.get(name, {}))) for name in after)


@names
def test_every_partition_of_a_subscribed_topic_is_with_one_subscriber(name: str) -> None:
    for seed in SEEDS:
        group = GroupMaker(seed).group()
        assignment = assigned(name, group)
        assert assignment.keys() == group.members.keys()
        owned = Counter(each for partitions in assignment.values() for each in each_of(partitions))
        subscribed = {each for member in group.members.values() for each in member.subscribed_topics}
        assert owned == Counter((each, number) for each in subscribed for number in range(group.partition_counts[each]))
        for member_id, partitions in assignment.items():
            assert partitions.keys() <= group.members[member_id].subscribed_topics
            assert all(partitions.values()), "a topic without partitions"


def test_uniform_gives_members_of_equal_subscriptions_as_many_partitions() -> None:
    for seed in SEEDS:
        group = GroupMaker(seed).group()
        loads = [load(partitions) for partitions in assigned("uniform", group).values()]
        if group.is_homogeneous and loads:
            assert max(loads) - min(loads) <= 1, seed


def test_uniform_leaves_no_partition_that_a_subscriber_with_two_less_could_have() -> None:
    seen = 0
    for seed in SEEDS:
        group = GroupMaker(seed).group()
        assignment = assigned("uniform", group)
        loads = {member_id: load(partitions) for member_id, partitions in assignment.items()}
        for each in group.partition_counts:
            subscribers = [name for name, member in group.members.items() if each in member.subscribed_topics]
            owners = [name for name in subscribers if each in assignment[name]]
            if owners:
                seen += not group.is_homogeneous
                assert max(map(loads.__getitem__, owners)) - min(map(loads.__getitem__, subscribers)) <= 1, seed
    assert seen > len(SEEDS)


@names
def test_nothing_moves_when_nothing_has_changed(name: str) -> None:
    for seed in SEEDS:
        group = GroupMaker(seed).group()
        assignment = assigned(name, group)
        assert assigned(name, with_target(group, assignment)) == assignment, seed


def test_a_member_that_joins_gets_partitions_and_no_other_does() -> None:
    for seed in SEEDS:
        group = balanced(seed)
        before = {member_id: member.target for member_id, member in group.members.items()}
        joined = {**group.members, "joined": Member(frozenset(group.partition_counts))}
        after = assigned("uniform", group_of(joined, group.partition_counts))
        assert moved(before, after) == load(after["joined"]), seed


def test_the_partitions_of_a_member_that_leaves_move_and_no_others_do() -> None:
    for seed in SEEDS:
        group = balanced(seed)
        if len(group.members) < 2:
            continue
        leaves = max(group.members)
        before = {member_id: member.target for member_id, member in group.members.items()}
        after = assigned("uniform", without(group, leaves))
        assert moved(before, after) == load(before[leaves]), seed


def test_only_the_new_partitions_of_a_topic_that_grows_move() -> None:
    for seed in SEEDS:
        group = balanced(seed)
        if not group.members or not group.partition_counts:
            continue
        counts = dict(group.partition_counts)
        counts[max(counts)] += 5
        before = {member_id: member.target for member_id, member in group.members.items()}
        assert moved(before, assigned("uniform", group._replace(partition_counts=counts))) == 5, seed


def test_a_member_that_joins_with_other_topics_takes_only_what_evens_out() -> None:
    group = fresh([(A,), (A,)], {A: 6, B: 2})
    group = with_target(group, assigned("uniform", group))
    before = {member_id: member.target for member_id, member in group.members.items()}
    after = assigned("uniform", group_of({**group.members, "m2": Member(frozenset({A, B}))}, group.partition_counts))
    assert [load(after[member_id]) for member_id in ("m0", "m1", "m2")] == [3, 3, 2]
    assert moved(before, after) == 2
    assert after["m2"] == {B: {0, 1}}


def test_range_gives_equal_topics_to_the_same_members() -> None:
    assignment = assigned("range", fresh([(A, B)] * 3, {A: 7, B: 7}))
    assert [assignment[member_id] for member_id in ("m0", "m1", "m2")] == [
        {A: {0, 1, 2}, B: {0, 1, 2}},
        {A: {3, 4}, B: {3, 4}},
        {A: {5, 6}, B: {5, 6}},
    ]


def test_range_leaves_a_member_without_partitions_where_there_are_fewer_than_members() -> None:
    assignment = assigned("range", fresh([(A, B), (A,), (A, B)], {A: 2, B: 1}))
    assert [assignment[member_id] for member_id in ("m0", "m1", "m2")] == [{A: {0}, B: {0}}, {A: {1}}, {}]


def test_range_has_consecutive_partitions_that_differ_by_one_at_most() -> None:
    for seed in SEEDS:
        group = GroupMaker(seed).group()
        assignment = assigned("range", group)
        for each in group.partition_counts:
            subscribers = [name for name, member in group.members.items() if each in member.subscribed_topics]
            ranges = [sorted(assignment[name].get(each, ())) for name in subscribers]
            assert all(part == list(range(part[0], part[-1] + 1)) for part in ranges if part)
            assert not ranges or max(map(len, ranges)) - min(map(len, ranges)) <= 1


def test_a_static_member_keeps_its_range_under_another_member_id() -> None:
    static = Member(frozenset({A}), instance_id="i-1")
    dynamic = Member(frozenset({A}))
    first = assigned("range", group_of({"a": dynamic, "z": static}, {A: 3}))
    again = assigned("range", group_of({"a": dynamic, "0": static}, {A: 3}))
    assert first["z"] == again["0"] == {A: {0, 1}}
    assert first["a"] == {A: {2}}


def test_static_members_are_ordered_by_their_instance_ids() -> None:
    members = {"a": Member(frozenset({A}), instance_id="i-2"), "b": Member(frozenset({A}), instance_id="i-1")}
    assert assigned("range", group_of(members, {A: 2})) == {"b": {A: {0}}, "a": {A: {1}}}


@names
def test_a_group_without_members_or_topics_has_an_empty_assignment(name: str) -> None:
    assert assigned(name, fresh([], {A: 1})) == {}
    assert assigned(name, fresh([(), ()], {A: 1})) == {"m0": {}, "m1": {}}
    assert assigned(name, fresh([(A,), ()], {A: 1})) == {"m0": {A: {0}}, "m1": {}}


@names
def test_a_member_loses_what_it_no_longer_subscribes_to(name: str) -> None:
    members = {"m0": Member(frozenset({A}), {A: frozenset({0}), B: frozenset({0})}), "m1": Member(frozenset({A}))}
    assert assigned(name, group_of(members, {A: 2})) == {"m0": {A: {0}}, "m1": {A: {1}}}


def test_uniform_is_the_default() -> None:
    assert list(ASSIGNORS) == ["uniform", "range"]


@names
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_steps_grow_with_partitions_and_subscriptions_and_not_with_their_product(
    name: str, is_homogeneous: bool
) -> None:
    def steps_of(members: int, topics: int) -> list[int]:
        counts = {topic_id(number): 10 for number in range(1, topics + 1)}
        # Each member has twenty topics at least: subscriptions do not grow with the product of both either.
        window = topics if is_homogeneous else 20
        subscriptions = [[topic_id((first + each) % topics + 1) for each in range(window)] for first in range(members)]
        return list(ASSIGNORS[name](fresh(subscriptions, counts)))

    small, large = steps_of(50, 50), steps_of(200, 200)
    assert sum(large) <= 5 * sum(small)
    assert max(large) <= 200 + 1
    assert len(large) >= 200
