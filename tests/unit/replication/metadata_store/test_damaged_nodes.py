"""Nodes that somebody else has damaged or removed: they cost what they hold, and nobody a controller."""

from __future__ import annotations

import pytest

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import TopicAssignment, UpdateMetadata
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.ports import NoNode
from tests.support.controller_harness import ORDERS, TOPIC_ID, ControllerHarness, ids

GOOD = znodes.encode_topic(TopicAssignment("bad", {0: ids(1)}, TOPIC_ID))


async def epoch(scene: ControllerHarness) -> bytes:
    return (await scene.session.get(paths.CONTROLLER_EPOCH))[0]


async def test_an_epoch_that_cannot_be_read_is_not_guessed_and_continues_once_it_is_repaired(
    scene: ControllerHarness,
) -> None:
    await scene.register(1)
    await scene.session.create(paths.CONTROLLER_EPOCH, b"seven")
    controller = await scene.start()
    assert not controller.is_active
    assert await scene.session.exists(paths.CONTROLLER) is None
    assert scene.log.events.count("no controller can be elected until this is repaired") == 1
    await scene.session.set(paths.CONTROLLER_EPOCH, b"7")
    await scene.settled()
    assert (controller.is_active, await epoch(scene)) == (True, b"8")


async def test_a_controller_whose_epoch_is_damaged_writes_nothing_until_it_is_repaired(
    scene: ControllerHarness,
) -> None:
    await scene.register(1)
    controller = await scene.start()
    await scene.session.set(paths.CONTROLLER_EPOCH, b"")
    await scene.create_topic("orders", (1,))
    assert not controller.is_active
    with pytest.raises(NoNode):
        await scene.state()
    await scene.session.set(paths.CONTROLLER_EPOCH, b"1")
    await scene.settled()
    assert controller.is_active
    assert await scene.leader() == 1


@pytest.mark.parametrize("lowered", [b"1", None])
async def test_an_epoch_that_was_lowered_or_lost_is_raised_by_another_election(
    scene: ControllerHarness, lowered: bytes | None
) -> None:
    await scene.register(1)
    await scene.session.create(paths.CONTROLLER_EPOCH, b"40")
    controller = await scene.start()
    assert await epoch(scene) == b"41"
    if lowered is None:
        await scene.session.delete(paths.CONTROLLER_EPOCH)
    else:
        await scene.session.set(paths.CONTROLLER_EPOCH, lowered)
    await scene.create_topic("orders", (1,))
    assert (controller.is_active, await epoch(scene)) == (True, b"42")
    assert (await scene.state()).state.controller_epoch == 42


async def test_the_next_controller_continues_from_the_epoch_it_saw_even_if_that_is_lost(
    scene: ControllerHarness,
) -> None:
    await scene.session.create(paths.CONTROLLER_EPOCH, b"40")
    await scene.register(2)
    await scene.others[2].create(paths.CONTROLLER, znodes.encode_controller(BrokerId(2), 0), ephemeral=True)
    controller = await scene.start()
    assert not controller.is_active
    await scene.session.delete(paths.CONTROLLER_EPOCH)
    await scene.fail(2)
    assert (controller.is_active, await epoch(scene)) == (True, b"41")


async def test_a_repaired_topic_gets_leaders(scene: ControllerHarness) -> None:
    await scene.register(1)
    await scene.session.create(paths.topic("bad"), b'{"version":3,"partitions":{"0":')
    await scene.start()
    await scene.session.set(paths.topic("bad"), b"worse")
    await scene.settled()
    await scene.session.set(paths.topic("bad"), GOOD)
    await scene.settled()
    assert await scene.leader(TopicPartition("bad", 0)) == 1


async def test_a_topic_that_is_damaged_stays_as_it_was(scene: ControllerHarness) -> None:
    await scene.register(1, 2)
    await scene.start()
    await scene.create_topic("orders", (2, 1))
    await scene.session.set(paths.topic("orders"), b"{}")
    await scene.fail(2)
    assert await scene.leader() == 1


async def test_a_state_that_cannot_be_decoded_is_not_overwritten(scene: ControllerHarness) -> None:
    await scene.register(1, 2)
    await scene.create_topic("orders", (1, 2), (2, 1))
    await scene.session.create(paths.partitions("orders"))
    await scene.session.create(paths.partition(ORDERS))
    await scene.session.create(paths.state(ORDERS), b'{"leader":1}')
    await scene.start()
    await scene.fail(2)
    assert (await scene.session.get(paths.state(ORDERS)))[0] == b'{"leader":1}'
    assert await scene.leader(TopicPartition("orders", 1)) == 1
    assert await epoch(scene) == b"1"


@pytest.mark.parametrize("path", [paths.ISR_CHANGES, paths.LOG_DIR_EVENTS, paths.DELETE_TOPICS])
async def test_a_base_node_may_be_missing_and_be_created_again(scene: ControllerHarness, path: str) -> None:
    await scene.session.delete(path)
    await scene.register(1)
    controller = await scene.start()
    assert controller.is_active
    await topics.create_topic(scene.session, "orders", {0: ids(1)}, TOPIC_ID, {})
    await scene.session.create(path)
    await scene.session.create(paths.delete_topic("orders"), make_parents=True)
    await scene.session.create(paths.ISR_CHANGE_PREFIX, b"{}", sequential=True, make_parents=True)
    await scene.settled()
    assert await scene.session.children(paths.DELETE_TOPICS) == []
    assert await scene.session.children(paths.ISR_CHANGES) == []


async def test_a_topic_whose_nodes_are_deleted_is_dropped_and_the_controller_continues(
    scene: ControllerHarness,
) -> None:
    await scene.register(1, 2)
    controller = await scene.start()
    await scene.create_topic("orders", (1, 2))
    for path in (paths.state(ORDERS), paths.partition(ORDERS), paths.partitions("orders"), paths.topic("orders")):
        await scene.session.delete(path)
    await scene.fail(2)
    assert controller.is_active
    assert controller.cluster is not None
    assert not controller.cluster.topics
    await scene.create_topic("orders", (1,))
    assert await scene.leader() == 1


async def test_a_foreign_write_into_the_controller_node_is_no_election(scene: ControllerHarness) -> None:
    await scene.register(1, 2)
    controller = await scene.start()
    await scene.session.set(paths.CONTROLLER, b"rubbish")
    await scene.settled()
    assert (controller.is_active, await epoch(scene)) == (True, b"1")
    told = len(scene.brokers.commands(UpdateMetadata))
    await scene.fail(2)
    assert len(scene.brokers.commands(UpdateMetadata)) > told
    assert sorted(scene.brokers.alive) == [BrokerId(1)]
