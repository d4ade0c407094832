"""Commands that no controller sends, and requests of brokers that are none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from sordini.broker.cluster.commands.control_wire import request_of
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.served_apis import APIS, INTER_BROKER_APIS
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import (
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
from sordini.replication.metadata_store import paths
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, a_peer, topic_id_of
from tests.unit.broker.cluster.commands.test_commands_handler import (
    KEYS,
    TWO_LISTENERS,
    answered,
    answered_as_it_is,
    bare,
    code_of,
    codes,
)
from tests.unit.broker.transactions.test_txn_markers_handler import begun, end, marker

GOOD = TopicPartition("orders", 0)
NO_NAMES = ("x" * 300, "a\nb", "a b", "../../x", "a/b", "..", ".", "", "nul\0", "\u00e4")
NO_PARTITIONS = (*(TopicPartition(name, 0) for name in NO_NAMES), TopicPartition("orders", -5))
LARGEST = 2**31 - 1
REFUSED = ErrorCode.INVALID_TOPIC_EXCEPTION


def info(
    name: TopicPartition, *, epoch: int = 0, replicas: tuple[int, ...] = (1, 2), version: int = 0
) -> PartitionInfo:
    state = PartitionState(ME, LeaderEpoch(epoch), (ME,), 1)
    return PartitionInfo(name, topic_id_of("t"), tuple(map(BrokerId, replicas)), state, version, is_new=True)


def become(*infos: PartitionInfo, controller: int = OTHER, epoch: int = 1, broker_epoch: int = -1) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(controller), epoch, broker_epoch, infos, ())


def stop(*names: TopicPartition, epoch: int = -2) -> StopReplica:
    return StopReplica(OTHER, 1, -1, tuple(StoppedReplica(name, LeaderEpoch(epoch), True) for name in names))


def directories(broker: UnitBroker) -> list[str]:
    return broker.disk.directories("/logs")


def by_code(answer: Any) -> list[int]:
    """The codes of partitions in the order in which they were named, where an answer lists them in that order."""
    return [code for _, code in codes(answer)][: len(NO_PARTITIONS) + 1]


@pytest.mark.parametrize("version", range(8))
async def test_names_that_no_partition_has_are_refused_one_by_one_and_the_rest_is_led(version: int) -> None:
    async with a_broker() as broker:
        answer = await answered(broker, become(*map(info, NO_PARTITIONS), info(GOOD)), version)
        assert answer.error_code == 0
        assert sorted(set(by_code(answer))) == [0, REFUSED]
        assert by_code(answer).count(0) == 1
        assert directories(broker) == ["orders-0"]
        assert broker.logs.online_directories == ["/logs"]
        ((event, fields),) = broker.log.at("warning")
        assert (event, fields["count"]) == ("parts of a command refused", len(NO_PARTITIONS))


@pytest.mark.parametrize("version", range(5))
async def test_nothing_outside_of_a_log_directory_is_renamed_or_removed(version: int) -> None:
    async with a_broker() as broker:
        broker.disk.make_directory("/x-0")
        await answered(broker, become(info(GOOD)), 7)
        answer = await answered(broker, stop(*NO_PARTITIONS, GOOD), version)
        assert by_code(answer).count(REFUSED) == len(NO_PARTITIONS)
        assert broker.disk.directories("/") == ["logs", "x-0"]
        assert [name.startswith("orders-0.") for name in directories(broker)] == [True]


@pytest.mark.parametrize("version", range(9))
async def test_metadata_of_what_cannot_be_is_passed_over(version: int) -> None:
    async with a_broker() as broker:
        living = (
            Broker(BrokerId(-3), -1, (BrokerEndpoint("PLAINTEXT", "a", 1),)),
            Broker(BrokerId(5), -1, (BrokerEndpoint("PLAINTEXT", "b", 70_000),)),
            Broker(OTHER, -1, (BrokerEndpoint("PLAINTEXT", "c", 9092),)),
        )
        update = UpdateMetadata(OTHER, 1, -1, living, (*map(info, NO_PARTITIONS), info(GOOD)))
        assert (await answered(broker, update, version)).error_code == 0
        cache = broker.parts.metadata
        assert {number: dict(known.endpoints) for number, known in cache.brokers.items()} == {
            5: {},
            OTHER: {"PLAINTEXT": ("c", 9092)},
        }
        assert {name: list(topic.partitions) for name, topic in cache.topics.items()} == {"orders": [0]}
        gone = tuple(DeletedPartition(name, topic_id_of("t")) for name in (*NO_PARTITIONS, GOOD))
        await answered(broker, UpdateMetadata(OTHER, 1, -1, (), (), gone), version)
        assert cache.topics == {}


@pytest.mark.parametrize(
    "wrong", [{"epoch": -1}, {"replicas": (1, -2)}, {"version": -1}], ids=["leader epoch", "replica", "store version"]
)
async def test_numbers_that_cannot_be_are_refused_with_their_partition(wrong: Mapping[str, Any]) -> None:
    async with a_broker() as broker:
        answer = await answered(broker, become(info(GOOD, **wrong)), 4)
        assert (answer.error_code, codes(answer)) == (0, [(0, ErrorCode.INVALID_REQUEST)])
        assert directories(broker) == []
        await answered(broker, become(info(GOOD)), 4)
        assert codes(await answered(broker, stop(GOOD, epoch=-3), 3)) == [(0, ErrorCode.INVALID_REQUEST)]
        assert directories(broker) == ["orders-0"]


@pytest.mark.parametrize(
    "wrong",
    [{"controller": -1}, {"epoch": -1}, {"broker_epoch": -2}],
    ids=["controller id", "controller epoch", "broker epoch"],
)
async def test_a_sender_that_cannot_be_is_refused_at_once(wrong: Mapping[str, Any]) -> None:
    async with a_broker() as broker:
        await broker.elect()
        request = request_of(become(info(GOOD), **wrong), 4, "PLAINTEXT")
        answer = broker.ask(ApiKey.LEADER_AND_ISR, 4, request)
        invalid = ErrorCode.INVALID_REQUEST
        assert (answer.error_code, codes(answer)) == (invalid, [(0, invalid)])


def commands(controller: BrokerId, epoch: int, broker_epoch: int = -1) -> list[Command]:
    return [
        become(info(GOOD), controller=controller, epoch=epoch, broker_epoch=broker_epoch),
        UpdateMetadata(controller, epoch, broker_epoch, ()),
        StopReplica(controller, epoch, broker_epoch, (StoppedReplica(GOOD, LeaderEpoch(-2), True),)),
    ]


@pytest.mark.parametrize(("controller", "epoch"), [(OTHER, LARGEST), (OTHER, 2), (BrokerId(7), 1), (OTHER, 0)], ids=str)
async def test_a_command_of_a_controller_that_the_store_does_not_name_changes_nothing(
    controller: BrokerId, epoch: int
) -> None:
    async with a_broker() as broker:
        await broker.lead("bills")
        await broker.elect(OTHER, 1)
        for command in commands(controller, epoch):
            version = APIS[KEYS[type(command)]].max_version
            answer = await answered_as_it_is(broker, command, version)
            assert answer.error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        assert directories(broker) == ["bills-0"]
        assert list(broker.parts.metadata.brokers) == [ME]
        await broker.lead("notes")  # The controller of this process is obeyed as before,
        assert codes(await answered_as_it_is(broker, become(info(GOOD)), 7)) == [(0, 0)]  # and so is that of the store.


async def test_a_command_for_a_registration_that_the_store_does_not_know_changes_nothing() -> None:
    async with a_broker() as broker:
        await broker.elect()
        broker.parts.receiver.broker_epoch = 1
        for command in commands(OTHER, 1, broker_epoch=2**63 - 1):
            version = APIS[KEYS[type(command)]].max_version
            assert (await answered_as_it_is(broker, command, version)).error_code == ErrorCode.STALE_BROKER_EPOCH
        assert directories(broker) == []


async def test_a_controller_may_know_of_this_brokers_registration_before_the_broker_itself() -> None:
    async with a_broker() as broker:
        await broker.elect()
        await broker.session.create(paths.broker(ME))
        stat = await broker.session.exists(paths.broker(ME))
        assert stat is not None
        broker.parts.receiver.broker_epoch = stat.czxid - 1
        answer = await answered_as_it_is(broker, become(info(GOOD), broker_epoch=stat.czxid), 7)
        assert (answer.error_code, codes(answer)) == (0, [(0, 0)])


# A broker that is alone.


@pytest.mark.parametrize("key", sorted(INTER_BROKER_APIS), ids=lambda key: key.name)
async def test_a_broker_that_is_alone_refuses_what_brokers_ask_on_every_listener(key: ApiKey) -> None:
    async with a_broker(TWO_LISTENERS, is_clustered=False) as broker:
        await broker.lead("orders")
        for listener in ("PLAINTEXT", "EXTERNAL"):
            broker.peer = a_peer(listener)
            for version in range(APIS[key].min_version, APIS[key].max_version + 1):
                answer = broker.ask(key, version, bare(key))
                assert code_of(answer) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert broker.parts.replicas.partition("orders", 0).log.log_end_offset == 0


async def test_a_broker_that_is_alone_serves_its_own_requests_to_itself() -> None:
    async with a_broker(is_clustered=False) as broker:
        answer = await broker.parts.inter_broker.transport.serve_locally(ControlledShutdownRequest(broker_id=ME), 3)
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


async def test_alone_a_marker_is_written_where_a_transaction_is_open_and_nowhere_else() -> None:
    async with a_broker(is_clustered=False) as broker:
        await broker.lead("orders", 2)
        partition = begun(broker)
        wanted = marker(topics={"orders": [0, 1]})
        refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert end(broker, wanted) == [("orders", 0, 0), ("orders", 1, refused)]
        end_offset = partition.log.log_end_offset
        assert end(broker, wanted) == [("orders", 0, refused), ("orders", 1, refused)]
        assert partition.log.log_end_offset == end_offset


@pytest.mark.parametrize(("is_clustered", "kept"), [(True, 1), (False, 0)], ids=["of several", "alone"])
async def test_alone_no_fetch_session_of_a_follower_displaces_one_of_a_consumer(is_clustered: bool, kept: int) -> None:
    async with a_broker({"max.incremental.fetch.session.cache.slots": "1"}, is_clustered=is_clustered) as broker:
        await broker.lead("orders")

        def fetch(replica: int) -> int:
            wanted = FetchTopic(topic="orders", partitions=[FetchPartition(partition=0, partition_max_bytes=1)])
            request = FetchRequest(replica_id=replica, session_epoch=0, topics=[wanted], max_wait_ms=0)
            return int(broker.ask(ApiKey.FETCH, 11, request).session_id)

        assert fetch(-1) != 0
        assert bool(fetch(OTHER)) == bool(kept)
