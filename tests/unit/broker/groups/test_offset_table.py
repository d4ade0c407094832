"""When committed offsets expire (KIP-211), and when their topics are in use."""

from __future__ import annotations

from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.groups.machine.offset_table import OffsetTable
from sordini.broker.groups.machine.state import CommittedOffset, Group, GroupState, Member, Protocol
from sordini.broker.groups.machine.subscriptions import is_subscribed, subscribed_topics
from sordini.protocol.types import TopicPartition

RETENTION_MS = 1_000
OLD = TopicPartition("old", 0)
NEW = TopicPartition("new", 1)


def committed(at_ms: int, expires_ms: int | None = None) -> CommittedOffset:
    return CommittedOffset(5, 0, "", at_ms, expires_ms)


def subscription(*topics: str, version: int = 3, tail: bytes = b"\xff\xff\xff\xff") -> bytes:
    """The ConsumerProtocolSubscription of a consumer; later versions have more behind the user data."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return version.to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + tail


def group(state: GroupState, *metadata: bytes, protocol_type: str | None = "consumer", since_ms: int = -1) -> Group:
    members = {
        f"m{number}": Member(f"m{number}", None, "c", "/h", 1, 1, (Protocol("other", b"?"), Protocol("range", said)))
        for number, said in enumerate(metadata)
    }
    name = "range" if members else None
    return Group("g", state, 1, protocol_type, name, None, MappingProxyType(members), state_since_ms=since_ms)


def table(**offsets: CommittedOffset) -> OffsetTable:
    made = OffsetTable()
    made.commit({OLD if name == "old" else NEW: offset for name, offset in offsets.items()})
    return made


def test_an_empty_groups_offsets_expire_together_by_the_time_it_became_empty() -> None:
    offsets = table(old=committed(0), new=committed(4_000))
    empty = group(GroupState.EMPTY, since_ms=4_500)
    assert offsets.expired(empty, 5_499, RETENTION_MS) == []
    assert offsets.expired(empty, 5_500, RETENTION_MS) == [OLD, NEW]


def test_an_empty_group_without_a_state_time_expires_offsets_by_their_commits() -> None:
    offsets = table(old=committed(0), new=committed(4_000))
    assert offsets.expired(group(GroupState.EMPTY), 4_500, RETENTION_MS) == [OLD]


def test_a_simple_groups_offsets_expire_each_from_its_commit() -> None:
    offsets = table(old=committed(0), new=committed(4_000))
    simple = group(GroupState.EMPTY, protocol_type=None, since_ms=4_400)
    assert offsets.expired(simple, 4_999, RETENTION_MS) == [OLD]
    assert offsets.expired(simple, 5_000, RETENTION_MS) == [OLD, NEW]


def test_a_stable_groups_offsets_expire_only_for_unsubscribed_topics() -> None:
    offsets = table(old=committed(0), new=committed(0))
    stable = group(GroupState.STABLE, subscription("new"), subscription("newer"))
    assert offsets.expired(stable, 999, RETENTION_MS) == []
    assert offsets.expired(stable, 1_000, RETENTION_MS) == [OLD]


@pytest.mark.parametrize("state", [GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE])
def test_nothing_expires_during_a_rebalance(state: GroupState) -> None:
    assert table(old=committed(0)).expired(group(state, subscription("new")), 10**9, RETENTION_MS) == []


def test_nothing_expires_in_a_stable_group_with_unreadable_metadata() -> None:
    offsets = table(old=committed(0))
    assert offsets.expired(group(GroupState.STABLE, b"garbage"), 10**9, RETENTION_MS) == []
    connect = group(GroupState.STABLE, subscription("new"), protocol_type="connect")
    assert offsets.expired(connect, 10**9, RETENTION_MS) == []


def test_an_expiry_set_by_an_old_client_replaces_the_retention() -> None:
    offsets = table(old=committed(0, expires_ms=100), new=committed(0, expires_ms=9_000))
    empty = group(GroupState.EMPTY, since_ms=0)
    assert offsets.expired(empty, 99, RETENTION_MS) == []
    assert offsets.expired(empty, 100, RETENTION_MS) == [OLD]
    assert offsets.expired(empty, 8_999, RETENTION_MS) == [OLD]
    assert offsets.expired(empty, 9_000, RETENTION_MS) == [OLD, NEW]
    # A subscription prevails over that, too.
    assert offsets.expired(group(GroupState.STABLE, subscription("old")), 9_000, RETENTION_MS) == [NEW]


def test_an_offset_that_is_being_replaced_does_not_expire() -> None:
    offsets, empty = table(old=committed(0)), group(GroupState.EMPTY, since_ms=0)
    offsets.begin_write([OLD, NEW])
    offsets.begin_write([OLD])
    offsets.end_write([OLD, NEW])
    assert offsets.expired(empty, 10**9, RETENTION_MS) == []
    offsets.end_write([OLD])
    assert offsets.expired(empty, 10**9, RETENTION_MS) == [OLD]


def test_the_table_keeps_the_last_commit_until_it_is_deleted() -> None:
    offsets = table(old=committed(0))
    offsets.commit({OLD: committed(7)})
    assert offsets.get(OLD) == committed(7)
    assert dict(offsets.items()) == {OLD: committed(7)}
    assert len(offsets) == 1
    assert offsets.delete([NEW, OLD, OLD]) == [OLD]
    assert offsets.get(OLD) is None
    assert len(offsets) == 0


def test_the_table_is_idle_without_offsets_and_pending_commits() -> None:
    offsets = OffsetTable()
    assert offsets.is_idle
    offsets.begin_write([OLD])
    assert not offsets.is_idle
    offsets.commit({OLD: committed(0)})
    offsets.end_write([OLD])
    assert not offsets.is_idle
    offsets.delete([OLD])
    assert offsets.is_idle


def test_subscriptions_of_any_version_are_read() -> None:
    stable = group(
        GroupState.STABLE,
        subscription("a", "b", version=0),
        subscription("b", "c", version=1, tail=b"\x00\x00\x00\x02hi\x00\x00\x00\x00"),
        subscription(version=99),
    )
    assert subscribed_topics(stable) == {"a", "b", "c"}
    assert is_subscribed(stable, "a")
    assert not is_subscribed(stable, "d")


def test_with_unreadable_metadata_every_topic_is_in_use() -> None:
    for riddle in (
        group(GroupState.STABLE, subscription("a"), b"\x00"),
        group(GroupState.STABLE, b"\xff\xff" + subscription("a")[2:]),
        group(GroupState.STABLE, subscription("a"), protocol_type="connect"),
        group(GroupState.PREPARING_REBALANCE, subscription("a"))._replace(protocol_name=None),
    ):
        assert subscribed_topics(riddle) is None
        assert is_subscribed(riddle, "d")


def test_a_group_without_members_uses_no_topic() -> None:
    assert subscribed_topics(group(GroupState.EMPTY)) == frozenset()
    assert not is_subscribed(group(GroupState.EMPTY), "a")


@given(st.binary(max_size=80))
def test_no_metadata_raises(metadata: bytes) -> None:
    topics = subscribed_topics(group(GroupState.STABLE, metadata))
    assert topics is None or all(isinstance(topic, str) for topic in topics)


def test_partitions_are_those_with_offsets_or_pending_commits() -> None:
    offsets = table(old=committed(0))
    offsets.begin_write([OLD, NEW])
    assert sorted(offsets.partitions()) == [NEW, OLD]
    offsets.end_write([NEW])
    assert offsets.partitions() == [OLD]
