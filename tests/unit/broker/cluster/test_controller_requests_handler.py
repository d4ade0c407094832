"""AlterPartition, ControlledShutdown and AllocateProducerIds on the wire, with the real controller behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

import pytest

from sordini.broker.cluster.controller_requests_handler import ControllerRequestsHandler
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.dispatch import Dispatcher
from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.embedded_session import EmbeddedSession
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import request_header
from sordini.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from sordini.protocol.messages.alter_partition import (
    AlteredPartitionData,
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import Broker, BrokerEndpoint, Command, CommandAnswer, PartitionState
from sordini.replication.controller.controller import Controller
from sordini.replication.controller.requests import ControllerRequests
from sordini.replication.metadata_store import paths, topics, znodes
from sordini.replication.metadata_store.registration import ensure_base_paths
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import ME, OTHER, a_peer, answer_of, inline, topic_id_of

ORDERS = TopicPartition("orders", 0)
ALTER, SHUTDOWN, ALLOCATE = ApiKey.ALTER_PARTITION, ApiKey.CONTROLLED_SHUTDOWN, ApiKey.ALLOCATE_PRODUCER_IDS


class Obedient:
    """Brokers that answer every command with success."""

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None: ...

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[CommandAnswer], None]) -> None:
        asyncio.get_running_loop().call_soon(answered, CommandAnswer())


class Counter:
    """The way from a frame to the controller of broker 1 and back."""

    def __init__(self, session: EmbeddedSession, controller: Controller) -> None:
        self.session = session
        self.controller = controller
        self._tasks: set[asyncio.Task[None]] = set()
        dispatcher = Dispatcher(self._spawn, ListLog())
        dispatcher.add(
            ControllerRequestsHandler(
                ControllerRequests(lambda: controller), dispatcher.respond_later, dispatcher.slices
            ).routes()
        )
        self._dispatcher = dispatcher

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.add(asyncio.create_task(work))

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        frame = request_header(APIS[key], version, 77, "2") + codecs.encode(request, version)
        pending = self._dispatcher.serve(a_peer(), memoryview(bytearray(frame)))
        assert isinstance(pending, DelayedResponse)
        await asyncio.gather(*self._tasks)
        return answer_of(pending, key, version)

    async def state(self) -> PartitionState:
        data, _ = await self.session.get(paths.state(ORDERS))
        state = znodes.decode_state(ORDERS, data)
        assert isinstance(state, PartitionState)
        return state


@pytest.fixture
async def whole() -> AsyncIterator[Counter]:
    """Broker 1 is the controller and leads the one partition of orders, which broker 2 follows."""
    store = await EmbeddedStore.open(":memory:", inline, StillClock())
    session = await store.open_session()
    await ensure_base_paths(session)
    for broker_id in (ME, OTHER):
        broker = Broker(broker_id, 0, (BrokerEndpoint("PLAINTEXT", "h", broker_id),))
        await session.create(paths.broker(broker_id), znodes.encode_broker(broker, 0))
    controller = Controller(session, ME, Obedient(), StillClock(), ListLog(), topic_ids=lambda: topic_id_of("drawn"))
    await topics.create_topic(session, "orders", {0: (ME, OTHER)}, topic_id_of("orders"), {})
    await controller.start()
    yield Counter(session, controller)
    await controller.stop()
    await store.close()


async def epoch_of(whole: Counter, broker_id: int) -> int:
    stat = await whole.session.exists(f"{paths.BROKER_IDS}/{broker_id}")
    assert stat is not None
    return stat.czxid


def a_request(epoch: int, version: int, *isr: int, **fields: Any) -> AlterPartitionRequest:
    row = PartitionData(**fields)
    if version < 3:
        row.new_isr = list(isr)
    else:
        row.new_isr_with_epochs = [BrokerState(broker_id=broker) for broker in isr]
    topic = TopicData(partitions=[row])
    if version < 2:
        topic.topic_name = "orders"
    else:
        topic.topic_id = topic_id_of("orders")
    return AlterPartitionRequest(broker_id=ME, broker_epoch=epoch, topics=[topic])


async def altered(whole: Counter, version: int, *isr: int, **fields: Any) -> AlteredPartitionData:
    answer = await whole.ask(ALTER, version, a_request(await epoch_of(whole, ME), version, *isr, **fields))
    assert answer.error_code == 0
    (topic,) = answer.topics
    assert (topic.topic_name, topic.topic_id) == (("orders", bytes(16)) if version < 2 else ("", topic_id_of("orders")))
    (row,) = topic.partitions
    return row  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", range(4))
async def test_a_leader_gets_its_isr_in_every_version(whole: Counter, version: int) -> None:
    row = await altered(whole, version, ME)
    assert row == AlteredPartitionData(leader_id=ME, leader_epoch=0, isr=[ME], partition_epoch=1)
    assert (await whole.state()).isr == (ME,)


@pytest.mark.parametrize("version", range(4))
async def test_an_ineligible_member_is_rejected_by_a_code_and_below_version_2_by_the_current_state(
    whole: Counter, version: int
) -> None:
    await whole.session.delete(paths.broker(OTHER))
    await whole.controller.caught_up()
    row = await altered(whole, version, ME, OTHER, leader_epoch=1, partition_epoch=1)
    in_force = AlteredPartitionData(leader_id=ME, leader_epoch=1, isr=[ME], partition_epoch=1)
    assert row == (in_force if version < 2 else AlteredPartitionData(error_code=ErrorCode.INELIGIBLE_REPLICA))
    assert (await altered(whole, version, ME)).error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("version", range(4))
async def test_a_change_of_an_outdated_state_gets_the_current_one_below_version_2(whole: Counter, version: int) -> None:
    await altered(whole, version, ME)
    row = await altered(whole, version, ME, OTHER)
    in_force = AlteredPartitionData(leader_id=ME, leader_epoch=0, isr=[ME], partition_epoch=1)
    assert row == (in_force if version < 2 else AlteredPartitionData(error_code=ErrorCode.INVALID_UPDATE_VERSION))


@pytest.mark.parametrize("version", range(4))
async def test_a_state_that_another_broker_wrote_meanwhile_is_the_answer_below_version_2(
    whole: Counter, version: int
) -> None:
    state = await whole.state()
    await whole.session.set(paths.state(ORDERS), znodes.encode_state(state))
    row = await altered(whole, version, ME)
    in_force = AlteredPartitionData(leader_id=ME, leader_epoch=0, isr=[ME, OTHER], partition_epoch=1)
    assert row == (in_force if version < 2 else AlteredPartitionData(error_code=ErrorCode.INVALID_UPDATE_VERSION))
    assert (await whole.state()).leader_epoch == 1


@pytest.mark.parametrize("version", range(4))
async def test_a_leader_epoch_that_another_controller_began_meanwhile_fences_the_leader_below_version_2(
    whole: Counter, version: int
) -> None:
    newer = (await whole.state())._replace(leader_epoch=LeaderEpoch(4))
    await whole.session.set(paths.state(ORDERS), znodes.encode_state(newer))
    row = await altered(whole, version, ME)
    code = ErrorCode.FENCED_LEADER_EPOCH if version < 2 else ErrorCode.INVALID_UPDATE_VERSION
    assert row == AlteredPartitionData(error_code=code)
    assert (await whole.state()).leader_epoch == 5


@pytest.mark.parametrize("version", range(4))
async def test_a_broker_that_is_not_the_leader_is_fenced_below_version_2(whole: Counter, version: int) -> None:
    request = a_request(await epoch_of(whole, OTHER), version, OTHER)
    request.broker_id = OTHER
    answer = await whole.ask(ALTER, version, request)
    code = ErrorCode.FENCED_LEADER_EPOCH if version < 2 else ErrorCode.INVALID_REQUEST
    assert answer.topics[0].partitions[0] == AlteredPartitionData(error_code=code)


async def test_a_member_with_its_former_broker_epoch_may_not_join(whole: Counter) -> None:
    await altered(whole, 3, ME)
    epoch = await epoch_of(whole, ME)
    request = a_request(epoch, 3, ME, partition_epoch=1)
    seen = request.topics[0].partitions[0].new_isr_with_epochs
    seen.append(BrokerState(broker_id=OTHER, broker_epoch=await epoch_of(whole, OTHER) - 1))
    answer = await whole.ask(ALTER, 3, request)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INELIGIBLE_REPLICA
    seen[-1].broker_epoch += 1
    answer = await whole.ask(ALTER, 3, request)
    assert answer.topics[0].partitions[0] == AlteredPartitionData(
        leader_id=ME, leader_epoch=0, isr=[ME, OTHER], partition_epoch=2
    )


@pytest.mark.parametrize("version", [1, 3])
async def test_a_leader_that_has_recovered_cannot_recover_again(whole: Counter, version: int) -> None:
    row = await altered(whole, version, ME, leader_recovery_state=1)
    in_force = AlteredPartitionData(leader_id=ME, leader_epoch=0, isr=[ME, OTHER], partition_epoch=0)
    assert row == (in_force if version < 2 else AlteredPartitionData(error_code=ErrorCode.INVALID_REQUEST))


async def test_a_leader_says_that_it_has_recovered(whole: Counter) -> None:
    recovering = PartitionState(ME, LeaderEpoch(1), (ME,), 1, recovering=True)
    await whole.session.set(paths.state(ORDERS), znodes.encode_state(recovering))
    await whole.session.create(paths.ISR_CHANGE_PREFIX, znodes.encode_isr_change([ORDERS]), sequential=True)
    await whole.controller.caught_up()
    fields = {"leader_epoch": 1, "partition_epoch": 1}
    row = await altered(whole, 3, ME, OTHER, leader_recovery_state=1, **fields)
    assert row.error_code == ErrorCode.INVALID_REQUEST
    row = await altered(whole, 3, ME, leader_recovery_state=1, **fields)
    assert (row.leader_recovery_state, row.partition_epoch) == (1, 1)
    row = await altered(whole, 3, ME, OTHER, **fields)
    assert (row.leader_recovery_state, row.partition_epoch, row.isr) == (0, 2, [ME, OTHER])
    assert not (await whole.state()).recovering


async def test_the_leaderships_of_a_stopping_broker_are_transferred(whole: Counter) -> None:
    for version, epoch in ((0, -1), (2, await epoch_of(whole, ME)), (3, -1)):
        answer = await whole.ask(SHUTDOWN, version, ControlledShutdownRequest(broker_id=ME, broker_epoch=epoch))
        assert (answer.error_code, list(answer.remaining_partitions)) == (0, [])
    assert (await whole.state()).leader == OTHER


async def test_a_controlled_shutdown_returns_the_remaining_partitions(whole: Counter) -> None:
    await altered(whole, 3, ME)
    answer = await whole.ask(SHUTDOWN, 3, ControlledShutdownRequest(broker_id=ME, broker_epoch=-1))
    assert [(row.topic_name, row.partition_index) for row in answer.remaining_partitions] == [("orders", 0)]


async def test_producer_ids_are_allocated_in_blocks_of_a_thousand(whole: Counter) -> None:
    request = AllocateProducerIdsRequest(broker_id=OTHER, broker_epoch=await epoch_of(whole, OTHER))
    answers = [await whole.ask(ALLOCATE, 0, request) for _ in range(2)]
    assert [(a.error_code, a.producer_id_start, a.producer_id_len) for a in answers] == [(0, 0, 1000), (0, 1000, 1000)]


async def test_a_request_of_a_former_incarnation_is_rejected_as_a_whole(whole: Counter) -> None:
    epoch = await epoch_of(whole, ME) - 1
    for key, version, request in (
        (ALTER, 3, a_request(epoch, 3, ME)),
        (SHUTDOWN, 3, ControlledShutdownRequest(broker_id=ME, broker_epoch=epoch)),
        (ALLOCATE, 0, AllocateProducerIdsRequest(broker_id=ME, broker_epoch=epoch)),
    ):
        assert (await whole.ask(key, version, request)).error_code == ErrorCode.STALE_BROKER_EPOCH


async def test_a_broker_that_is_not_the_controller_answers_not_controller(whole: Counter) -> None:
    await whole.controller.stop()
    for key, version, request in (
        (ALTER, 0, a_request(0, 0, ME)),
        (SHUTDOWN, 1, ControlledShutdownRequest(broker_id=ME)),
        (ALLOCATE, 0, AllocateProducerIdsRequest(broker_id=ME)),
    ):
        assert (await whole.ask(key, version, request)).error_code == ErrorCode.NOT_CONTROLLER
