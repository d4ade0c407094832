"""A controller of broker 1 with its own embedded store, and the brokers around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import Broker, BrokerEndpoint, KnownState, PartitionState
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.policy import Policy
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.configs import change_config
from tests.unit.replication.conftest import Brokers, Lines, StoppedClock

TOPIC_ID = TopicId(b"0123456789abcdef")
ORDERS = TopicPartition("orders", 0)
Settled = Callable[[Any], Awaitable[None]]


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


class ControllerHarness:
    """Broker 1 is the controller; the other brokers register in sessions of their own."""

    def __init__(self, store: EmbeddedStore, session: EmbeddedSession, settled: Settled) -> None:
        self.store, self.session = store, session
        self.brokers, self.log = Brokers(), Lines()
        self.others: dict[int, EmbeddedSession] = {}
        self._settled = settled
        self.controller: Controller | None = None

    async def register(self, *broker_ids: int) -> None:
        for number in broker_ids:
            self.others[number] = session = await self.store.open_session()
            broker = Broker(BrokerId(number), 0, (BrokerEndpoint("PLAINTEXT", "h", 9000 + number),))
            await session.create(paths.broker(broker.broker_id), znodes.encode_broker(broker, 0), ephemeral=True)
        await self.settled()

    async def fail(self, *broker_ids: int) -> None:
        for number in broker_ids:
            await self.others.pop(number).close()
        await self.settled()

    async def start(self, policy: Policy = Policy()) -> Controller:  # noqa: B008 - a value.
        self.controller = Controller(
            self.session,
            BrokerId(1),
            self.brokers,
            StoppedClock(),
            self.log,
            topic_ids=lambda: TOPIC_ID,
            policy=policy,
        )
        await self.controller.start()
        await self.settled()
        return self.controller

    async def settled(self) -> None:
        if self.controller is not None:
            await self._settled(self.controller)

    async def create_topic(self, name: str, *replicas: tuple[int, ...], settings: Mapping[str, str] = {}) -> None:
        await topics.create_topic(self.session, name, {p: ids(*held) for p, held in enumerate(replicas)}, TOPIC_ID, {})
        if settings:
            await self.set_config(name, settings)
        await self.settled()

    async def set_config(self, topic: str, settings: Mapping[str, str]) -> None:
        """Change a topic's settings, and signal it to the controller as its broker would."""
        await change_config(self.session, paths.topic_entity(topic), lambda _: settings)
        if self.controller is not None:
            self.controller.unclean_settings_changed(topic)
            await self.settled()

    async def write_state(self, one: TopicPartition, leader: int, epoch: int, *isr: int) -> None:
        """Write a state as a leader of an old protocol does, with an ISR change notification."""
        state = PartitionState(BrokerId(leader), LeaderEpoch(epoch), ids(*isr), 1)
        await self.session.set(paths.state(one), znodes.encode_state(state))
        await self.session.create(paths.ISR_CHANGE_PREFIX, znodes.encode_isr_change([one]), sequential=True)
        await self.settled()

    async def state(self, one: TopicPartition = ORDERS) -> KnownState:
        data, stat = await self.session.get(paths.state(one))
        state = znodes.decode_state(one, data)
        assert isinstance(state, PartitionState)
        return KnownState(state, stat.version)

    async def leader(self, one: TopicPartition = ORDERS) -> int | None:
        return (await self.state(one)).state.leader
