"""Log lines of groups: members fenced, rebalances completed, groups loaded and unloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sordini.broker.groups.machine.events import GroupLimits, MemberFenced, RebalanceCompleted
from sordini.broker.groups.machine.state import GroupState
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.group_requests import a_coordinator, a_stable_group, commit, join, leave, sync_request
from tests.support.groups_world import World
from tests.support.unit_broker import UnitBroker


def lines(broker: UnitBroker, event: str) -> list[dict[str, Any]]:
    return [fields for logged, fields in broker.log.at("info") if logged == event]


async def test_a_completed_rebalance_is_one_line_with_its_generation_members_and_protocol() -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        assert lines(broker, "rebalance completed") == [
            {"group": "g", "generation": 1, "members": 1, "protocol": "range"}
        ]


async def test_a_rebalance_that_leaves_no_member_is_completed_too() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        leave(broker, joined)
        assert lines(broker, "rebalance completed")[1:] == [
            {"group": "g", "generation": 2, "members": 0, "protocol": None}
        ]
        assert not lines(broker, "member fenced"), "a member that leaves is not fenced"


async def test_a_member_whose_session_expires_is_fenced_with_one_line() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        broker.timers.fire()
        broker.clock.ms += 10_000
        broker.timers.fire()
        assert lines(broker, "member fenced") == [
            {"group": "g", "member": joined.member_id, "instance": None, "reason": "session expired"}
        ]


async def test_a_replaced_static_member_is_fenced_with_the_id_that_replaces_it() -> None:
    async with a_coordinator() as broker:
        first = join(broker, version=5, group_instance_id="worker-1")
        broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(first))
        second = join(broker, version=5, group_instance_id="worker-1")
        assert lines(broker, "member fenced") == [
            {
                "group": "g",
                "member": first.member_id,
                "instance": "worker-1",
                "reason": f"replaced by {second.member_id}",
            }
        ]


async def test_groups_loaded_and_unloaded_are_counted_and_timed() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        joined = a_stable_group(broker)
        assert commit(broker, {0: 1, 1: 2}, joined) == [0, 0]
        assert not lines(broker, "groups loaded"), "an empty partition has no groups to load"
    async with a_coordinator(disk=disk.killed()) as broker:
        broker.parts.replicas.resign_all()
        partition = f"{OFFSETS_TOPIC}-0"
        assert lines(broker, "groups loaded") == [{"partition": partition, "groups": 1, "records": 3, "took_ms": 0}]
        assert lines(broker, "groups unloaded") == [{"partition": partition, "groups": 1, "took_ms": 0}]


async def test_groups_of_both_kinds_are_counted_when_they_are_loaded() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        a_stable_group(broker)
        request = ConsumerGroupHeartbeatRequest(
            group_id="another",
            member_id="m",
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        assert broker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request).error_code == 0
    async with a_coordinator(disk=disk.killed()) as broker:
        broker.parts.replicas.resign_all()
        assert [line["groups"] for line in lines(broker, "groups loaded")] == [2]
        assert [line["groups"] for line in lines(broker, "groups unloaded")] == [2]


def a_rebalance(*names: str, limits: GroupLimits | None = None) -> World:
    """A generation of these members in which no assignment has been sent yet."""
    world = World(limits or GroupLimits(initial_rebalance_delay_ms=0))
    for name in names:
        world.join(world.client(name))
    world.join(world.client(names[0]))
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    world.logged.clear()
    return world


def misses_the_rebalance() -> World:
    world = a_rebalance("A", "B")
    world.sync(world.client("A"), {"A": b"a", "B": b"b"})
    world.sync(world.client("B"), {})
    world.client("A").protocols = world.client("A").protocols[::-1]
    world.join(world.client("A"))
    while "B-1" in world.group.members:
        world.wait(5_000)
        world.heartbeat(world.client("B"))
    return world


def misses_the_sync() -> World:
    world = a_rebalance("A", "B")
    world.sync(world.client("A"), {"A": b"a", "B": b"b"})
    for _ in range(10):
        world.wait(9_000)
        world.heartbeat(world.client("A"))
        world.heartbeat(world.client("B"))
    return world


@pytest.mark.parametrize(
    ("story", "reason"), [(misses_the_rebalance, "rebalance timeout"), (misses_the_sync, "sync timeout")]
)
def test_a_fenced_member_is_logged_with_the_reason(story: Callable[[], World], reason: str) -> None:
    world = story()
    fenced = [action for action in world.logged if isinstance(action, MemberFenced)]
    assert [(action.member_id, action.reason) for action in fenced] == [("B-1", reason)]


def test_each_generation_is_logged_once() -> None:
    world = a_rebalance("A", "B")
    world.sync(world.client("A"), {"A": b"a", "B": b"b"})
    world.sync(world.client("B"), {})
    assert world.logged == [RebalanceCompleted(world.group.generation_id, 2, "range")]
