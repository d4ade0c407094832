"""A group changes its protocol while it has members: what is refused, and what it is made of."""

from __future__ import annotations

import pytest

from sordini.broker.groups import conversion
from sordini.broker.groups.consumer.machine.events import ConsumerLimits
from sordini.broker.groups.consumer.machine.machine import check_invariants
from sordini.broker.groups.conversion import downgraded, group_of, upgraded
from sordini.broker.groups.machine.events import Now
from sordini.broker.groups.machine.persistent_state import restore_group
from sordini.broker.groups.machine.state import Group, GroupValue, MemberValue
from sordini.protocol.consumer_assignment import written_assignment
from sordini.protocol.errors import BrokerError, ErrorCode
from tests.support.consumer_group_world import FakeTopics, subscription

NOW = Now(1_000, 2_000)
TOPICS = FakeTopics(a=4, b=2)


def classic(*shares: dict[str, list[int]], **fields: object) -> Group:
    """A stable classic group, with the assignment of each member."""
    members = tuple(
        MemberValue(
            f"m{number}",
            None,
            "client",
            "/127.0.0.1",
            30_000,
            10_000,
            subscription(["a", "b"], {}),
            written_assignment(1, share.items()),
        )
        for number, share in enumerate(shares)
    )
    value = GroupValue("consumer", 7, "range", "m0", 0, members)._replace(**fields)
    return restore_group("g", value, NOW)


def test_members_keep_what_they_have_and_their_generation_is_the_epoch() -> None:
    changes = upgraded(classic({"a": [0, 1]}, {"a": [2], "b": [0, 1]}), TOPICS, ConsumerLimits())
    group = group_of("g", changes, 5_000)
    check_invariants(group)
    assert (group.epoch, group.assignment_epoch) == (7, 7)
    assert [member.epoch for member in group.members.values()] == [7, 7]
    assert {name: sorted(member.assigned) for name, member in group.members.items()} == {
        name: sorted(target) for name, target in group.targets.items()
    }
    assert group.session_deadlines_ms == {"m0": 15_000, "m1": 15_000}


def test_a_group_that_becomes_a_consumer_group_and_classic_again_has_the_same_members_and_assignments() -> None:
    before = classic({"a": [0, 1]}, {"a": [2], "b": [0, 1]})
    value = downgraded(group_of("g", upgraded(before, TOPICS, ConsumerLimits()), 5_000), TOPICS, 9)
    after = restore_group("g", value, NOW)
    assert after.members == before.members
    assert (after.generation_id, after.protocol_name, after.leader_id) == (7, "range", "m0")


def test_partitions_of_topics_that_are_gone_are_nobodys() -> None:
    group = group_of("g", upgraded(classic({"a": [0], "gone": [1]}), TOPICS, ConsumerLimits()), 0)
    [member] = group.members.values()
    assert list(member.assigned) == [TOPICS.id_of("a")]


def test_partitions_that_a_topic_made_again_does_not_have_are_nobodys() -> None:
    group = group_of("g", upgraded(classic({"a": [-1, 3, 4, 9]}), TOPICS, ConsumerLimits()), 0)
    [member] = group.members.values()
    assert [sorted(epochs) for epochs in member.assigned.values()] == [[3]]
    assert [sorted(target) for target in group.targets["m0"].values()] == [[3]]


@pytest.mark.parametrize(
    ("group", "limits", "reason"),
    [
        (classic({"a": [0]}), ConsumerLimits(allows_upgrade=False), "online upgrade is disabled."),
        (
            classic({"a": [0]}, protocol_type="connect"),
            ConsumerLimits(),
            "does not use the consumer embedded protocol.",
        ),
        (
            classic({"a": [0]}, {"a": [1]}),
            ConsumerLimits(members_max=1),
            "exceeds the maximum size of a consumer group.",
        ),
        (classic({"a": [0]}, {"a": [0]}), ConsumerLimits(), "a partition is assigned to two of its members."),
    ],
)
def test_a_group_that_is_not_converted_is_refused_with_the_reason(
    group: Group, limits: ConsumerLimits, reason: str
) -> None:
    with pytest.raises(BrokerError, match=reason) as refused:
        upgraded(group, TOPICS, limits)
    assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_subscriptions_are_too_large_to_be_read_in_one_go_is_not_converted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversion, "CONVERTED_BYTES_MAX", 10)
    with pytest.raises(BrokerError, match=r"its subscriptions and assignments have [0-9]+ bytes, 10 are read"):
        upgraded(classic({"a": [0]}), TOPICS, ConsumerLimits())
