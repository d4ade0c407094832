"""Elections by the controller's shell: changed settings, requests of tools, and the rebalance timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from sordini.coordination_store.embedded import EmbeddedStore
from sordini.protocol.types import BrokerId, LeaderEpoch
from sordini.replication.cluster_model import ClusterSettings, KnownState, PartitionState, StopReplica
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.policy import UNCLEAN_KEY, LeaderRebalance, Policy
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.configs import change_config
from sordini.replication.metadata_store.registration import ensure_base_paths
from sordini.testing.simulation.virtual_loop import Deadlock, SimLoop, elapse, run
from tests.support.controller_harness import ORDERS, TOPIC_ID, ControllerHarness, ids
from tests.unit.replication.conftest import StoppedClock, inline


async def without_in_sync(
    scene: ControllerHarness,
    settings: Mapping[str, str],
    policy: Policy = Policy(),  # noqa: B008 - a value.
) -> KnownState:
    """Of a partition on 2 and 3 only 2 was in sync, and 2 has gone."""
    await scene.register(1, 2, 3)
    await scene.start(policy)
    await scene.create_topic("orders", (2, 3), settings=settings)
    await scene.write_state(ORDERS, 2, 4, 2)
    before = (await scene.state()).version
    await scene.fail(2)
    after = await scene.state()
    assert after.version == before + 1, "one decision is one write"
    return after


async def test_a_replica_that_lags_leads_where_the_topic_allows_it_and_recovers(scene: ControllerHarness) -> None:
    found = await without_in_sync(scene, {UNCLEAN_KEY: "true"})
    assert found.state == PartitionState(BrokerId(3), LeaderEpoch(5), ids(3), 1, recovering=True)


async def test_a_replica_that_lags_does_not_lead_where_it_is_not_allowed(scene: ControllerHarness) -> None:
    assert (await without_in_sync(scene, {})).state == PartitionState(None, LeaderEpoch(5), ids(2), 1)
    await scene.set_config("orders", {"retention.ms": "1"})
    assert await scene.leader() is None
    await scene.register(2)
    assert await scene.leader() == 2


async def test_the_brokers_default_is_applied_with_the_topics_own_settings(scene: ControllerHarness) -> None:
    requested = list[Mapping[str, str]]()

    def allows(settings: Mapping[str, str]) -> bool:
        requested.append(settings)
        return True

    found = await without_in_sync(scene, {"retention.ms": "1"}, Policy(allows_unclean=allows))
    assert found.state.leader == 3
    assert requested == [{"retention.ms": "1"}]


async def test_settings_that_cannot_be_decoded_allow_nothing(scene: ControllerHarness) -> None:
    await scene.register(1, 2, 3)
    await scene.start()
    await scene.create_topic("orders", (2, 3))
    await scene.write_state(ORDERS, 2, 4, 2)
    await scene.session.set(paths.topic_config("orders"), b"\xff{")
    await scene.fail(2)
    assert await scene.leader() is None
    await scene.session.delete(paths.topic_config("orders"))
    await scene.register(4)
    assert await scene.leader() is None


async def test_allowing_it_while_there_is_no_leader_elects_at_once(scene: ControllerHarness) -> None:
    await without_in_sync(scene, {})
    await scene.set_config("orders", {UNCLEAN_KEY: "true"})
    assert await scene.leader() == 3


async def test_allowing_it_for_all_topics_elects_at_once(scene: ControllerHarness) -> None:
    allowed = list[bool]()
    await without_in_sync(scene, {}, Policy(allows_unclean=lambda _: bool(allowed)))
    allowed.append(True)
    assert scene.controller is not None
    scene.controller.unclean_settings_changed(None)
    await scene.settled()
    assert await scene.leader() == 3


async def test_a_new_controller_elects_what_may_be_led_uncleanly(scene: ControllerHarness) -> None:
    await without_in_sync(scene, {})
    assert scene.controller is not None
    await scene.controller.stop()
    await change_config(scene.session, paths.topic_entity("orders"), lambda _: {UNCLEAN_KEY: "true"})
    await scene.start(Policy(ClusterSettings(marks_recovery=False)))
    assert (await scene.state()).state == PartitionState(BrokerId(3), LeaderEpoch(6), ids(3), 2)


async def led_by_another(scene: ControllerHarness) -> None:
    """The partition prefers 2 and is led by 3, both being in sync."""
    await scene.register(1, 2, 3)
    await scene.start()
    await scene.create_topic("orders", (2, 3))
    await scene.write_state(ORDERS, 3, 4, 3, 2)
    assert await scene.leader() == 3


@pytest.mark.parametrize(
    ("data", "leader"),
    [
        (b'{"version":1,"partitions":[{"topic":"orders","partition":0},{"topic":"orders","partition":9}]}', 2),
        (b'{"version":1,"partitions":[]}', 3),
        (b"not JSON", 3),
        (b"", 3),
        (b'{"partitions":[{"topic":7,"partition":0}]}', 3),
    ],
)
async def test_a_tools_request_for_preferred_leaders_is_carried_out_and_its_node_deleted(
    scene: ControllerHarness, data: bytes, leader: int
) -> None:
    await led_by_another(scene)
    for _ in range(2):  # After the first there is room for another.
        await scene.session.create(paths.PREFERRED_ELECTION, data)
        await scene.settled()
        assert await scene.leader() == leader
        assert await scene.session.exists(paths.PREFERRED_ELECTION) is None


async def test_a_request_written_while_there_was_no_controller_is_found(scene: ControllerHarness) -> None:
    await led_by_another(scene)
    assert scene.controller is not None
    await scene.controller.stop()
    await scene.session.create(paths.PREFERRED_ELECTION, znodes.encode_preferred_election([ORDERS]))
    await scene.start()
    assert await scene.leader() == 2
    assert await scene.session.exists(paths.PREFERRED_ELECTION) is None


async def test_a_topic_is_not_deleted_while_deletion_is_disabled(scene: ControllerHarness) -> None:
    await scene.register(1)
    await scene.session.create(paths.delete_topic("orders"))
    await topics.create_topic(scene.session, "orders", {0: ids(1)}, TOPIC_ID, {})
    await scene.start(Policy(ClusterSettings(deletes_topics=False)))
    assert await scene.leader() == 1
    await scene.session.create(paths.delete_topic("orders"))
    await scene.settled()
    assert await scene.session.children(paths.DELETE_TOPICS) == []
    assert not scene.brokers.commands(StopReplica)


def over_time(
    balance: LeaderRebalance | None, story: Callable[[ControllerHarness, Controller], Awaitable[None]]
) -> None:
    """Play a story in virtual time, on a cluster whose one partition prefers 2 and is led by 3."""

    async def settled(controller: Any) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
            await controller.caught_up()

    opened: list[EmbeddedStore] = []

    async def main() -> None:
        store = await EmbeddedStore.open(":memory:", inline, StoppedClock())
        opened.append(store)
        session = await store.open_session()
        await ensure_base_paths(session)
        scene = ControllerHarness(store, session, settled)
        await scene.register(1, 2, 3)
        controller = await scene.start(Policy(rebalance=balance))
        await scene.create_topic("orders", (2, 3))
        await scene.write_state(ORDERS, 3, 4, 3, 2)
        await story(scene, controller)
        await controller.stop()
        await store.close()

    try:
        run(SimLoop(1), main())
    finally:
        opened[0]._database.close()  # A story that never ends does not come to the store's own end.


def test_leaders_are_rebalanced_five_seconds_after_the_election_and_then_at_the_interval() -> None:
    async def story(scene: ControllerHarness, _: Controller) -> None:
        await elapse(4.9)
        assert await scene.leader() == 3
        await elapse(0.2)
        assert await scene.leader() == 2
        await scene.write_state(ORDERS, 3, 9, 3, 2)
        await elapse(299)
        assert await scene.leader() == 3
        await elapse(1)
        assert await scene.leader() == 2

    over_time(LeaderRebalance(), story)


def test_no_timer_is_left_once_the_controller_has_stopped() -> None:
    async def story(_: ControllerHarness, controller: Controller) -> None:
        await controller.stop()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        over_time(LeaderRebalance(), story)


def test_an_imbalance_within_the_percentage_is_kept() -> None:
    async def story(scene: ControllerHarness, _: Controller) -> None:
        await elapse(1_000)
        assert await scene.leader() == 3

    over_time(LeaderRebalance(1, 100), story)


def test_leaders_are_not_rebalanced_where_disabled_and_after_a_resignation() -> None:
    async def nothing(scene: ControllerHarness, _: Controller) -> None:
        await elapse(1_000)
        assert await scene.leader() == 3

    over_time(None, nothing)

    async def resigned(scene: ControllerHarness, controller: Controller) -> None:
        await elapse(2)
        await scene.session.delete(paths.CONTROLLER)
        await scene.session.create(paths.CONTROLLER, znodes.encode_controller(BrokerId(7), 0))
        await scene.settled()
        assert not controller.is_active
        await elapse(2)
        assert await scene.leader() == 3
        await scene.session.delete(paths.CONTROLLER)
        await scene.settled()
        assert controller.is_active
        await elapse(4.9)
        assert await scene.leader() == 3
        await elapse(0.2)
        assert await scene.leader() == 2

    over_time(LeaderRebalance(), resigned)
