"""Moving coordinators: answers about groups when the leadership of their partition starts, ends or moves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from sordini.protocol.types import LeaderEpoch, Offset, TopicPartition
from sordini.replication.cluster_model import (
    DeletedPartition,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    UpdateMetadata,
)
from sordini.replication.metadata_store.topics import create_topic
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.group_requests import (
    ONE_PARTITION,
    a_coordinator,
    a_stable_group,
    commit,
    commit_codes,
    commit_later,
    commit_request,
    committed,
    fetch,
    heartbeat,
    join,
    join_request,
    sync_request,
)
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, answer_of, topic_id_of

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)


async def command_leadership(broker: UnitBroker, epoch: int, *isr: int, index: int = 0) -> None:
    """The controller makes this broker the leader, with this in-sync set."""
    state = PartitionState(ME, LeaderEpoch(epoch), tuple(isr), 1)  # type: ignore[arg-type]
    info = PartitionInfo(
        TopicPartition(OFFSETS_TOPIC, index), topic_id_of(OFFSETS_TOPIC), (ME, OTHER), state, 0, is_new=True
    )
    await broker.parts.receiver.receive(LeaderAndIsr(ME, 1, -1, (info,), ()))


async def learn_of_offsets(broker: UnitBroker, *indexes: int) -> None:
    """The metadata of these partitions of __consumer_offsets: this broker leads them."""
    state = PartitionState(ME, LeaderEpoch(0), (ME,), 1)
    infos = [
        PartitionInfo(TopicPartition(OFFSETS_TOPIC, index), topic_id_of(OFFSETS_TOPIC), (ME, OTHER), state, 0)
        for index in indexes or (0,)
    ]
    await broker.learn(tuple(infos))


async def some_iterations() -> None:
    """More than the loading of a small partition takes."""
    for _ in range(50):
        await asyncio.sleep(0)


async def a_disk_with(offsets: Mapping[int, int]) -> tuple[ForgetfulDisk, object]:
    """The disk of a killed broker with a group of one member, and the answer to the join of that member."""
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        joined = a_stable_group(broker)
        assert set(commit(broker, offsets, joined)) == {0}
    return disk.killed(), joined


def commit_of_member(broker: UnitBroker, offsets: Mapping[int, int], joined: object) -> DelayedResponse:
    pending = broker.serve(ApiKey.OFFSET_COMMIT, 7, commit_request(offsets, joined))
    assert isinstance(pending, DelayedResponse)
    return pending


# Leadership starts.


async def test_a_commit_during_the_loading_waits_for_its_end() -> None:
    disk, joined = await a_disk_with({0: 1})
    async with a_broker(ONE_PARTITION, disk) as broker:
        await broker.lead("orders", 3)
        await broker.lead(OFFSETS_TOPIC)
        pending = commit_of_member(broker, {0: 2}, joined)
        assert not pending.is_answered
        await broker.settled()
        assert commit_codes(pending) == [0]
        assert committed(broker) == {("orders", 0): 2}
        assert 5.0 not in [timer.seconds for timer in broker.timers.waiting]


async def test_a_commit_waits_for_the_loading_for_the_commit_timeout() -> None:
    disk, joined = await a_disk_with({0: 1})
    async with a_broker(ONE_PARTITION, disk) as broker:
        await broker.lead("orders", 3)
        await broker.lead(OFFSETS_TOPIC)
        pending = commit_of_member(broker, {0: 2}, joined)
        assert 5.0 in [timer.seconds for timer in broker.timers.waiting]
        broker.timers.fire()
        assert commit_codes(pending) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        await broker.settled()
        assert committed(broker) == {("orders", 0): 1}


async def test_a_commit_that_waits_for_the_loading_is_answered_when_the_leadership_ends() -> None:
    disk, joined = await a_disk_with({0: 1})
    async with a_broker(ONE_PARTITION, disk) as broker:
        await broker.lead("orders", 3)
        await broker.lead(OFFSETS_TOPIC)
        pending = commit_of_member(broker, {0: 2}, joined)
        broker.parts.replicas.resign_all()
        assert commit_codes(pending) == [ErrorCode.NOT_COORDINATOR]
        await broker.settled()


async def test_loaded_groups_are_not_visible_until_all_in_sync_replicas_have_them() -> None:
    disk, joined = await a_disk_with({0: 1})
    async with a_broker(ONE_PARTITION, disk) as broker:
        await broker.lead("orders", 3)
        await learn_of_offsets(broker)
        await command_leadership(broker, 0, ME, OTHER)
        partition = broker.parts.replicas.partition(*OFFSETS)
        assert partition.require_leader().high_watermark < partition.log.log_end_offset
        await some_iterations()
        assert fetch(broker, 0).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert broker.parts.groups.is_loading
        await command_leadership(broker, 1, ME)
        await broker.settled()
        assert committed(broker) == {("orders", 0): 1}
        assert heartbeat(broker, joined) == ErrorCode.NONE


async def test_leadership_that_ends_before_the_loaded_records_are_committed_leaves_no_groups() -> None:
    disk, _ = await a_disk_with({0: 1})
    async with a_broker(ONE_PARTITION, disk) as broker:
        await learn_of_offsets(broker)
        await command_leadership(broker, 0, ME, OTHER)
        await some_iterations()
        broker.parts.replicas.resign_all()
        await broker.settled()
        assert fetch(broker, 0).error_code == ErrorCode.NOT_COORDINATOR
        assert "groups loaded" not in dict(broker.log.at("info"))


@pytest.mark.parametrize("iterations", [0, 50])
async def test_a_loading_that_a_newer_leadership_replaces_has_no_effect(iterations: int) -> None:
    disk, _ = await a_disk_with({0: 1})
    async with a_broker(ONE_PARTITION, disk) as broker:
        await broker.lead("orders", 3)
        await learn_of_offsets(broker)
        await command_leadership(broker, 0, ME, OTHER)
        for _ in range(iterations):
            await asyncio.sleep(0)
        broker.parts.replicas.stop_replica(OFFSETS, delete=False)
        await command_leadership(broker, 2, ME)
        await broker.settled()
        assert [event for event, _ in broker.log.at("info")].count("groups loaded") == 1
        assert committed(broker) == {("orders", 0): 1}


async def test_offsets_of_a_topic_deleted_during_the_loading_are_deleted_too() -> None:
    disk, _ = await a_disk_with({0: 1, 1: 1})
    async with a_broker(ONE_PARTITION, disk) as broker:
        await broker.lead("orders", 3)
        await learn_of_offsets(broker)
        await command_leadership(broker, 0, ME, OTHER)
        await some_iterations()
        gone = (DeletedPartition(TopicPartition("orders", 1), topic_id_of("orders")),)
        await broker.parts.receiver.receive(UpdateMetadata(ME, 1, -1, (), (), gone))
        await some_iterations()
        await command_leadership(broker, 1, ME)
        await broker.settled()
        assert committed(broker) == {("orders", 0): 1}


async def test_no_group_is_coordinated_before_the_partition_count_is_known() -> None:
    async with a_broker(ONE_PARTITION) as broker:
        await command_leadership(broker, 0, ME)
        assert fetch(broker, 0).error_code == ErrorCode.NOT_COORDINATOR
        await learn_of_offsets(broker)
        assert fetch(broker, 0).error_code == ErrorCode.NONE


async def test_a_partial_partition_count_is_verified_in_the_store() -> None:
    async with a_broker({"offsets.topic.num.partitions": "50"}) as broker:
        await create_topic(broker.session, OFFSETS_TOPIC, dict.fromkeys(range(7), (ME,)), topic_id_of("x"), {})
        group_id = next(str(number) for number in range(1_000) if partition_for(str(number), 7) == 1)
        await command_leadership(broker, 0, ME, index=1)
        await learn_of_offsets(broker, 0, 1)
        assert fetch(broker, 0, group_id=group_id).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        request = FindCoordinatorRequest(key=group_id)
        assert broker.ask(ApiKey.FIND_COORDINATOR, 3, request).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await broker.settled()
        assert fetch(broker, 0, group_id=group_id).error_code == ErrorCode.NONE
        assert broker.ask(ApiKey.FIND_COORDINATOR, 3, request).node_id == ME


# Leadership ends.


@pytest.mark.parametrize("ends", ["follows", "stops"])
async def test_pending_requests_are_answered_not_coordinator_when_the_leadership_moves(ends: str) -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        joining = broker.serve(ApiKey.JOIN_GROUP, 3, join_request())
        assert isinstance(joining, DelayedResponse)
        await command_leadership(broker, 1, ME, OTHER)
        committing = commit_later(broker, {0: 5}, group_id="h")
        if ends == "follows":
            state = PartitionState(OTHER, LeaderEpoch(2), (ME, OTHER), 1)
            info = PartitionInfo(OFFSETS, topic_id_of(OFFSETS_TOPIC), (ME, OTHER), state, 0)
            await broker.parts.receiver.receive(LeaderAndIsr(ME, 1, -1, (info,), ()))
        else:
            broker.parts.replicas.stop_replica(OFFSETS, leader_epoch=2, delete=False)
        assert answer_of(joining, ApiKey.JOIN_GROUP, 3).error_code == ErrorCode.NOT_COORDINATOR
        assert commit_codes(committing) == [ErrorCode.NOT_COORDINATOR]
        assert heartbeat(broker, joined) == ErrorCode.NOT_COORDINATOR
        assert broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined)).error_code == ErrorCode.NOT_COORDINATOR
        assert commit(broker, {0: 6}, joined) == [ErrorCode.NOT_COORDINATOR]


async def test_no_member_is_fenced_after_the_leadership_has_ended() -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        partition = broker.parts.replicas.partition(*OFFSETS)
        end = partition.log.log_end_offset
        broker.parts.replicas.stop_replica(OFFSETS, leader_epoch=0, delete=False)
        broker.clock.ms += 60_000
        broker.timers.fire()
        broker.timers.fire()
        assert partition.log.log_end_offset == end


# Too few replicas.


async def few_in_sync(broker: UnitBroker) -> None:
    """Two replicas are required of each record, and both are in sync."""
    broker.parts.topic_configs.set(OFFSETS_TOPIC, {"min.insync.replicas": "2"})
    broker.parts.replicas.reconfigure(OFFSETS_TOPIC)
    broker.parts.replicas.stop_replica(OFFSETS, leader_epoch=0, delete=False)
    await command_leadership(broker, 1, ME, OTHER)
    partition = broker.parts.replicas.partition(*OFFSETS)
    leader = partition.require_leader()
    leader.fetched(OTHER, Offset(partition.log.log_end_offset), Offset(partition.log.log_end_offset), 0)
    partition.flushed()
    await broker.settled()


async def test_a_commit_with_too_few_replicas_in_the_end_is_answered_as_failed() -> None:
    async with a_coordinator() as broker:
        assert commit(broker, {0: 1}) == [0]
        await few_in_sync(broker)
        pending = commit_later(broker, {0: 5})
        await command_leadership(broker, 2, ME)
        assert commit_codes(pending) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert committed(broker) == {("orders", 0): 5}, "as the log has it"


async def test_an_assignment_with_too_few_replicas_in_the_end_is_not_sent() -> None:
    async with a_coordinator() as broker:
        await few_in_sync(broker)
        joined = broker.ask(ApiKey.JOIN_GROUP, 3, join_request())
        pending = broker.serve(ApiKey.SYNC_GROUP, 2, sync_request(joined))
        assert isinstance(pending, DelayedResponse)
        await command_leadership(broker, 2, ME)
        assert answer_of(pending, ApiKey.SYNC_GROUP, 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize("instance_id", ["", "static"])
async def test_a_static_member_of_any_name_is_loaded_and_leaves_with_the_leadership(instance_id: str) -> None:
    """An instance id may be empty: what a client chose must not make the next coordinator fail."""
    async with a_coordinator() as broker:
        joined = join(broker, version=5, group_instance_id=instance_id)
        sync = sync_request(joined)
        sync.group_instance_id = instance_id
        assert broker.ask(ApiKey.SYNC_GROUP, 3, sync).assignment == b"all of it"
        for epoch in (2, 3):
            broker.parts.replicas.resign_all()
            await broker.lead(OFFSETS_TOPIC, epoch=epoch)
            await broker.settled()
        request = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="", group_instance_id=instance_id)])
        [left] = broker.ask(ApiKey.LEAVE_GROUP, 3, request).members
        assert left.error_code == ErrorCode.NONE
        assert not broker.log.at("error")
