"""Heartbeats that come too late, on a connection that their member's client has given up."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.groups.consumer.machine.changes import SubscriptionChange
from sordini.broker.groups.consumer.machine.state import ConsumerGroup, ConsumerMember
from sordini.broker.groups.consumer.member_connections import NO_CONNECTION, MemberConnections
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.group_requests import a_coordinator, join
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_peer, answer_of
from tests.unit.broker.groups.consumer.test_groups import (
    AT_ONCE,
    BEAT,
    beat,
    beat_later,
    described,
    indexes,
    loaded_again,
)
from tests.unit.broker.groups.test_coordinator import in_sync

NONE = ErrorCode.NONE
OLDER, NEWER = 4, 7


def beat_on(connection: int, broker: UnitBroker, member: str = "a", epoch: int = 0, **fields: Any) -> Any:
    """The answer to a heartbeat on a connection; WireError where that is to be closed."""
    broker.peer = a_peer(number=connection)
    return beat(broker, member, epoch, **fields)


def connections(broker: UnitBroker) -> MemberConnections:
    found = broker.parts.groups.runtime.loaded_shard("g").state.consumers._connections
    assert found is not None
    return found


def remembered(broker: UnitBroker) -> dict[str, int]:
    """Of those of the members a, b and c that anything is remembered of."""
    newest = {name: connections(broker).newest("g", name) for name in ("a", "b", "c")}
    assert len(connections(broker)) == sum(number != NO_CONNECTION for number in newest.values())
    return {name: number for name, number in newest.items() if number != NO_CONNECTION}


@pytest.mark.parametrize("epoch", [0, 2, -1], ids=["a join", "a heartbeat", "a leave"])
async def test_a_heartbeat_on_an_older_connection_is_not_answered_and_changes_nothing(epoch: int) -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(OLDER, broker, "a")
        assert beat_on(NEWER, broker, "a", 2, topic_partitions=[]).error_code == NONE
        before = described(broker)
        with pytest.raises(WireError, match="member a has a newer connection"):
            beat_on(OLDER, broker, "a", epoch)
        assert described(broker) == before
        assert beat_on(NEWER, broker, "a", 2).error_code == NONE


async def test_a_delayed_join_gives_nothing_away() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        assert indexes(beat_on(NEWER, broker, "a")) == [0, 1, 2]
        assert indexes(beat_on(OLDER, broker, "b")) == []
        with pytest.raises(WireError):
            beat_on(OLDER, broker, "a")
        assert indexes(beat_on(OLDER, broker, "b", 3)) is None, "the member a has not given up its third partition"
        assert indexes(beat_on(NEWER, broker, "a", 2)) == [0, 1]


async def test_a_delayed_heartbeat_does_not_take_the_answer_that_names_a_new_partition() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a")
        beat_on(NEWER, broker, "b")
        beat_on(NEWER, broker, "b", -1)
        with pytest.raises(WireError):
            beat_on(OLDER, broker, "a", 2)
        assert beat_on(NEWER, broker, "a", 2).member_epoch == 4


async def test_the_same_connection_and_every_newer_one_is_served() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        for connection in (OLDER, OLDER, NEWER, NEWER + 1):
            assert beat_on(connection, broker).error_code == NONE
        assert remembered(broker) == {"a": NEWER + 1}


async def test_each_member_has_connections_of_its_own() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a")
        assert beat_on(OLDER, broker, "b").error_code == NONE
        assert remembered(broker) == {"a": NEWER, "b": OLDER}


async def test_a_heartbeat_counts_before_it_is_committed() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        await in_sync(broker, ME, OTHER, epoch=1)
        broker.peer = a_peer(number=NEWER)
        joining = beat_later(broker, "a")
        with pytest.raises(WireError):
            beat_on(OLDER, broker, "a")
        await in_sync(broker, ME, epoch=2)
        assert answer_of(joining, BEAT, 1).member_epoch == 2


async def test_a_refused_heartbeat_of_a_member_counts() -> None:
    """Its client has gone on to that connection, and still consumes what it has."""
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(OLDER, broker, "a")
        assert beat_on(NEWER, broker, "a", 9).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        with pytest.raises(WireError):
            beat_on(OLDER, broker, "a")


async def test_a_heartbeat_that_cannot_be_written_counts_for_a_member_and_not_for_one_that_joins() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(OLDER, broker, "a")
        broker.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)
        assert beat_on(NEWER, broker, "a", -1).error_code == ErrorCode.NOT_COORDINATOR
        assert beat_on(NEWER, broker, "b").error_code == ErrorCode.NOT_COORDINATOR
        broker.disk.heal()
        assert remembered(broker) == {"a": NEWER}


async def test_nothing_is_remembered_of_ids_that_are_no_members() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        assert beat_on(NEWER, broker, "b", 2).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        beat_on(OLDER, broker, "a")
        assert beat_on(NEWER, broker, "b", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert beat_on(NEWER, broker, "c", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert remembered(broker) == {"a": OLDER}


async def test_a_member_that_left_may_join_again_on_any_connection() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a")
        beat_on(NEWER, broker, "b")
        beat_on(NEWER, broker, "a", -1)
        assert remembered(broker) == {"b": NEWER}
        assert beat_on(OLDER, broker, "a").error_code == NONE


async def test_a_member_that_was_fenced_may_join_again_on_any_connection() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a")
        broker.clock.ms += 45_000
        broker.timers.fire()
        assert remembered(broker) == {}
        assert beat_on(OLDER, broker, "a").error_code == NONE


async def test_a_member_that_an_administrator_removed_is_forgotten() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a", instance_id="i")
        members = [MemberIdentity(member_id="", group_instance_id="i")]
        broker.ask(ApiKey.LEAVE_GROUP, 4, LeaveGroupRequest(group_id="g", members=members))
        assert remembered(broker) == {}


async def test_a_static_member_that_left_for_a_while_is_remembered_until_another_takes_its_place() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a", instance_id="i")
        beat_on(NEWER, broker, "a", -2, instance_id="i")
        with pytest.raises(WireError):
            beat_on(OLDER, broker, "a", instance_id="i")
        assert beat_on(OLDER, broker, "b", instance_id="i").error_code == NONE
        assert remembered(broker) == {"b": OLDER}


async def test_nothing_is_remembered_of_a_deleted_group() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a")
        beat_on(NEWER, broker, "a", -1)
        broker.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
        assert remembered(broker) == {}
        assert beat_on(OLDER, broker, "a").error_code == NONE


async def test_the_end_of_the_leadership_forgets_and_there_is_no_floor() -> None:
    """A member may have had its connection to the new coordinator for long."""
    async with a_coordinator(AT_ONCE) as broker:
        broker.parts.groups.accepted_connections = lambda: NEWER + 1
        beat_on(NEWER, broker, "a")
        before = connections(broker)
        await loaded_again(broker)
        assert (len(before), remembered(broker)) == (0, {})
        assert beat_on(OLDER, broker, "a", 2).error_code == NONE
        assert remembered(broker) == {"a": OLDER}
        with pytest.raises(WireError):
            beat_on(OLDER - 1, broker, "a")


async def test_nothing_is_remembered_of_classic_members_nor_of_a_group_that_becomes_theirs() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a")
        broker.peer = a_peer(number=OLDER)
        assert join(broker, "c").error_code == NONE
        assert join(broker, "c").error_code == NONE
        assert remembered(broker) == {"a": NEWER}
        beat_on(NEWER, broker, "a", -1)
        assert broker.parts.groups.group("g") is not None
        assert remembered(broker) == {}


async def test_members_of_the_same_id_in_two_groups_are_two() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat_on(NEWER, broker, "a", group_id="h")
        assert beat_on(OLDER, broker, "a").error_code == NONE
        assert connections(broker).newest("h", "a") == NEWER
        assert connections(broker).newest("g", "a") == OLDER
        with pytest.raises(WireError):
            beat_on(OLDER, broker, "a", 2, group_id="h")


async def test_every_connection_is_served_where_the_setting_is_false() -> None:
    off = {"sordini.group.consumer.stale.connection.fencing.enable": "false"}
    async with a_coordinator({**AT_ONCE, **off}) as broker:
        beat_on(NEWER, broker, "a")
        assert beat_on(OLDER, broker, "a", 2).error_code == NONE
        assert beat_on(OLDER, broker, "a").error_code == NONE
        broker.clock.ms += 45_000
        broker.timers.fire()
        await loaded_again(broker)
        assert beat_on(0, broker, "a").error_code == NONE


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("beats"), st.sampled_from("ab"), st.integers(0, 5)),
        st.tuples(st.sampled_from(["joins", "leaves"]), st.sampled_from("ab"), st.integers(0, 5)),
    ),
    max_size=30,
)


@given(STEPS)
def test_no_heartbeat_of_a_member_is_admitted_on_an_older_connection_than_one_before(
    steps: list[tuple[str, str, int]],
) -> None:
    memory, newest, members = MemberConnections(), dict[str, int](), dict[str, ConsumerMember]()
    for step, name, connection in steps:
        group = ConsumerGroup("g", members=members)
        is_admitted = memory.admit(group, name, connection)
        assert is_admitted == (connection >= newest.get(name, NO_CONNECTION))
        if not is_admitted:
            continue
        if step == "joins":
            members[name] = ConsumerMember(name)
        elif step == "leaves":
            members.pop(name, None)
        if step != "beats":
            change = SubscriptionChange(name, members.get(name))
            memory.changed("g", (change,), name, connection)
        if name in members:
            newest[name] = connection
        else:
            newest.pop(name, None)
        assert {name: memory.newest("g", name) for name in newest} == newest
        assert len(memory) == len(newest)
