"""/admin/reassign_partitions, as a tool writes it and waits for it to go, over the embedded store."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import Malformed
from sordini.replication.controller.machine.events import IsrChange, IsrChangesRequested
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import NoNode
from tests.support.controller_harness import ORDERS, ControllerHarness, ids

BILLS = TopicPartition("bills", 0)


async def node(scene: ControllerHarness) -> dict[str, Any] | None:
    """What the node holds, by partition; None without one."""
    try:
        data, _ = await scene.session.get(paths.REASSIGN_PARTITIONS)
    except NoNode:
        return None
    return {f"{row['topic']}-{row['partition']}": row["replicas"] for row in json.loads(data)["partitions"]}


async def catch_up(scene: ControllerHarness, one: TopicPartition, *isr: int) -> None:
    assert scene.controller is not None
    known = await scene.state(one)
    assert known.state.leader is not None
    broker = scene.brokers.alive[known.state.leader]
    change = IsrChange(one.partition, ids(*isr), known.state.leader_epoch, known.version, topic=one.topic)
    await scene.controller.submit(IsrChangesRequested(broker.broker_id, broker.epoch, (change,)))
    await scene.settled()


async def replicas(scene: ControllerHarness, name: str) -> tuple[BrokerId, ...]:
    data, stat = await scene.session.get(paths.topic(name))
    found = znodes.decode_topic(name, data, stat.version)
    assert not isinstance(found, Malformed)
    return found.replicas[0]


async def a_cluster(scene: ControllerHarness) -> None:
    await scene.register(1, 2, 3)
    await scene.start()
    await scene.create_topic("orders", (1, 2))
    await scene.create_topic("bills", (1, 2))


async def test_the_node_is_read_shrinks_with_each_completed_reassignment_and_is_deleted_with_the_last(
    scene: ControllerHarness,
) -> None:
    await a_cluster(scene)
    wanted = {ORDERS: ids(3, 1), BILLS: ids(2, 3), TopicPartition("bills", 7): ids(1)}
    await scene.session.create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(wanted))
    await scene.settled()
    assert await node(scene) == {"bills-0": [2, 3], "orders-0": [3, 1]}
    await catch_up(scene, BILLS, 1, 2, 3)
    assert await node(scene) == {"orders-0": [3, 1]}
    assert await replicas(scene, "bills") == (2, 3)
    await catch_up(scene, ORDERS, 1, 2, 3)
    assert await node(scene) is None
    assert await replicas(scene, "orders") == (3, 1)


async def test_a_node_written_while_there_was_no_controller_is_found(scene: ControllerHarness) -> None:
    await a_cluster(scene)
    assert scene.controller is not None
    await scene.controller.stop()
    await scene.session.create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment({ORDERS: ids(3, 1)}))
    await scene.start()
    assert await node(scene) == {"orders-0": [3, 1]}
    await catch_up(scene, ORDERS, 1, 2, 3)
    assert await node(scene) is None


async def test_additions_to_the_node_and_a_second_node_are_read(scene: ControllerHarness) -> None:
    await a_cluster(scene)
    await scene.session.create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment({ORDERS: ids(3, 1)}))
    await scene.settled()
    both = {ORDERS: ids(3, 1), BILLS: ids(1, 3)}
    await scene.session.set(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment(both))
    await scene.settled()
    await catch_up(scene, ORDERS, 1, 2, 3)
    assert await node(scene) == {"bills-0": [1, 3]}
    await catch_up(scene, BILLS, 1, 2, 3)
    assert await node(scene) is None
    await scene.session.create(paths.REASSIGN_PARTITIONS, znodes.encode_reassignment({BILLS: ids(2, 1)}))
    await scene.settled()
    await catch_up(scene, BILLS, 1, 2, 3)
    assert (await node(scene), await replicas(scene, "bills")) == (None, (2, 1))


@pytest.mark.parametrize("data", [b"", b"{", b'{"version":1,"partitions":[{"topic":"orders"}]}', b"[]"], ids=str)
async def test_a_node_that_cannot_be_decoded_is_deleted_so_that_another_can_be_created(
    scene: ControllerHarness, data: bytes
) -> None:
    await a_cluster(scene)
    await scene.session.create(paths.REASSIGN_PARTITIONS, data)
    await scene.settled()
    assert await scene.session.exists(paths.REASSIGN_PARTITIONS) is None
    assert "unreadable node ignored" in scene.log.events
    assert await replicas(scene, "orders") == (1, 2)


def test_a_reassignment_is_written_as_the_tool_writes_it() -> None:
    written = znodes.encode_reassignment({ORDERS: ids(3, 1)})
    assert written == b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,1]}]}'
    assert znodes.decode_reassignment(written) == {ORDERS: (3, 1)}
    with_directories = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1],"log_dirs":["any"]}]}'
    assert znodes.decode_reassignment(with_directories) == {TopicPartition("t", 0): (1,)}
