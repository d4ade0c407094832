"""The broker's end of the controller's commands."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Mapping
from itertools import pairwise
from typing import Any, cast

import pytest

from sordini.broker.cluster.commands.command_receiver import PARTITIONS_PER_SLICE, CommandReceiver
from sordini.broker.configuration.config import build_config
from sordini.broker.configuration.dynamic import DynamicConfig
from sordini.broker.configuration.topic_configs import TopicConfigs
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    BrokerEndpoint,
    DeletedPartition,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    StoppedReplica,
    StopReplica,
    UpdateMetadata,
)
from sordini.replication.partition_deps import Peers
from sordini.replication.replica_set import ReplicaSet, ReplicaSetDeps
from sordini.storage.checkpoints import read_offsets
from sordini.storage.log_directory import LogDirectory
from sordini.storage.names import HIGH_WATERMARKS
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.fake_ports import ListLog
from tests.support.partitions import logs_on
from tests.support.unit_broker import ME, OTHER, topic_id_of

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 0)


def info(
    name: TopicPartition = ORDERS, *, epoch: int = 0, leader: BrokerId | None = ME, **changes: Any
) -> PartitionInfo:
    state = PartitionState(leader, LeaderEpoch(epoch), (ME,), 1)
    return PartitionInfo(name, topic_id_of(name.topic), (ME,), state, 0, is_new=True)._replace(**changes)


def leading(*infos: PartitionInfo, controller_epoch: int = 1, broker_epoch: int = -1) -> LeaderAndIsr:
    return LeaderAndIsr(ME, controller_epoch, broker_epoch, infos, ())


def telling(
    *infos: PartitionInfo, brokers: tuple[Broker, ...] = (), deleted: tuple[TopicPartition, ...] = ()
) -> UpdateMetadata:
    gone = tuple(DeletedPartition(name, topic_id_of(name.topic)) for name in deleted)
    return UpdateMetadata(ME, 1, -1, brokers, infos, gone)


def stopping(*names: TopicPartition, delete: bool = True) -> StopReplica:
    return StopReplica(ME, 1, -1, tuple(StoppedReplica(name, LeaderEpoch(-2), delete) for name in names))


class CountingDisk(ForgetfulDisk):
    """Counts the names that are synced on the loop, and not in the disk's threads."""

    def __init__(self) -> None:
        super().__init__()
        self.syncs_on_loop = 0
        self._is_beside = False

    def sync_directory(self, path: str) -> None:
        self.syncs_on_loop += not self._is_beside
        super().sync_directory(path)

    async def offload(self, function: Callable[[], Any]) -> Any:
        def beside() -> Any:
            self._is_beside = True
            try:
                return function()
            finally:
                self._is_beside = False

        return await super().offload(beside)


class UnansweredProposals:
    """ISR proposals that get no answer."""

    def propose(self, *_asked: Any) -> None:
        return

    def withdraw(self, _name: TopicPartition) -> None:
        return


class Receiving:
    """A receiver with real logs; `overrides` are the topic settings in the store."""

    def __init__(self, *directories: str, disk: ForgetfulDisk | None = None) -> None:
        self.overrides: dict[str, dict[str, str]] = {}
        self.seen: list[tuple[str, bool]] = []
        self.log = ListLog()
        self.logs = logs_on(disk or ForgetfulDisk(), *directories)
        self.metadata = MetadataCache("a-cluster")
        self.configs = TopicConfigs(DynamicConfig(build_config({})[0]), self.read_overrides)
        around = ReplicaSetDeps(
            self.configs.settings_of,
            self.metadata.exists,
            self.metadata.name_of,
            lambda: 0,
            lambda: 0,
            self.log,
            peers=Peers(UnansweredProposals(), lambda broker_id: broker_id in self.metadata.brokers),
        )
        self.replicas = ReplicaSet(ME, self.logs, around)
        self.receiver = CommandReceiver(self.replicas, self.metadata, self.configs, self.log)
        self.receive = self.receiver.receive

    async def read_overrides(self, topic: str) -> Mapping[str, str]:
        self.seen.append((topic, self.logs.get(TopicPartition(topic, 0)) is not None))
        return self.overrides.get(topic, {})

    def is_led(self, name: TopicPartition = ORDERS) -> bool:
        partition = self.replicas.get(*name)
        return partition is not None and partition.leader is not None


async def test_a_topics_configuration_is_read_before_its_log_is_made() -> None:
    broker = Receiving()
    broker.overrides["orders"] = {"segment.bytes": "12345", "flush.messages": "1"}
    answer = await broker.receive(leading(info()))
    assert answer.error == 0
    assert broker.seen == [("orders", False)]
    config = broker.logs.get(ORDERS).config
    assert (config.segment_bytes, config.flush_messages) == (12345, 1)


async def test_many_partitions_of_a_topic_read_its_configuration_once() -> None:
    broker = Receiving()
    await broker.receive(leading(*(info(TopicPartition("orders", index)) for index in range(5))))
    assert [topic for topic, _ in broker.seen] == ["orders"]
    assert len(list(broker.replicas)) == 5


async def test_a_command_of_a_former_controller_is_refused_and_does_nothing() -> None:
    broker = Receiving()
    await broker.receive(leading(controller_epoch=5))
    assert (await broker.receive(leading(info(), controller_epoch=4))).error == ErrorCode.STALE_CONTROLLER_EPOCH
    assert not broker.is_led()
    assert (await broker.receive(leading(info(), controller_epoch=5))).error == 0
    assert broker.is_led()


@pytest.mark.parametrize("command", [leading(info()), stopping(ORDERS), telling(info())])
async def test_a_command_for_a_former_life_of_the_broker_is_refused(command: Any) -> None:
    broker = Receiving()
    broker.receiver.broker_epoch = 10
    assert (await broker.receive(command._replace(broker_epoch=9))).error == ErrorCode.STALE_BROKER_EPOCH
    assert not broker.is_led()
    assert broker.metadata.topics == {}
    for epoch in (-1, 10, 11):
        assert (await broker.receive(command._replace(broker_epoch=epoch))).error == 0


async def test_acknowledgements_wait_no_longer_for_a_newcomer_of_whose_end_the_controller_tells() -> None:
    broker = Receiving()
    me, other, third = (Broker(BrokerId(number), number, ()) for number in (ME, OTHER, 3))
    state = PartitionState(ME, LeaderEpoch(0), (ME, OTHER), 1)
    await broker.receive(telling(brokers=(me, other, third)))
    await broker.receive(leading(info(replicas=(ME, OTHER, BrokerId(3)), state=state)))
    partition = broker.replicas.partition(*ORDERS)
    leader = partition.require_leader()
    leader.fetched(BrokerId(3), Offset(0), Offset(0), 0)
    leader.appended(Offset(5))
    leader.fetched(OTHER, Offset(5), Offset(5), 0)
    await broker.receive(telling(brokers=(me, other, third)))
    assert leader.shrink(0) is None
    assert leader.high_watermark == 0
    await broker.receive(telling(brokers=(me, other)))
    leader.appended(Offset(5))
    assert leader.high_watermark == 5


async def test_a_leader_learns_from_metadata_that_its_partition_was_moved_to_others_while_it_was_away() -> None:
    broker = await knowing_orders()
    await broker.receive(leading(info()))
    await broker.receive(telling(info(leader=OTHER)))
    assert broker.is_led(), "not of a newer epoch"
    await broker.receive(telling(info(epoch=3, leader=OTHER, replicas=(OTHER,))))
    assert not broker.is_led()
    assert broker.logs.get(ORDERS) is not None, "what becomes of its log is for a StopReplica to say"


def many(count: int) -> tuple[PartitionInfo, ...]:
    return tuple(info(TopicPartition("orders", index)) for index in range(count))


async def knowing_orders() -> Receiving:
    """A receiver that need not read how the topic is configured: it has a partition of it, beyond the `many`."""
    broker = Receiving()
    await broker.receive(leading(info(TopicPartition("orders", 1_000_000))))
    return broker


def in_the_next_epoch(count: int) -> LeaderAndIsr:
    """The same partitions in their next epoch: nothing is made for these."""
    return leading(*(one._replace(state=one.state._replace(leader_epoch=LeaderEpoch(1))) for one in many(count)))


async def rounds(counted: Coroutine[Any, Any, Any]) -> int:
    """How many rounds of the loop others have until it is done."""
    task, count = asyncio.ensure_future(counted), 0
    while not task.done():
        await asyncio.sleep(0)
        count += 1
    return count


async def test_a_refused_follower_may_be_proposed_again_when_brokers_come_or_go_or_another_one_governs() -> None:
    broker = Receiving()
    me, other, third = (Broker(BrokerId(number), number, ()) for number in (ME, OTHER, 3))
    state = PartitionState(ME, LeaderEpoch(0), (ME,), 1)
    await broker.receive(telling(brokers=(me, other)))
    await broker.receive(leading(info(replicas=(ME, OTHER), state=state)))
    leader = broker.replicas.partition(*ORDERS).require_leader()
    for update, may_join in (
        (telling(brokers=(me, other)), False),
        (telling(brokers=(me, other, third)), True),
        (telling(brokers=(me, other)), True),
        (telling(brokers=(me, other))._replace(controller_id=OTHER), True),
    ):
        leader.fetched(OTHER, Offset(0), Offset(0), 0)
        if leader.may_join(OTHER):
            leader.ineligible(leader.expand(OTHER))
        assert not leader.may_join(OTHER)
        await broker.receive(update)
        assert leader.may_join(OTHER) is may_join


async def test_the_event_loop_runs_other_tasks_after_each_log_that_a_command_creates_or_deletes() -> None:
    broker = await knowing_orders()
    made: list[int] = []
    task = asyncio.ensure_future(broker.receive(leading(*many(50))))
    while not task.done():
        await asyncio.sleep(0)
        made.append(len(list(broker.replicas)) - 1)
    assert all(after - before <= 1 for before, after in pairwise(made))
    assert (task.result().partitions, made[-1]) == ({}, 50)
    assert await rounds(broker.receive(stopping(*(one.topic_partition for one in many(50))))) >= 50
    assert len(list(broker.replicas)) == 1


async def test_partitions_whose_logs_are_there_share_a_turn() -> None:
    broker = await knowing_orders()
    await broker.receive(leading(*many(PARTITIONS_PER_SLICE)))
    assert await rounds(broker.receive(in_the_next_epoch(PARTITIONS_PER_SLICE))) < 5


async def test_what_is_left_of_deleted_logs_is_taken_away_beside_the_loop_before_their_names_are_used_again() -> None:
    disk = CountingDisk()
    broker = Receiving(disk=disk)
    await broker.receive(leading(*many(20)))
    for one in many(20):
        log = broker.logs.get(one.topic_partition)
        assert log is not None
        log.high_watermark = 7
    await broker.logs.checkpoint(HIGH_WATERMARKS, LogDirectory.high_watermarks)
    await broker.receive(stopping(*(one.topic_partition for one in many(20))))
    disk.syncs_on_loop = 0
    await broker.receive(leading(*many(20)))
    assert disk.syncs_on_loop == 0
    assert read_offsets(disk, broker.logs.online_directories[0], HIGH_WATERMARKS) == {}
    assert len(list(broker.replicas)) == 20


async def test_a_long_command_ends_where_the_life_ended_that_it_was_meant_for() -> None:
    broker = await knowing_orders()
    broker.receiver.broker_epoch = 10

    async def life_ends() -> None:
        broker.receiver.broker_epoch = 11

    command = leading(*many(50), broker_epoch=10)
    answer, _ = await asyncio.gather(broker.receive(command), life_ends())
    assert answer.error == ErrorCode.STALE_BROKER_EPOCH
    assert len(list(broker.replicas)) < 5


async def test_a_command_waits_for_the_whole_of_the_one_before_it() -> None:
    broker = Receiving()
    first = asyncio.ensure_future(broker.receive(leading(*many(2 * PARTITIONS_PER_SLICE))))
    last = TopicPartition("orders", 2 * PARTITIONS_PER_SLICE - 1)
    second = asyncio.ensure_future(broker.receive(stopping(last)))
    await asyncio.gather(first, second)
    assert len(list(broker.replicas)) == 2 * PARTITIONS_PER_SLICE - 1
    assert broker.replicas.get(*last) is None


async def test_a_refused_partition_does_not_keep_the_others_from_being_led() -> None:
    broker = Receiving()
    answer = await broker.receive(leading(info(replicas=(OTHER,)), info(BILLS)))
    assert answer.error == 0
    assert dict(answer.partitions) == {ORDERS: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert not broker.is_led(ORDERS)
    assert broker.is_led(BILLS)
    ((event, fields),) = broker.log.at("warning")
    assert (event, fields["partition"]) == ("partition state change refused", "orders-0")


async def test_a_command_that_comes_twice_is_answered_without_a_line() -> None:
    broker = Receiving()
    await broker.receive(leading(info(epoch=3)))
    broker.log.lines.clear()
    answer = await broker.receive(leading(info(epoch=3)))
    assert dict(answer.partitions) == {ORDERS: ErrorCode.STALE_CONTROLLER_EPOCH}
    assert broker.is_led()
    assert broker.log.lines == []


async def test_a_command_logs_which_partitions_became_leader_and_follower() -> None:
    broker = Receiving()
    await broker.receive(leading(info(epoch=3), info(BILLS, epoch=5, leader=OTHER, replicas=(OTHER, ME))))
    assert broker.log.at("info") == [
        ("became leader", {"partition": "orders-0", "leader_epoch": 3, "isr": [ME]}),
        ("became follower", {"partition": "bills-0", "leader": OTHER, "leader_epoch": 5}),
    ]


async def test_a_partition_that_moved_to_another_leader_is_no_longer_served_here() -> None:
    broker = Receiving()
    await broker.receive(leading(info()))
    log = broker.logs.get(ORDERS)
    answer = await broker.receive(leading(info(leader=OTHER, epoch=1)))
    assert dict(answer.partitions) == {}
    assert not broker.is_led()
    assert broker.logs.get(ORDERS) is log


async def test_without_a_log_directory_leading_is_a_storage_error() -> None:
    broker = Receiving()
    await broker.receive(leading(info(BILLS)))
    broker.logs.get(BILLS).log_dir.take_offline(OSError(errno.EIO, "gone"))
    answer = await broker.receive(leading(info()))
    assert dict(answer.partitions) == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}


async def test_a_partition_whose_log_may_be_in_a_failed_directory_is_not_created_again_in_another() -> None:
    broker = Receiving("/a", "/b")
    await broker.receive(leading(info(BILLS)))
    broker.logs.get(BILLS).log_dir.take_offline(OSError(errno.EIO, "gone"))
    answer = await broker.receive(leading(info(is_new=False)))
    assert dict(answer.partitions) == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
    assert broker.logs.get(ORDERS) is None
    assert (await broker.receive(leading(info()))).partitions == {}


async def test_a_stopped_replica_is_deleted_with_its_configuration_when_that_is_asked() -> None:
    broker = Receiving()
    broker.overrides["orders"] = {"flush.messages": "1"}
    await broker.receive(leading(info()))
    await broker.receive(stopping(ORDERS, delete=False))
    assert not broker.is_led()
    assert broker.logs.get(ORDERS) is not None
    assert broker.configs.config_of("orders")["flush.messages"] == 1
    await broker.receive(stopping(ORDERS))
    assert broker.logs.get(ORDERS) is None
    assert broker.configs.config_of("orders")["flush.messages"] != 1


async def test_a_log_that_cannot_be_deleted_is_said_so_and_the_others_are() -> None:
    broker = Receiving("/a", "/b")
    await broker.receive(leading(info(), info(BILLS)))
    broker.logs.get(ORDERS).log_dir.take_offline(OSError(errno.EIO, "gone"))
    answer = await broker.receive(stopping(ORDERS, BILLS))
    assert answer.error == 0
    assert dict(answer.partitions) == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
    assert broker.logs.get(BILLS) is None
    assert [event for event, _ in broker.log.at("warning")] == ["log not deleted"]


async def test_deleting_on_a_full_disk_is_refused_and_leaves_the_broker_alive() -> None:
    broker = Receiving()
    await broker.receive(leading(info()))
    cast("ForgetfulDisk", broker.logs.get(ORDERS).log_dir.disk).fail_while(
        lambda kind, path: kind == "rename", errno.ENOSPC
    )
    answer = await broker.receive(stopping(ORDERS))
    assert dict(answer.partitions) == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
    with pytest.raises(BrokerError):
        broker.replicas.partition("orders", 0)


async def test_metadata_is_updated_as_a_whole_and_listeners_are_notified_once() -> None:
    broker = Receiving()
    changes: list[int] = []
    broker.metadata.on_change(lambda: changes.append(len(broker.metadata.topics)))
    brokers = (
        Broker(ME, 1, (BrokerEndpoint("PLAINTEXT", "one", 9092), BrokerEndpoint("INSIDE", "uno", 9093)), "rack"),
        Broker(OTHER, 2, (BrokerEndpoint("PLAINTEXT", "two", 9092),)),
    )
    await broker.receive(telling(info(epoch=3), info(BILLS, leader=None), brokers=brokers))
    assert changes == [2]
    known = broker.metadata
    assert known.brokers[ME].endpoints == {"PLAINTEXT": ("one", 9092), "INSIDE": ("uno", 9093)}
    assert [(broker_id, broker.rack) for broker_id, broker in known.brokers.items()] == [(ME, "rack"), (OTHER, None)]
    assert known.topics["orders"].partitions[0].leader_epoch == 3
    assert known.topics["bills"].partitions[0].leader == -1
    await broker.receive(telling(deleted=(BILLS,), brokers=brokers[:1]))
    assert list(known.topics) == ["orders"]
    assert list(known.brokers) == [ME]
