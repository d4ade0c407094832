"""What brokers ask of the controller, the same on every store: the guards and the conditions are the store's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    ClusterSettings,
    Command,
    CommandAnswer,
    LeaderAndIsr,
    PartitionState,
    UpdateMetadata,
)
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.machine.events import IsrChange, IsrChangesRequested
from sordini.replication.controller.policy import Policy
from sordini.replication.controller.requests import ControllerRequests
from sordini.replication.metadata_store import log_dir_notifications, paths, topics, znodes
from sordini.replication.metadata_store.registration import Registration, ensure_base_paths
from sordini.replication.ports import Session
from sordini.system.clock import SystemClock
from tests.contract.conftest import Store

TOPIC_ID = TopicId(b"0123456789abcdef")
ORDERS = TopicPartition("orders", 0)
REPLICAS = (BrokerId(1), BrokerId(2))


class Silent:
    def info(self, event: str, **fields: object) -> None: ...

    warning = error = info


class RecordingChannel:
    """A channel to brokers that carry out every command, except those in `lost`, whose log directory failed."""

    def __init__(self) -> None:
        self.states: asyncio.Queue[PartitionState] = asyncio.Queue()
        """The state in each UpdateMetadata sent to broker 1."""
        self.lost: set[BrokerId] = set()

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None: ...

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[CommandAnswer], None]) -> None:
        codes = {}
        if isinstance(command, LeaderAndIsr) and broker_id in self.lost:
            codes = {info.topic_partition: int(ErrorCode.KAFKA_STORAGE_ERROR) for info in command.partitions}
        if isinstance(command, UpdateMetadata) and broker_id == 1:
            for info in command.partitions:
                self.states.put_nowait(info.state)
        asyncio.get_running_loop().call_soon(answered, CommandAnswer(0, codes))

    async def state(self) -> PartitionState:
        return await asyncio.wait_for(self.states.get(), 20)


class Asking:
    """Broker 1 with the controller, broker 2, and a partition that 1 leads."""

    def __init__(
        self, session: Session, channel: RecordingChannel, controller: Controller, epochs: dict[int, int]
    ) -> None:
        self.session, self.channel, self.controller, self.epochs = session, channel, controller, epochs
        self.requests = ControllerRequests(lambda: controller)

    def wanted(self, *changes: IsrChange) -> IsrChangesRequested:
        return IsrChangesRequested(BrokerId(1), self.epochs[1], changes)


@pytest.fixture
async def asking(store: Store, session: Session) -> AsyncIterator[Asking]:
    await ensure_base_paths(session)
    epochs = {}
    for broker_id, its in ((1, session), (2, await store.open_session())):
        broker = Broker(BrokerId(broker_id), 0, (BrokerEndpoint("PLAINTEXT", "h", 9000 + broker_id),))
        epochs[broker_id] = await Registration(
            its, broker, SystemClock(), Silent(), session_timeout_ms=6_000
        ).register()
    channel = RecordingChannel()
    controller = Controller(
        session,
        BrokerId(1),
        channel,
        SystemClock(),
        Silent(),
        topic_ids=lambda: TOPIC_ID,
        policy=Policy(ClusterSettings("PLAINTEXT")),
    )
    await controller.start()
    await topics.create_topic(session, "orders", {0: REPLICAS}, TOPIC_ID, {})
    await channel.state()
    yield Asking(session, channel, controller, epochs)
    await controller.stop()


async def test_an_in_sync_set_is_granted_on_the_state_that_is_known_and_on_no_other(asking: Asking) -> None:
    shrink = IsrChange(0, REPLICAS[:1], 0, 0, topic_id=TOPIC_ID)
    granted = (await asking.requests.alter_partitions(asking.wanted(shrink)))[shrink]
    data, stat = await asking.session.get(paths.state(ORDERS))
    assert granted == (znodes.decode_state(ORDERS, data), stat.version)
    assert (await asking.channel.state()).isr == REPLICAS[:1]
    # A tool writes it behind the controller's back.
    await asking.session.set(paths.state(ORDERS), data)
    grow = IsrChange(0, REPLICAS, 0, 1, topic_id=TOPIC_ID)
    refused = await asking.requests.alter_partitions(asking.wanted(grow))
    assert refused == {grow: ErrorCode.INVALID_UPDATE_VERSION}
    assert await asking.channel.state() == PartitionState(BrokerId(1), LeaderEpoch(1), REPLICAS[:1], 1)


async def test_a_broker_is_relieved_and_the_next_producer_ids_are_nobodys(asking: Asking) -> None:
    blocks = [await asking.requests.allocate_producer_ids(BrokerId(2), asking.epochs[2]) for _ in range(2)]
    assert [(block.start, block.end) for block in blocks] == [(0, 1000), (1000, 2000)]
    assert await asking.requests.shut_down(BrokerId(1), asking.epochs[1]) == []
    assert await asking.channel.state() == PartitionState(BrokerId(2), LeaderEpoch(1), REPLICAS[1:], 1)
    _, stat = await asking.session.get(paths.CONTROLLER_EPOCH)
    await asking.session.set(paths.CONTROLLER_EPOCH, b"9", stat.version)
    with pytest.raises(BrokerError):
        await asking.requests.allocate_producer_ids(BrokerId(2), asking.epochs[2])


async def test_log_dir_event_notifications_are_handled_and_removed(asking: Asking) -> None:
    asking.channel.lost.add(BrokerId(1))
    await log_dir_notifications.notify_log_dir_failure(asking.session, BrokerId(1))
    assert await asking.channel.state() == PartitionState(BrokerId(2), LeaderEpoch(1), REPLICAS[1:], 1)
    state = PartitionState(BrokerId(2), LeaderEpoch(1), REPLICAS, 1)
    await asking.session.set(paths.state(ORDERS), znodes.encode_state(state))
    note = znodes.encode_isr_change([ORDERS])
    await asking.session.create(paths.ISR_CHANGE_PREFIX, note, sequential=True)
    # The ISR had grown, but a replica in a failed directory is not in sync.
    assert await asking.channel.state() == PartitionState(BrokerId(2), LeaderEpoch(2), REPLICAS[1:], 1)
    await asking.controller.caught_up()
    for parent in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
        assert await asking.session.children(parent) == []
