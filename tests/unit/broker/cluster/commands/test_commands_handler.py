"""LeaderAndIsr, UpdateMetadata and StopReplica over the wire, and which connections may send inter-broker requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sordini.broker.cluster.commands.control_wire import request_of
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.share_state.ports import StateWrite
from sordini.broker.share_state.state_apis import STATE_APIS, InitialState, StateKind
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sordini.protocol.served_apis import APIS, INTER_BROKER_APIS
from sordini.protocol.types import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import (
    EPOCH_DURING_DELETION,
    Broker,
    BrokerEndpoint,
    Command,
    DeletedPartition,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, a_peer, answer_of, topic_id_of

NAME = TopicPartition("orders", 0)
ROUNDS_MAX = 1000
KEYS = {
    LeaderAndIsr: ApiKey.LEADER_AND_ISR,
    UpdateMetadata: ApiKey.UPDATE_METADATA,
    StopReplica: ApiKey.STOP_REPLICA,
}
TWO_LISTENERS = {
    "listeners": "PLAINTEXT://:9092,EXTERNAL://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
}


def become(leader: BrokerId = ME, *, epoch: int = 0, controller_epoch: int = 1, broker_epoch: int = -1) -> LeaderAndIsr:
    state = PartitionState(leader, LeaderEpoch(epoch), (ME, OTHER), controller_epoch)
    info = PartitionInfo(NAME, topic_id_of("orders"), (ME, OTHER), state, 0, is_new=True)
    return LeaderAndIsr(OTHER, controller_epoch, broker_epoch, (info,), ())


def stop(*, epoch: int = EPOCH_DURING_DELETION, delete: bool = True) -> StopReplica:
    return StopReplica(OTHER, 1, -1, (StoppedReplica(NAME, LeaderEpoch(epoch), delete),))


def send(broker: UnitBroker, command: Command, version: int) -> DelayedResponse:
    pending = broker.serve(KEYS[type(command)], version, request_of(command, version, "PLAINTEXT"))
    assert isinstance(pending, DelayedResponse)
    return pending


async def answered(broker: UnitBroker, command: Command, version: int) -> Any:
    """The answer to a command of the controller that the store names."""
    await broker.elect(command.controller_id, max(command.controller_epoch, 1))
    return await answered_as_it_is(broker, command, version)


async def answered_as_it_is(broker: UnitBroker, command: Command, version: int) -> Any:
    pending = send(broker, command, version)
    await until_answered(pending)
    return answer_of(pending, KEYS[type(command)], version)


async def until_answered(*pending: DelayedResponse) -> None:
    """Not until all is done: a follower keeps fetching from its leader."""
    for _ in range(ROUNDS_MAX):
        if all(one.is_answered for one in pending):
            return
        await asyncio.sleep(0)
    raise AssertionError("not answered")


def codes(answer: Any) -> list[tuple[int, int]]:
    """(partition, error code) of every partition named."""
    rows = [
        *answer.partition_errors,
        *(row for topic in getattr(answer, "topics", ()) for row in topic.partition_errors),
    ]
    return [(row.partition_index, row.error_code) for row in rows]


@pytest.mark.parametrize("version", range(8))
async def test_a_broker_leads_and_follows_as_the_controller_commands_in_every_version(version: int) -> None:
    async with a_broker() as broker:
        answer = await answered(broker, become(), version)
        assert (answer.error_code, codes(answer)) == (0, [(0, 0)])
        held = broker.parts.replicas.get("orders", 0)
        assert held is not None
        assert held.leader is not None
        assert held.leader.isr == (ME, OTHER)
        assert held.topic_id == (topic_id_of("orders") if version >= 5 else NO_TOPIC_ID)
        answer = await answered(broker, become(OTHER, epoch=1), version)
        assert (answer.error_code, codes(answer)) == (0, [(0, 0)])
        assert held.leader is None
        assert held.follower is not None


@pytest.mark.parametrize("version", range(8))
async def test_what_is_known_already_is_answered_as_stale_for_that_partition_alone(version: int) -> None:
    async with a_broker() as broker:
        await answered(broker, become(), version)
        answer = await answered(broker, become(), version)
        assert (answer.error_code, codes(answer)) == (0, [(0, ErrorCode.STALE_CONTROLLER_EPOCH)])


@pytest.mark.parametrize("version", range(9))
async def test_metadata_are_learnt_and_forgotten_in_every_version(version: int) -> None:
    async with a_broker() as broker:
        other = Broker(OTHER, -1, (BrokerEndpoint("PLAINTEXT", "other", 9092),))
        update = UpdateMetadata(OTHER, 1, -1, (other,), become(OTHER).partitions)
        assert (await answered(broker, update, version)).error_code == 0
        cache = broker.parts.metadata
        assert cache.controller_id == OTHER
        assert cache.brokers[OTHER].endpoints == {"PLAINTEXT": ("other", 9092)}
        assert cache.topics["orders"].partitions[0].leader == OTHER
        assert cache.topics["orders"].topic_id == (topic_id_of("orders") if version >= 7 else NO_TOPIC_ID)
        gone = update._replace(partitions=(), deleted=(DeletedPartition(NAME, topic_id_of("orders")),))
        await answered(broker, gone, version)
        assert cache.topics == {}


@pytest.mark.parametrize("version", range(5))
async def test_a_replica_is_deleted_in_every_version(version: int) -> None:
    async with a_broker() as broker:
        await answered(broker, become(), 7)
        answer = await answered(broker, stop(), version)
        assert (answer.error_code, codes(answer)) == (0, [(0, 0)])
        assert broker.parts.replicas.get("orders", 0) is None
        assert broker.logs.get(NAME) is None


async def test_a_stop_of_an_epoch_that_is_over_is_fenced_where_the_version_tells_epochs() -> None:
    async with a_broker() as broker:
        await answered(broker, become(epoch=5), 7)
        answer = await answered(broker, stop(epoch=4), 3)
        assert codes(answer) == [(0, ErrorCode.FENCED_LEADER_EPOCH)]
        assert broker.logs.get(NAME) is not None
        answer = await answered(broker, stop(epoch=4), 2)
        assert codes(answer) == [(0, 0)]


@pytest.mark.parametrize("version", [4, 7])
async def test_an_old_controller_is_refused_as_a_whole_and_so_is_every_partition(version: int) -> None:
    async with a_broker() as broker:
        await answered(broker, UpdateMetadata(OTHER, 9, -1, ()), 8)
        answer = await answered_as_it_is(broker, become(controller_epoch=8), version)
        code = ErrorCode.STALE_CONTROLLER_EPOCH
        assert (answer.error_code, codes(answer)) == (code, [(0, code)])
        assert broker.parts.replicas.get("orders", 0) is None


async def test_a_command_for_an_earlier_life_of_this_broker_is_refused() -> None:
    async with a_broker() as broker:
        broker.parts.receiver.broker_epoch = 70
        answer = await answered(broker, become(broker_epoch=69), 7)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        for epoch in (-1, 70):
            answer = await answered(broker, become(epoch=epoch + 2, broker_epoch=epoch), 7)
            assert (answer.error_code, codes(answer)) == (0, [(0, 0)])


async def test_commands_are_carried_out_in_the_order_in_which_they_came() -> None:
    async with a_broker() as broker:
        await broker.elect()
        # The first has to read the topic's configuration before it can begin: no other command may overtake it.
        first, second = send(broker, become(), 7), send(broker, stop(), 4)
        await until_answered(first, second)
        assert codes(answer_of(first, ApiKey.LEADER_AND_ISR, 7)) == [(0, 0)]
        assert codes(answer_of(second, ApiKey.STOP_REPLICA, 4)) == [(0, 0)]
        assert broker.parts.replicas.get("orders", 0) is None
        assert broker.logs.get(NAME) is None


async def test_a_stale_command_that_came_second_is_judged_by_what_the_first_said() -> None:
    async with a_broker() as broker:
        await broker.elect(epoch=9)
        first = send(broker, become(controller_epoch=9), 7)
        late = send(broker, become(OTHER, epoch=1, controller_epoch=8), 7)
        await until_answered(first, late)
        assert answer_of(late, ApiKey.LEADER_AND_ISR, 7).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        held = broker.parts.replicas.get("orders", 0)
        assert held is not None
        assert held.leader is not None


STATE_ARGUMENTS: dict[StateKind, Any] = {
    StateKind.INITIALIZE: InitialState(2, None),
    StateKind.READ: 0,
    StateKind.WRITE: StateWrite(2, 0, None, None, ()),
}


def bare(key: ApiKey) -> Any:
    """A request with content, where the answer to an empty one would say nothing."""
    for api in STATE_APIS:
        if api.key == key:
            topic = api.topic(topic_id=topic_id_of("orders"), partitions=[api.row(0, STATE_ARGUMENTS.get(api.kind))])
            return api.request(group_id="workers", topics=[topic])
    if key != ApiKey.WRITE_TXN_MARKERS:
        return APIS[key].request()
    topics = [WritableTxnMarkerTopic(name="orders", partition_indexes=[0])]
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(topics=topics)])


@pytest.mark.parametrize("key", sorted(INTER_BROKER_APIS), ids=lambda key: key.name)
async def test_what_brokers_ask_of_one_another_is_refused_on_other_listeners(key: ApiKey) -> None:
    async with a_broker(TWO_LISTENERS) as broker:
        await broker.lead("orders")
        for version in range(APIS[key].min_version, APIS[key].max_version + 1):
            broker.peer = a_peer("EXTERNAL")
            answer = broker.ask(key, version, bare(key))
            assert code_of(answer) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            broker.peer = a_peer("PLAINTEXT")
            allowed = broker.serve(key, version, bare(key))
            if isinstance(allowed, DelayedResponse):
                await until_answered(allowed)
                assert code_of(answer_of(allowed, key, version)) != ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def code_of(answer: Any) -> int:
    if hasattr(answer, "error_code"):
        return int(answer.error_code)
    if hasattr(answer, "results"):
        return int(answer.results[0].partitions[0].error_code)
    return int(answer.markers[0].topics[0].partitions[0].error_code)


async def test_a_command_on_another_listener_changes_nothing() -> None:
    async with a_broker(TWO_LISTENERS) as broker:
        broker.peer = a_peer("EXTERNAL")
        answer = broker.ask(ApiKey.LEADER_AND_ISR, 7, request_of(become(), 7, "PLAINTEXT"))
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert (answer.error_code, codes(answer)) == (code, [(0, code)])
        assert broker.parts.replicas.get("orders", 0) is None
