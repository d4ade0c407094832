"""A unit broker whose controller is the real one: requests go in, the controller decides, and its commands come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any

from sordini.broker.cluster.commands.control_wire import ControlWire
from sordini.broker.cluster.peers.broker_client import BrokerClients
from sordini.broker.cluster.peers.command_channel import CommandChannel
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.network.sockets import SystemNetwork
from sordini.broker.wiring.startup import policy_of
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication import cluster_model
from sordini.replication.cluster_model import PartitionState, TopicAssignment
from sordini.replication.controller.controller import Controller
from sordini.replication.inter_broker_versions import OLDEST
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.registration import Registration
from sordini.replication.ports import Create
from tests.support.unit_broker import ADDRESS, ME, UnitBroker, a_broker, answer_of, topic_id_of


class GovernedBroker:
    """Broker 1, which the controller of its own process commands."""

    def __init__(self, broker: UnitBroker, controller: Controller, channel: CommandChannel) -> None:
        self.broker = broker
        self.controller = controller
        self._channel = channel

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """The answer to a request, however long it takes the parts to come to it."""
        answer = self.broker.serve(key, version, request)
        assert isinstance(answer, DelayedResponse)
        while not answer.is_answered:  # noqa: ASYNC110 - a test's turn is as good as any other.
            await asyncio.sleep(0)
        return answer_of(answer, key, version)

    async def settled(self) -> None:
        """Wait until controller and broker have nothing more to say to each other."""
        for _ in range(10):
            await self.controller.caught_up()
            await self._channel.drained()

    async def make(self, topic: str, *replicas: tuple[int, ...], **settings: str) -> None:
        """A topic as the admin would have written it."""
        placed = {index: tuple(BrokerId(one) for one in held) for index, held in enumerate(replicas or ((ME,),))}
        config = {key.replace("_", "."): value for key, value in settings.items()}
        await topics.create_topic(self.broker.session, topic, placed, topic_id_of(topic), config)
        await self.settled()

    async def assignment(self, topic: str) -> TopicAssignment:
        data, stat = await self.broker.session.get(paths.topic(topic))
        found = znodes.decode_topic(topic, data, stat.version)
        assert isinstance(found, TopicAssignment)
        return found

    async def state(self, topic: str, index: int = 0) -> PartitionState:
        data, _ = await self.broker.session.get(paths.state(TopicPartition(topic, index)))
        found = znodes.decode_state(TopicPartition(topic, index), data)
        assert isinstance(found, PartitionState)
        return found


async def write_partition(
    broker: UnitBroker, topic: str, replicas: tuple[int, ...], leader: int | None, isr: tuple[int, ...], **moving: Any
) -> None:
    """A topic of one partition as another broker's controller left it in the store."""
    held = {0: tuple(BrokerId(one) for one in replicas)}
    lists = {name: {0: tuple(BrokerId(one) for one in some)} for name, some in moving.items()}
    state = PartitionState(
        None if leader is None else BrokerId(leader), LeaderEpoch(5), tuple(BrokerId(one) for one in isr), 0
    )
    partition = TopicPartition(topic, 0)
    await topics.create_topic(broker.session, topic, held, topic_id_of(topic), {})
    assignment = TopicAssignment(topic, held, topic_id_of(topic), **lists)
    await broker.session.set(paths.topic(topic), znodes.encode_topic(assignment))
    await broker.session.multi(
        [
            Create(paths.partitions(topic)),
            Create(paths.partition(partition)),
            Create(paths.state(partition), znodes.encode_state(state)),
        ]
    )


@asynccontextmanager
async def governed(broker: UnitBroker) -> AsyncIterator[GovernedBroker]:
    """Register the broker and elect a controller."""
    tasks: set[asyncio.Task[None]] = set()

    def spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        tasks.add(task)
        return task

    channel = CommandChannel(
        ME,
        broker.parts.receiver.receive,
        ControlWire(OLDEST, "PLAINTEXT"),
        lambda addresses: BrokerClients(SystemNetwork(), addresses),
        "PLAINTEXT",
        spawn,
        broker.log,
    )
    me = cluster_model.Broker(ME, 0, (cluster_model.BrokerEndpoint("PLAINTEXT", *ADDRESS),))
    broker.parts.receiver.broker_epoch = await Registration(
        broker.session, me, broker.clock, broker.log, session_timeout_ms=1000
    ).register()
    controller = Controller(
        broker.session,
        ME,
        channel,
        broker.clock,
        broker.log,
        topic_ids=lambda: topic_id_of("drawn"),
        policy=policy_of(broker.dynamic),
    )
    broker.parts.admin.partitions.controller = controller
    try:
        await controller.start()
        await channel.drained()
        yield GovernedBroker(broker, controller, channel)
    finally:
        await controller.stop()
        for task in tasks:
            task.cancel()


@asynccontextmanager
async def a_governed_broker(entries: Mapping[str, str] | None = None) -> AsyncIterator[GovernedBroker]:
    async with a_broker(entries) as broker, governed(broker) as whole:
        yield whole
