"""The controller's shell over the embedded store: elections, watches, guarded writes, resignation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    LeaderAndIsr,
    PartitionState,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.controller.controller import Controller
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.registration import Registration
from sordini.replication.ports import Create, NoNode, SessionExpired, SessionState

TOPIC_ID = TopicId(b"0123456789abcdef")
Settled = Callable[[Any], Awaitable[None]]


async def register(session: EmbeddedSession, broker_id: int, clock: Any, log: Any) -> int:
    broker = Broker(BrokerId(broker_id), 0, (BrokerEndpoint("PLAINTEXT", "h", 9092 + broker_id),))
    return await Registration(session, broker, clock, log, session_timeout_ms=1000).register()


@pytest.fixture
async def start(brokers: Any, clock: Any, log: Any) -> AsyncIterator[Callable[..., Awaitable[Controller]]]:
    started: list[Controller] = []

    async def start_one(session: EmbeddedSession, broker_id: int, channel: Any = None) -> Controller:
        controller = Controller(
            session, BrokerId(broker_id), channel or brokers, clock, log, topic_ids=lambda: TOPIC_ID
        )
        started.append(controller)
        await controller.start()
        return controller

    yield start_one
    for controller in started:
        await controller.stop()


async def state_of(session: EmbeddedSession, topic: str, partition: int = 0) -> PartitionState:
    topic_partition = TopicPartition(topic, partition)
    data, _ = await session.get(paths.state(topic_partition))
    state = znodes.decode_state(topic_partition, data)
    assert isinstance(state, PartitionState)
    return state


async def make(session: EmbeddedSession, name: str, *replicas: tuple[int, ...]) -> None:
    placed = {p: tuple(BrokerId(b) for b in held) for p, held in enumerate(replicas)}
    await topics.create_topic(session, name, placed, TOPIC_ID, {})


async def test_the_first_candidate_is_elected_controller_and_announced(
    session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any
) -> None:
    await register(session, 0, clock, log)
    controller = await start(session, 0)
    assert controller.is_active
    data, stat = await session.get(paths.CONTROLLER)
    assert znodes.decode_controller(data) == 0
    assert stat.ephemeral_owner == session.session_id
    assert (await session.get(paths.CONTROLLER_EPOCH))[0] == b"1"
    assert (await session.get(paths.FEATURE))[0] == znodes.FEATURES
    (announced,) = brokers.commands(UpdateMetadata)
    assert [broker.broker_id for broker in announced.live_brokers] == [0]
    assert announced.controller_epoch == 1
    assert log.events.count("controller elected") == 1


async def test_a_created_topic_gets_leaders(
    session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any, settled: Settled
) -> None:
    epoch = await register(session, 0, clock, log)
    controller = await start(session, 0)
    await make(session, "t", (0,), (0,))
    await settled(controller)
    (announced,) = brokers.commands(LeaderAndIsr)
    assert announced.broker_epoch == epoch
    assert [(str(info.topic_partition), info.state.leader, info.is_new) for info in announced.partitions] == [
        ("t-0", 0, True),
        ("t-1", 0, True),
    ]
    assert all(info.topic_id == TOPIC_ID for info in announced.partitions)
    assert await state_of(session, "t", 1) == PartitionState(BrokerId(0), znodes.LeaderEpoch(0), (BrokerId(0),), 1)


async def test_a_topic_that_is_deleted_leaves_no_node(
    session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    controller = await start(session, 0)
    await make(session, "t", (0,))
    await settled(controller)
    await topics.delete_topic(session, "t")
    await settled(controller)
    assert [stop.partitions[0].delete for stop in brokers.commands(StopReplica)] == [False, True]
    for path in (paths.topic("t"), paths.topic_config("t"), paths.delete_topic("t")):
        assert await session.exists(path) is None
    assert controller.cluster is not None
    assert not controller.cluster.topics
    await make(session, "t", (0,))
    await settled(controller)
    assert (await state_of(session, "t")).leader_epoch == 0


async def test_added_partitions_get_leaders(
    session: EmbeddedSession, start: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    controller = await start(session, 0)
    await make(session, "t", (0,))
    await settled(controller)
    data, stat = await session.get(paths.topic("t"))
    await session.set(paths.topic("t"), data.replace(b'"0":[0]', b'"0":[0],"1":[0]'), stat.version)
    await settled(controller)
    assert (await state_of(session, "t", 1)).leader == 0


async def test_the_second_candidate_waits_and_is_elected_when_the_first_is_gone(
    store: EmbeddedStore, session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any, settled: Settled
) -> None:
    other = await store.open_session()
    await register(session, 0, clock, log)
    await register(other, 1, clock, log)
    first, second = await start(session, 0), await start(other, 1, type(brokers)())
    assert (first.is_active, second.is_active) == (True, False)
    await make(session, "t", (0, 1))
    await settled(first)
    await session.expire()
    await settled(second)
    assert second.is_active
    assert (await other.get(paths.CONTROLLER_EPOCH))[0] == b"2"
    assert await state_of(other, "t") == PartitionState(BrokerId(1), znodes.LeaderEpoch(1), (BrokerId(1),), 2)
    await first.wait_closed()
    assert not first.is_active


async def test_a_controller_that_stops_resigns_at_once(
    store: EmbeddedStore, session: EmbeddedSession, start: Any, brokers: Any, settled: Settled
) -> None:
    other = await store.open_session()
    first, second = await start(session, 0), await start(other, 1, type(brokers)())
    await first.stop()
    await settled(second)
    assert (first.is_active, second.is_active) == (False, True)
    assert session.state is SessionState.CONNECTED


async def test_a_write_of_a_former_controller_is_refused_and_it_resigns(
    store: EmbeddedStore, session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any, settled: Settled
) -> None:
    other = await store.open_session()
    await register(session, 0, clock, log)
    controller = await start(session, 0)
    # Another controller was elected and the news has not arrived: all that is seen is its epoch.
    _, stat = await other.get(paths.CONTROLLER_EPOCH)
    await other.set(paths.CONTROLLER_EPOCH, b"7", stat.version)
    announced = len(brokers.sent)
    await make(other, "t", (0,))
    await settled(controller)
    assert "controller resigned" in log.events
    assert not [c for _, c in brokers.sent[announced:] if isinstance(c, LeaderAndIsr) and c.controller_epoch == 1]


async def test_an_operator_may_delete_the_controller_node_to_force_an_election(
    session: EmbeddedSession, start: Any, settled: Settled
) -> None:
    controller = await start(session, 0)
    await session.delete(paths.CONTROLLER)
    await settled(controller)
    assert controller.is_active
    assert (await session.get(paths.CONTROLLER_EPOCH))[0] == b"2"


async def test_a_registration_that_cannot_be_decoded_affects_no_other_broker(
    store: EmbeddedStore, session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    await session.create("/brokers/ids/5", b"{not json")
    await session.create("/brokers/ids/seven", b"")
    controller = await start(session, 0)
    await session.create("/brokers/ids/6", b"")
    await settled(controller)
    assert controller.is_active
    assert list(brokers.alive) == [0]
    await make(session, "t", (0,))
    await settled(controller)
    assert (await state_of(session, "t")).leader == 0
    assert (await session.get(paths.CONTROLLER_EPOCH))[0] == b"1"
    # Repaired, it is registered.
    good = znodes.encode_broker(Broker(BrokerId(6), 0, (BrokerEndpoint("PLAINTEXT", "h", 1),)), 0)
    await session.set("/brokers/ids/6", good)
    await settled(controller)
    assert sorted(brokers.alive) == [0, 6]


async def test_a_topic_that_cannot_be_decoded_is_left_out(
    session: EmbeddedSession, start: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    await session.create(paths.topic("bad"), b"{")
    controller = await start(session, 0)
    await make(session, "good", (0,))
    await settled(controller)
    assert controller.cluster is not None
    assert list(controller.cluster.topics) == ["good"]


async def test_a_new_controller_deletes_the_notifications_for_the_former_one(
    session: EmbeddedSession, start: Any
) -> None:
    await session.create(f"{paths.LOG_DIR_EVENTS}/log_dir_event_", b"{}", sequential=True)
    await session.create(f"{paths.ISR_CHANGES}/isr_change_", b"{}", sequential=True)
    await start(session, 0)
    assert await session.children(paths.LOG_DIR_EVENTS) == []
    assert await session.children(paths.ISR_CHANGES) == []


async def test_a_topic_without_an_id_gets_one(
    session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    await session.create(paths.topic("old"), b'{"version":1,"partitions":{"0":[0]}}')
    controller = await start(session, 0)
    await settled(controller)
    data, _ = await session.get(paths.topic("old"))
    topic = znodes.decode_topic("old", data, 1)
    assert getattr(topic, "topic_id", None) == TOPIC_ID
    assert brokers.commands(LeaderAndIsr)[-1].partitions[0].topic_id == TOPIC_ID


async def test_after_a_failed_save_the_controller_continues_from_the_stored_state(
    store: EmbeddedStore, session: EmbeddedSession, start: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    controller = await start(session, 0)
    save, failures = store._database.save, [OSError("the disk is full")]

    def fail_once(*args: Any) -> None:
        if failures and any(path.endswith("/state") for path, _ in args[0]):
            raise failures.pop()
        save(*args)

    store._database.save = fail_once  # type: ignore[method-assign]
    await make(session, "t", (0,))
    await settled(controller)
    await log.line("still controller")
    await settled(controller)
    assert not failures
    assert (await state_of(session, "t")).leader == 0
    assert (await session.get(paths.CONTROLLER_EPOCH))[0] == b"1"


async def test_a_controller_of_an_ended_session_does_not_start(store: EmbeddedStore, start: Any) -> None:
    session = await store.open_session()
    await session.close()
    with pytest.raises(SessionExpired):
        await start(session, 0)


async def test_all_partitions_of_a_topic_are_sent_in_one_command_per_broker(
    session: EmbeddedSession, start: Any, brokers: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    controller = await start(session, 0)
    await make(session, "wide", *[(0,)] * 600)
    await settled(controller)
    (announced,) = brokers.commands(LeaderAndIsr)
    assert len(announced.partitions) == 600


async def test_a_topic_half_created_by_a_crashed_controller_is_completed_by_the_next(
    store: EmbeddedStore, session: EmbeddedSession, start: Any, clock: Any, log: Any, settled: Settled
) -> None:
    await register(session, 0, clock, log)
    await make(session, "t", (0,), (0,))
    await session.multi([Create("/brokers/topics/t/partitions"), Create("/brokers/topics/t/partitions/0")])
    controller = await start(session, 0)
    await settled(controller)
    assert (await state_of(session, "t", 1)).leader == 0


async def test_a_request_to_delete_an_unknown_topic_is_dropped(
    session: EmbeddedSession, start: Any, settled: Settled
) -> None:
    controller = await start(session, 0)
    await session.create(paths.delete_topic("ghost"))
    await settled(controller)
    with pytest.raises(NoNode):
        await session.get(paths.delete_topic("ghost"))
