"""A broker's whole life with its controller, the same on the embedded store and on a real ZooKeeper."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random

import pytest

from sordini.broker.cluster.peers.producer_ids_in_store import StoreProducerIdBlocks
from sordini.broker.coordinators.producer_id_manager import ProducerIdManager
from sordini.protocol.types import BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    Command,
    CommandAnswer,
    LeaderAndIsr,
    PartitionState,
)
from sordini.replication.controller.controller import Controller
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.registration import Registration, cluster_id, ensure_base_paths
from sordini.replication.metadata_store.topics import topic_ids
from sordini.replication.ports import Session, WatchKind
from sordini.system.clock import SystemClock
from tests.contract.conftest import Store
from tests.support.fake_ports import ListLog

TOPIC_ID = TopicId(b"0123456789abcdef")


class Silent:
    def info(self, event: str, **fields: object) -> None: ...

    warning = error = info


class Obedient:
    """A channel to brokers that carry out every command; `led` has each command to become leader."""

    def __init__(self) -> None:
        self.led: asyncio.Queue[tuple[BrokerId, PartitionState]] = asyncio.Queue()

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None: ...

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[CommandAnswer], None]) -> None:
        if isinstance(command, LeaderAndIsr):
            for info in command.partitions:
                self.led.put_nowait((broker_id, info.state))
        asyncio.get_running_loop().call_soon(answered, CommandAnswer())


async def begin(session: Session, broker_id: int, channel: Obedient) -> Controller:
    broker = Broker(BrokerId(broker_id), 0, (BrokerEndpoint("PLAINTEXT", "h", 9092),))
    await Registration(session, broker, SystemClock(), Silent(), session_timeout_ms=6_000).register()
    new_topic_id = topic_ids(Random(broker_id).getrandbits)
    controller = Controller(session, BrokerId(broker_id), channel, SystemClock(), Silent(), topic_ids=new_topic_id)
    await controller.start()
    return controller


async def gone(session: Session, path: str) -> None:
    event = asyncio.Event()
    while await session.exists(path, watch=lambda e: event.set() if e.kind is WatchKind.DELETED else None):
        await asyncio.wait_for(event.wait(), 20)


@pytest.mark.parametrize("rounds", [2])
async def test_topics_are_made_led_and_deleted(store: Store, session: Session, rounds: int) -> None:
    await ensure_base_paths(session)
    assert len(await cluster_id(session)) == 22
    channel = Obedient()
    controller = await begin(session, 0, channel)
    for _ in range(rounds):
        await topics.create_topic(session, "t", {0: (BrokerId(0),)}, TOPIC_ID, {})
        broker_id, state = await asyncio.wait_for(channel.led.get(), 20)
        assert (broker_id, state.leader, state.leader_epoch) == (0, 0, 0)
        await topics.delete_topic(session, "t")
        await gone(session, paths.delete_topic("t"))
        assert await session.exists(paths.topic("t")) is None
    assert (
        await ProducerIdManager(StoreProducerIdBlocks(session, BrokerId(0)).take, asyncio.create_task, ListLog()).next()
        == 0
    )
    await controller.stop()
    assert await session.exists(paths.CONTROLLER) is None


async def test_when_a_controllers_session_expires_another_broker_leads_its_partitions(
    store: Store, session: Session
) -> None:
    await ensure_base_paths(session)
    other = await store.open_session()
    first = await begin(other, 1, Obedient())
    channel = Obedient()
    second = await begin(session, 2, channel)
    await topics.create_topic(session, "t", {0: (BrokerId(1), BrokerId(2))}, TOPIC_ID, {})
    await first.caught_up()
    await store.expire(other)
    await asyncio.wait_for(first.wait_closed(), 20)
    while True:
        _, state = await asyncio.wait_for(channel.led.get(), 20)
        if state.leader == 2:
            break
    assert second.is_active
    assert not first.is_active
    data, _ = await session.get(paths.state(TopicPartition("t", 0)))
    stored = znodes.decode_state(TopicPartition("t", 0), data)
    assert isinstance(stored, PartitionState)
    assert (stored.leader, stored.isr) == (2, (BrokerId(2),))
    await second.stop()
    await first.stop()
