"""Who is to lead, as the controller's shell hears of it: settings, a tool's wishes, and the time that has passed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from sordini.broker.coordination.embedded import EmbeddedStore
from sordini.protocol.types import BrokerId, LeaderEpoch
from sordini.replication.cluster_model import Conventions, KnownState, PartitionState, StopReplica
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.policy import UNCLEAN_KEY, Balance, Policy
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.configs import change_config
from sordini.replication.metadata_store.registration import ensure_base_paths
from tests.support.controller_harness import ORDERS, TOPIC_ID, Scene, ids
from tests.support.virtual_loop import Deadlock, SimLoop, elapse, run
from tests.unit.replication.conftest import StoppedClock, inline


async def without_in_sync(scene: Scene, settings: Mapping[str, str], policy: Policy = Policy()) -> KnownState:  # noqa: B008
    """Of a partition on 2 and 3 only 2 was in sync, and 2 has gone."""
    await scene.come(1, 2, 3)
    await scene.begin(policy)
    await scene.make("orders", (2, 3), settings=settings)
    await scene.write(ORDERS, 2, 4, 2)
    before = (await scene.known()).version
    await scene.go(2)
    after = await scene.known()
    assert after.version == before + 1, "one decision is one write"
    return after


async def test_a_replica_that_lags_leads_where_the_topic_allows_it_and_recovers(scene: Scene) -> None:
    found = await without_in_sync(scene, {UNCLEAN_KEY: "true"})
    assert found.state == PartitionState(BrokerId(3), LeaderEpoch(5), ids(3), 1, recovering=True)


async def test_it_does_not_where_nobody_allows_it(scene: Scene) -> None:
    assert (await without_in_sync(scene, {})).state == PartitionState(None, LeaderEpoch(5), ids(2), 1)
    await scene.set("orders", {"retention.ms": "1"})
    assert await scene.leader() is None
    await scene.come(2)
    assert await scene.leader() == 2


async def test_the_brokers_default_is_asked_with_the_topics_own_settings(scene: Scene) -> None:
    asked = list[Mapping[str, str]]()

    def allows(settings: Mapping[str, str]) -> bool:
        asked.append(settings)
        return True

    found = await without_in_sync(scene, {"retention.ms": "1"}, Policy(allows_unclean=allows))
    assert found.state.leader == 3
    assert asked == [{"retention.ms": "1"}]


async def test_settings_that_cannot_be_read_allow_nothing_of_their_own(scene: Scene) -> None:
    await scene.come(1, 2, 3)
    await scene.begin()
    await scene.make("orders", (2, 3))
    await scene.write(ORDERS, 2, 4, 2)
    await scene.session.set(paths.topic_config("orders"), b"\xff{")
    await scene.go(2)
    assert await scene.leader() is None
    await scene.session.delete(paths.topic_config("orders"))
    await scene.come(4)
    assert await scene.leader() is None


async def test_allowing_it_while_nobody_leads_elects_at_once(scene: Scene) -> None:
    await without_in_sync(scene, {})
    await scene.set("orders", {UNCLEAN_KEY: "true"})
    assert await scene.leader() == 3


async def test_allowing_it_for_all_elects_at_once_too(scene: Scene) -> None:
    allowed = list[bool]()
    await without_in_sync(scene, {}, Policy(allows_unclean=lambda _: bool(allowed)))
    allowed.append(True)
    assert scene.controller is not None
    scene.controller.unclean_elections_changed(None)
    await scene.settled()
    assert await scene.leader() == 3


async def test_a_new_controller_elects_what_may_be_led_uncleanly(scene: Scene) -> None:
    await without_in_sync(scene, {})
    assert scene.controller is not None
    await scene.controller.stop()
    await change_config(scene.session, paths.topic_entity("orders"), lambda _: {UNCLEAN_KEY: "true"})
    await scene.begin(Policy(Conventions(marks_recovery=False)))
    assert (await scene.known()).state == PartitionState(BrokerId(3), LeaderEpoch(6), ids(3), 2)


async def led_by_another(scene: Scene) -> None:
    """The partition prefers 2 and is led by 3, both being in sync."""
    await scene.come(1, 2, 3)
    await scene.begin()
    await scene.make("orders", (2, 3))
    await scene.write(ORDERS, 3, 4, 3, 2)
    assert await scene.leader() == 3


@pytest.mark.parametrize(
    ("note", "leader"),
    [
        (b'{"version":1,"partitions":[{"topic":"orders","partition":0},{"topic":"orders","partition":9}]}', 2),
        (b'{"version":1,"partitions":[]}', 3),
        (b"not JSON", 3),
        (b"", 3),
        (b'{"partitions":[{"topic":7,"partition":0}]}', 3),
    ],
)
async def test_a_tools_wish_for_preferred_leaders_is_granted_and_taken_away(
    scene: Scene, note: bytes, leader: int
) -> None:
    await led_by_another(scene)
    for _ in range(2):  # After the first there is room for another.
        await scene.session.create(paths.PREFERRED_ELECTION, note)
        await scene.settled()
        assert await scene.leader() == leader
        assert await scene.session.exists(paths.PREFERRED_ELECTION) is None


async def test_a_wish_that_was_left_while_nobody_reigned_is_found(scene: Scene) -> None:
    await led_by_another(scene)
    assert scene.controller is not None
    await scene.controller.stop()
    await scene.session.create(paths.PREFERRED_ELECTION, znodes.encode_preferred_election([ORDERS]))
    await scene.begin()
    assert await scene.leader() == 2
    assert await scene.session.exists(paths.PREFERRED_ELECTION) is None


async def test_a_topic_is_not_deleted_where_topics_may_not_be(scene: Scene) -> None:
    await scene.come(1)
    await scene.session.create(paths.delete_topic("orders"))
    await topics.create_topic(scene.session, "orders", {0: ids(1)}, TOPIC_ID, {})
    await scene.begin(Policy(Conventions(deletes_topics=False)))
    assert await scene.leader() == 1
    await scene.session.create(paths.delete_topic("orders"))
    await scene.settled()
    assert await scene.session.children(paths.DELETE_TOPICS) == []
    assert not scene.brokers.commands(StopReplica)


def over_time(balance: Balance | None, story: Callable[[Scene, Controller], Awaitable[None]]) -> None:
    """Play a story in virtual time, on a cluster whose one partition prefers 2 and is led by 3."""

    async def settled(controller: Any) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
            await controller.caught_up()

    async def main() -> None:
        store = await EmbeddedStore.open(":memory:", inline, StoppedClock())
        session = await store.open_session()
        await ensure_base_paths(session)
        scene = Scene(store, session, settled)
        await scene.come(1, 2, 3)
        controller = await scene.begin(Policy(balance=balance))
        await scene.make("orders", (2, 3))
        await scene.write(ORDERS, 3, 4, 3, 2)
        await story(scene, controller)
        await controller.stop()
        await store.close()

    run(SimLoop(1), main())


def test_leaderships_are_evened_out_five_seconds_after_the_election_and_then_at_the_interval() -> None:
    async def story(scene: Scene, _: Controller) -> None:
        await elapse(4.9)
        assert await scene.leader() == 3
        await elapse(0.2)
        assert await scene.leader() == 2
        await scene.write(ORDERS, 3, 9, 3, 2)
        await elapse(299)
        assert await scene.leader() == 3
        await elapse(1)
        assert await scene.leader() == 2

    over_time(Balance(), story)


def test_nothing_is_left_to_happen_once_the_controller_has_stopped() -> None:
    async def story(_: Scene, controller: Controller) -> None:
        await controller.stop()
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        over_time(Balance(), story)


def test_a_share_that_is_suffered_is_left_alone() -> None:
    async def story(scene: Scene, _: Controller) -> None:
        await elapse(1_000)
        assert await scene.leader() == 3

    over_time(Balance(1, 100), story)


def test_leaderships_are_left_alone_where_that_is_wished_and_after_the_reign() -> None:
    async def nothing(scene: Scene, _: Controller) -> None:
        await elapse(1_000)
        assert await scene.leader() == 3

    over_time(None, nothing)

    async def resigned(scene: Scene, controller: Controller) -> None:
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

    over_time(Balance(), resigned)
