"""The coordinator's shell: when requests are answered, what is written, and what a restart restores."""

from __future__ import annotations

import asyncio
import errno
import random

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.types import LeaderEpoch, Offset, TopicPartition
from sordini.replication.cluster_model import (
    DeletedPartition,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    UpdateMetadata,
)
from sordini.replication.follower_truncation import FetchPosition
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
    leave,
    sync_request,
)
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, answer_of, topic_id_of

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)


def log_end(broker: UnitBroker) -> int:
    log = broker.logs.get(OFFSETS)
    assert log is not None
    return log.log_end_offset


def pending_response(broker: UnitBroker, key: ApiKey, version: int, request: object) -> DelayedResponse:
    pending = broker.serve(key, version, request)
    assert isinstance(pending, DelayedResponse)
    return pending


async def in_sync(broker: UnitBroker, *isr: int, epoch: int) -> None:
    """The controller sends the in-sync set, as when a replica falls behind."""
    state = PartitionState(ME, LeaderEpoch(epoch), tuple(isr), 1)  # type: ignore[arg-type]
    info = PartitionInfo(OFFSETS, topic_id_of(OFFSETS_TOPIC), (ME, OTHER), state, 0)
    await broker.parts.receiver.receive(LeaderAndIsr(ME, 1, -1, (info,), ()))


# Answers.


async def test_a_group_of_one_member_is_formed_without_a_wait() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        assert (joined.generation_id, joined.leader) == (1, joined.member_id)
        assert heartbeat(broker, joined) == ErrorCode.NONE
        assert not broker.tasks


async def test_a_join_waits_for_the_members_that_were_there_before() -> None:
    async with a_coordinator() as broker:
        first = a_stable_group(broker)
        second = pending_response(broker, ApiKey.JOIN_GROUP, 3, join_request())
        assert heartbeat(broker, first) == ErrorCode.REBALANCE_IN_PROGRESS
        assert not second.is_answered
        again = join(broker, first.member_id)
        follower = answer_of(second, ApiKey.JOIN_GROUP, 3)
        assert again.generation_id == follower.generation_id == 2
        assert {member.member_id for member in again.members} == {first.member_id, follower.member_id}
        assert follower.members == []
        late = pending_response(broker, ApiKey.SYNC_GROUP, 2, sync_request(follower, unknown=b""))
        parts = {first.member_id: b"one half", follower.member_id: b"the other"}
        assert broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(again, **parts)).assignment == b"one half"
        assert answer_of(late, ApiKey.SYNC_GROUP, 2).assignment == b"the other"


async def test_the_answer_to_a_closed_connection_is_dropped() -> None:
    async with a_coordinator() as broker:
        first = a_stable_group(broker)
        second = pending_response(broker, ApiKey.JOIN_GROUP, 3, join_request())
        second.abandon()
        assert join(broker, first.member_id).error_code == 0


async def test_a_member_id_starts_with_the_client_id_or_the_instance_id() -> None:
    async with a_coordinator() as broker:
        named = join(broker, version=5)
        assert named.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert named.member_id.startswith("test-")
        assert len(named.member_id) == len("test-") + 36
        static = join(broker, version=5, group_instance_id="rack-7")
        assert static.member_id.startswith("rack-7-")


async def test_the_longest_client_id_gives_a_valid_member_id() -> None:
    async with a_coordinator() as broker:
        answer = broker.ask(ApiKey.JOIN_GROUP, 3, join_request(), client_id="é" * 16_000)
        assert answer.error_code == 0
        assert len(answer.member_id.encode()) < 32_767


async def test_a_group_does_not_grow_beyond_its_maximum_size() -> None:
    async with a_coordinator({"group.max.size": "1"}) as broker:
        a_stable_group(broker)
        assert join(broker).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_session_timeouts_are_held_to_the_brokers_bounds() -> None:
    async with a_coordinator() as broker:
        assert join(broker, session_timeout_ms=5_999).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
        assert join(broker, session_timeout_ms=1_800_001).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


# Commits.


async def test_a_commit_is_visible_when_it_is_answered() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        assert commit(broker, {0: 5, 2: 7}, joined) == [0, 0]
        assert committed(broker) == {("orders", 0): 5, ("orders", 2): 7}
        assert commit(broker, {0: 6}, joined) == [0]
        assert committed(broker)["orders", 0] == 6
        assert not broker.tasks


async def test_a_commit_is_visible_only_when_all_in_sync_replicas_have_it() -> None:
    async with a_coordinator() as broker:
        await in_sync(broker, ME, OTHER, epoch=1)
        end = log_end(broker)
        pending = commit_later(broker, {0: 5})
        assert log_end(broker) == end + 1
        assert not pending.is_answered
        assert committed(broker) == {}
        await in_sync(broker, ME, epoch=2)
        assert commit_codes(pending) == [0]
        assert committed(broker) == {("orders", 0): 5}


async def test_a_commit_is_visible_when_the_last_replica_has_fetched_it() -> None:
    async with a_coordinator() as broker:
        await in_sync(broker, ME, OTHER, epoch=1)
        pending = commit_later(broker, {0: 5})
        partition = broker.parts.replicas.partition(*OFFSETS)
        end = partition.log.log_end_offset
        partition.update_follower_fetch_state(OTHER, FetchPosition(Offset(end - 1), LeaderEpoch(1), -1), 0)
        assert not pending.is_answered
        assert committed(broker) == {}
        # The fetch of the last replica advances the high watermark.
        partition.update_follower_fetch_state(OTHER, FetchPosition(Offset(end), LeaderEpoch(1), -1), 0)
        assert commit_codes(pending) == [0]
        assert committed(broker) == {("orders", 0): 5}
        assert not partition.pending_commits
        assert not partition.purgatory


async def test_commits_take_effect_in_their_order() -> None:
    async with a_coordinator() as broker:
        await in_sync(broker, ME, OTHER, epoch=1)
        pendings = [commit_later(broker, {0: offset}) for offset in (1, 2, 3)]
        await in_sync(broker, ME, epoch=2)
        assert [commit_codes(pending) for pending in pendings] == [[0], [0], [0]]
        assert committed(broker) == {("orders", 0): 3}


async def test_a_commit_that_times_out_still_takes_effect() -> None:
    async with a_coordinator() as broker:
        await in_sync(broker, ME, OTHER, epoch=1)
        pending = commit_later(broker, {0: 5})
        assert 5.0 in [timer.seconds for timer in broker.timers.waiting]
        broker.clock.ms += 5_000
        broker.timers.fire()
        assert commit_codes(pending) == [ErrorCode.REQUEST_TIMED_OUT]
        assert committed(broker) == {}
        await in_sync(broker, ME, epoch=2)
        assert committed(broker) == {("orders", 0): 5}


async def test_an_assignment_is_sent_only_when_all_in_sync_replicas_have_it() -> None:
    async with a_coordinator() as broker:
        joined = join(broker)
        await in_sync(broker, ME, OTHER, epoch=1)
        pending = pending_response(broker, ApiKey.SYNC_GROUP, 2, sync_request(joined))
        await in_sync(broker, ME, epoch=2)
        assert answer_of(pending, ApiKey.SYNC_GROUP, 2).assignment == b"all of it"


async def test_an_assignment_that_times_out_restarts_the_rebalance() -> None:
    async with a_coordinator() as broker:
        joined = join(broker)
        await in_sync(broker, ME, OTHER, epoch=1)
        pending = pending_response(broker, ApiKey.SYNC_GROUP, 2, sync_request(joined))
        broker.clock.ms += 5_000
        broker.timers.fire()
        assert answer_of(pending, ApiKey.SYNC_GROUP, 2).error_code == ErrorCode.REBALANCE_IN_PROGRESS


async def test_with_flush_messages_answers_follow_the_flush() -> None:
    async with a_coordinator() as broker:
        broker.parts.topic_configs.set(OFFSETS_TOPIC, {"flush.messages": "1"})
        broker.parts.replicas.reconfigure(OFFSETS_TOPIC)
        log = broker.logs.get(OFFSETS)
        assert log is not None
        pending = commit_later(broker, {0: 5})
        assert not pending.is_answered
        assert committed(broker) == {}
        await broker.settled()
        assert commit_codes(pending) == [0]
        assert log.recovery_point == log.log_end_offset


async def test_a_batch_whose_flush_failed_takes_effect_when_a_later_flush_succeeds() -> None:
    async with a_coordinator() as broker:
        broker.parts.topic_configs.set(OFFSETS_TOPIC, {"flush.messages": "1"})
        broker.parts.replicas.reconfigure(OFFSETS_TOPIC)
        broker.disk.fail_while(lambda call, _path: call == "sync", errno.EMFILE)
        pending = commit_later(broker, {0: 5})
        await broker.settled()
        assert commit_codes(pending) == [ErrorCode.NOT_COORDINATOR]
        assert committed(broker) == {}
        broker.disk.heal()
        pending = commit_later(broker, {1: 6})
        await broker.settled()
        assert commit_codes(pending) == [0]
        assert committed(broker) == {("orders", 0): 5, ("orders", 1): 6}


async def test_too_few_in_sync_replicas_are_answered_coordinator_not_available() -> None:
    async with a_coordinator() as broker:
        broker.parts.topic_configs.set(OFFSETS_TOPIC, {"min.insync.replicas": "2"})
        broker.parts.replicas.reconfigure(OFFSETS_TOPIC)
        await in_sync(broker, ME, OTHER, epoch=1)
        broker.parts.replicas.resign_all()
        await broker.lead(OFFSETS_TOPIC, isr=(ME, OTHER), epoch=2)
        await in_sync(broker, ME, epoch=3)
        await broker.settled()
        assert commit(broker, {0: 5}) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert committed(broker) == {}


async def test_a_batch_too_large_for_the_topic_is_answered_by_kind_of_request() -> None:
    async with a_coordinator() as broker:
        joined = join(broker)
        broker.parts.topic_configs.set(OFFSETS_TOPIC, {"max.message.bytes": "100"})
        broker.parts.replicas.reconfigure(OFFSETS_TOPIC)
        answer = broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined))
        assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert commit(broker, {0: 5}, group_id="h") == [ErrorCode.INVALID_COMMIT_OFFSET_SIZE]


async def test_commits_fail_on_a_full_disk_and_succeed_afterwards() -> None:
    async with a_coordinator() as broker:
        broker.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)
        assert commit(broker, {0: 5}) == [ErrorCode.NOT_COORDINATOR]
        assert committed(broker) == {}
        broker.disk.heal()
        assert commit(broker, {0: 5}) == [0]


async def test_a_failed_log_directory_ends_the_coordination_of_its_groups() -> None:
    async with a_coordinator() as broker:
        first = a_stable_group(broker)
        second = pending_response(broker, ApiKey.JOIN_GROUP, 3, join_request())
        broker.disk.fail_while(lambda call, _path: call == "write", errno.EIO)
        assert commit(broker, {0: 5}, group_id="h") == [ErrorCode.NOT_COORDINATOR]
        assert answer_of(second, ApiKey.JOIN_GROUP, 3).error_code == ErrorCode.NOT_COORDINATOR
        assert heartbeat(broker, first) == ErrorCode.NOT_COORDINATOR
        memory = broker.parts.groups.memory
        assert (memory.held_bytes, memory.reclaimable_bytes) == (0, 0)


async def test_pending_requests_are_answered_when_the_broker_stops() -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        joining = pending_response(broker, ApiKey.JOIN_GROUP, 3, join_request())
        await in_sync(broker, ME, OTHER, epoch=1)
        committing = commit_later(broker, {0: 5}, group_id="h")
        broker.parts.replicas.resign_all()
        assert answer_of(joining, ApiKey.JOIN_GROUP, 3).error_code == ErrorCode.NOT_COORDINATOR
        assert commit_codes(committing) == [ErrorCode.NOT_COORDINATOR]
        assert fetch(broker).error_code == ErrorCode.NOT_COORDINATOR


# Restarts.


async def settle_group(broker: UnitBroker) -> dict[str, object]:
    """Two groups with a history; their state after it."""
    joined = a_stable_group(broker)
    for offset in range(5):
        assert commit(broker, {0: offset, 1: 10 * offset}, joined) == [0, 0]
    assert commit(broker, {2: 7}, group_id="simple") == [0]
    assert commit(broker, {1: 1}, group_id="doomed") == [0]
    answer = broker.ask(ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest(groups_names=["doomed"]))
    assert [result.error_code for result in answer.results] == [0]
    return durable(broker)


def durable(broker: UnitBroker) -> dict[str, object]:
    return {
        group.group_id: (
            group.state,
            group.generation_id,
            group.protocol_name,
            group.leader_id,
            [(member.member_id, member.assignment) for member in group.members.values()],
            dict(broker.parts.groups.offsets(group.group_id).items()),
        )
        for group in broker.parts.groups.groups()
    }


@pytest.mark.parametrize("slice_bytes", [1, 300, 5_242_880])
async def test_a_killed_broker_restores_its_groups(slice_bytes: int) -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        before = await settle_group(broker)
        assert before.keys() == {"g", "simple"}
    async with a_coordinator({"offsets.load.buffer.size": str(slice_bytes)}, disk=disk.killed()) as broker:
        assert durable(broker) == before


@pytest.mark.parametrize("codec", range(5))
async def test_records_are_written_with_the_configured_codec(codec: int) -> None:
    disk = ForgetfulDisk()
    async with a_coordinator({"offsets.topic.compression.codec": str(codec)}, disk=disk) as broker:
        before = await settle_group(broker)
    async with a_coordinator(disk=disk.killed()) as broker:
        assert durable(broker) == before


async def test_a_member_continues_after_a_restart_of_the_broker() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        joined = a_stable_group(broker)
    async with a_coordinator(disk=disk.killed()) as broker:
        broker.clock.ms += 9_999
        broker.timers.fire()
        assert heartbeat(broker, joined) == ErrorCode.NONE
        assert commit(broker, {0: 3}, joined) == [0]


async def test_while_groups_are_loaded_requests_are_answered_so() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        joined = a_stable_group(broker)
    async with a_broker(ONE_PARTITION, disk.killed()) as broker:
        await broker.lead("orders", 3)
        await broker.lead(OFFSETS_TOPIC)
        assert fetch(broker, 0).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert join(broker, joined.member_id).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert heartbeat(broker, joined) == ErrorCode.NONE
        answer = broker.ask(ApiKey.SYNC_GROUP, 2, sync_request(joined))
        assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert broker.parts.groups.groups() == []
        await broker.settled()
        assert heartbeat(broker, joined) == ErrorCode.NONE
        assert commit(broker, {0: 1}, joined) == [0]


@pytest.mark.parametrize("iterations", range(4))
async def test_leadership_that_ends_during_the_loading_leaves_no_groups(iterations: int) -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        a_stable_group(broker)
    async with a_broker(ONE_PARTITION, disk.killed()) as broker:
        await broker.lead(OFFSETS_TOPIC)
        for _ in range(iterations):
            await asyncio.sleep(0)
        was_loading = broker.parts.groups.is_loading
        broker.parts.replicas.resign_all()
        await broker.settled()
        assert fetch(broker, 0).error_code == ErrorCode.NOT_COORDINATOR
        assert broker.parts.groups.groups() == []
        assert not (was_loading and "groups loaded" in dict(broker.log.at("info")))


async def test_a_new_leadership_loads_what_is_written() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        assert commit(broker, {0: 4}, joined) == [0]
        broker.parts.replicas.resign_all()
        assert fetch(broker, 0).error_code == ErrorCode.NOT_COORDINATOR
        await broker.lead(OFFSETS_TOPIC, epoch=1)
        await broker.settled()
        assert committed(broker) == {("orders", 0): 4}
        assert heartbeat(broker, joined) == ErrorCode.NONE


async def test_the_end_of_another_partition_changes_no_group() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        broker.parts.replicas.stop_replica(TopicPartition("orders", 0), delete=False)
        assert heartbeat(broker, joined) == ErrorCode.NONE


async def test_a_new_leader_epoch_of_the_same_leader_keeps_pending_requests() -> None:
    async with a_coordinator() as broker:
        a_stable_group(broker)
        waiting = pending_response(broker, ApiKey.JOIN_GROUP, 3, join_request())
        await in_sync(broker, ME, epoch=1)
        assert not waiting.is_answered
        assert not broker.tasks


async def test_a_leader_loads_again_when_another_broker_may_have_led_since_its_last_epoch() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        waiting = pending_response(broker, ApiKey.JOIN_GROUP, 3, join_request())
        await in_sync(broker, ME, epoch=1)
        assert not waiting.is_answered
        await in_sync(broker, ME, epoch=3)
        assert answer_of(waiting, ApiKey.JOIN_GROUP, 3).error_code == ErrorCode.NOT_COORDINATOR
        await broker.settled()
        assert heartbeat(broker, joined) == ErrorCode.NONE
        assert [event for event, _ in broker.log.at("info")].count("groups loaded") == 1


# Time.


async def test_a_member_without_heartbeats_is_fenced() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        broker.timers.fire()
        broker.clock.ms += 10_000
        broker.timers.fire()
        assert heartbeat(broker, joined) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_heartbeat_extends_the_session() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        broker.timers.fire()
        broker.clock.ms += 9_000
        assert heartbeat(broker, joined) == ErrorCode.NONE
        broker.clock.ms += 1_000
        broker.timers.fire()
        assert [len(group.members) for group in broker.parts.groups.groups()] == [1]
        broker.clock.ms += 9_000
        broker.timers.fire()
        assert heartbeat(broker, joined) == ErrorCode.UNKNOWN_MEMBER_ID


async def test_after_a_stall_the_broker_reads_heartbeats_before_it_fences_members() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        broker.timers.fire()
        broker.clock.ms += 30_000  # A stall of three session timeouts.
        broker.timers.fire()
        broker.timers.fire()
        assert heartbeat(broker, joined) == ErrorCode.NONE  # It was in the socket.


# Expiry and deletion.


async def expire(broker: UnitBroker) -> None:
    """Run the next expiry check."""
    broker.timers.fire()
    await broker.settled()


async def test_offsets_of_a_simple_consumer_expire_a_week_after_their_commit() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        assert commit(broker, {0: 1}) == [0]
        broker.clock.ms += 10_080 * 60_000 - 1
        await expire(broker)
        assert committed(broker) == {("orders", 0): 1}
        broker.clock.ms += 1
        await expire(broker)
        assert committed(broker) == {}
        assert broker.parts.groups.groups() == []
    async with a_coordinator(disk=disk.killed()) as broker:
        assert committed(broker) == {}


async def test_an_old_client_sets_the_retention_of_its_offsets() -> None:
    async with a_coordinator() as broker:
        assert commit(broker, {0: 1}, version=4, retention_time_ms=5_000) == [0]
        broker.clock.ms += 4_999
        await expire(broker)
        assert committed(broker) == {("orders", 0): 1}
        broker.clock.ms += 1
        await expire(broker)
        assert committed(broker) == {}


async def test_an_empty_group_is_removed_with_its_last_offset() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        joined = a_stable_group(broker)
        assert commit(broker, {0: 1}, joined) == [0]
        broker.clock.ms += 10_080 * 60_000
        assert leave(broker, joined) == ErrorCode.NONE
        await expire(broker)
        assert committed(broker) == {("orders", 0): 1}  # The retention starts when the group becomes empty.
        broker.clock.ms += 10_080 * 60_000
        await expire(broker)
        assert broker.parts.groups.groups() == []
    async with a_coordinator(disk=disk.killed()) as broker:
        assert broker.parts.groups.groups() == []


async def test_an_empty_group_that_never_committed_is_removed_at_the_next_check() -> None:
    async with a_coordinator() as broker:
        assert leave(broker, a_stable_group(broker)) == ErrorCode.NONE
        assert [group.group_id for group in broker.parts.groups.groups()] == ["g"]
        await expire(broker)
        assert broker.parts.groups.groups() == []


async def test_an_offset_with_a_pending_commit_does_not_expire() -> None:
    async with a_coordinator() as broker:
        assert commit(broker, {0: 1}) == [0]
        broker.clock.ms += 10_080 * 60_000
        await in_sync(broker, ME, OTHER, epoch=1)
        pending = commit_later(broker, {0: 2})
        end = log_end(broker)
        await expire(broker)
        assert log_end(broker) == end
        await in_sync(broker, ME, epoch=2)
        assert pending.is_answered
        assert committed(broker) == {("orders", 0): 2}


async def test_a_broker_that_stops_checks_for_expired_offsets_no_longer() -> None:
    async with a_coordinator() as broker:
        assert commit(broker, {0: 1}) == [0]
        broker.parts.replicas.resign_all()
        broker.timers.fire()
        assert not broker.tasks
        await broker.lead(OFFSETS_TOPIC, epoch=1)
        await broker.settled()
        broker.clock.ms += 10_080 * 60_000
        await expire(broker)
        assert committed(broker) == {}


async def test_a_failed_commit_does_not_keep_the_previous_offset_from_expiring() -> None:
    async with a_coordinator() as broker:
        assert commit(broker, {0: 1}) == [0]
        broker.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)
        assert commit(broker, {0: 2}) == [ErrorCode.NOT_COORDINATOR]
        broker.disk.heal()
        broker.clock.ms += 10_080 * 60_000
        await expire(broker)
        assert committed(broker) == {}


async def test_offsets_of_topics_deleted_together_are_deleted() -> None:
    async with a_coordinator() as broker:
        await broker.lead("bills")
        assert commit(broker, {0: 1}) == [0]
        assert commit(broker, {0: 2}, topic="bills") == [0]
        for topic in ("bills", "orders"):
            gone = (DeletedPartition(TopicPartition(topic, 0), topic_id_of(topic)),)
            await broker.parts.receiver.receive(UpdateMetadata(ME, 1, -1, (), (), gone))
        await broker.settled()
        assert committed(broker) == {}


async def test_offsets_of_a_deleted_topic_are_deleted() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        await broker.lead("bills")
        joined = a_stable_group(broker)
        assert commit(broker, {0: 1}, joined) == [0]
        assert commit(broker, {0: 2}, joined, topic="bills") == [0]
        assert commit(broker, {0: 3}, topic="bills", group_id="simple") == [0]
        gone = (DeletedPartition(TopicPartition("bills", 0), topic_id_of("bills")),)
        await broker.parts.receiver.receive(UpdateMetadata(ME, 1, -1, (), (), gone))
        await broker.settled()
        assert committed(broker) == {("orders", 0): 1}
        assert [group.group_id for group in broker.parts.groups.groups()] == ["g"]
    async with a_coordinator(disk=disk.killed()) as broker:
        assert committed(broker) == {("orders", 0): 1}
        assert [group.group_id for group in broker.parts.groups.groups()] == ["g"]


async def test_a_pending_commit_does_not_outlive_its_topic() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        await broker.lead("bills")
        await in_sync(broker, ME, OTHER, epoch=1)
        on_its_way = commit_later(broker, {0: 1}, topic="bills")
        gone = (DeletedPartition(TopicPartition("bills", 0), topic_id_of("bills")),)
        await broker.parts.receiver.receive(UpdateMetadata(ME, 1, -1, (), (), gone))
        await broker.settled()
        await in_sync(broker, ME, epoch=2)
        assert commit_codes(on_its_way) == [0]
        assert broker.parts.groups.groups() == []
    async with a_coordinator(disk=disk.killed(), epoch=3) as broker:
        assert broker.parts.groups.groups() == []


async def test_a_deleted_group_does_not_return_with_a_pending_commit() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        assert commit(broker, {0: 1}) == [0]
        await in_sync(broker, ME, OTHER, epoch=1)
        on_its_way = commit_later(broker, {1: 1})
        deleting = pending_response(broker, ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest(groups_names=["g"]))
        await in_sync(broker, ME, epoch=2)
        assert commit_codes(on_its_way) == [0]
        assert [row.error_code for row in answer_of(deleting, ApiKey.DELETE_GROUPS, 1).results] == [0]
        assert broker.parts.groups.groups() == []
    async with a_coordinator(disk=disk.killed(), epoch=3) as broker:
        assert broker.parts.groups.groups() == []


async def test_a_restart_finds_nothing_of_a_deleted_group() -> None:
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        joined = a_stable_group(broker)
        assert commit(broker, {0: 1}, joined) == [0]
        assert leave(broker, joined) == ErrorCode.NONE
        answer = broker.ask(ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest(groups_names=["g"]))
        assert [result.error_code for result in answer.results] == [0]
    async with a_coordinator(disk=disk.killed()) as broker:
        assert broker.parts.groups.groups() == []


async def test_tombstones_take_as_many_batches_as_they_need() -> None:
    group_id = "g" * 30_000
    disk = ForgetfulDisk()
    async with a_coordinator(disk=disk) as broker:
        await broker.lead("wide", 40)
        assert commit(broker, dict.fromkeys(range(20), 1), topic="wide", group_id=group_id) == [0] * 20
        assert commit(broker, dict.fromkeys(range(20, 40), 1), topic="wide", group_id=group_id) == [0] * 20
        answer = broker.ask(ApiKey.DELETE_GROUPS, 1, DeleteGroupsRequest(groups_names=[group_id]))
        assert [result.error_code for result in answer.results] == [0]
        assert broker.parts.groups.groups() == []
    async with a_coordinator(disk=disk.killed()) as broker:
        assert broker.parts.groups.groups() == []


async def test_nothing_is_kept_of_groups_named_in_refused_requests() -> None:
    async with a_coordinator() as broker:
        chance = random.Random(1)
        for number in range(50):
            ghost = join_request(f"ghost-{number}", group_id=f"ghost-{number}")
            assert broker.ask(ApiKey.JOIN_GROUP, 3, ghost).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert committed(broker, f"ghost-{chance.random()}") == {}
        assert broker.parts.groups.groups() == []


async def test_a_commit_to_a_group_with_members_has_to_be_from_a_member() -> None:
    async with a_coordinator() as broker:
        joined = a_stable_group(broker)
        assert commit(broker, {0: 1}) == [ErrorCode.UNKNOWN_MEMBER_ID]
        stale = commit_request({0: 1}, joined)
        stale.generation_id_or_member_epoch = 7
        answer = broker.ask(ApiKey.OFFSET_COMMIT, 7, stale)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
        stale.group_id = "unheard of"
        answer = broker.ask(ApiKey.OFFSET_COMMIT, 7, stale)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION
