"""Consumer groups (KIP-848) on a partition of __consumer_offsets: what is written, committed, loaded and limited."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from sordini.broker.groups.consumer import groups
from sordini.broker.groups.consumer.machine import record_formats
from sordini.broker.groups.consumer.machine.changes import SubscriptionChange, assignment_of
from sordini.broker.groups.consumer.machine.state import ConsumerMember
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from sordini.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from sordini.protocol.messages.delete_groups import DeleteGroupsRequest
from sordini.protocol.messages.heartbeat import HeartbeatRequest
from sordini.protocol.messages.join_group import JoinGroupRequestProtocol
from sordini.protocol.messages.list_groups import ListGroupsRequest
from tests.support.consumer_group_world import subscription
from tests.support.group_requests import a_coordinator, a_stable_group, commit, committed, fetch, join
from tests.support.unit_broker import ME, OTHER, UnitBroker, answer_of, topic_id_of
from tests.unit.broker.groups.test_coordinator import expire, in_sync, log_end
from tests.unit.broker.groups.test_loading import append, batch_of

AT_ONCE = {"group.consumer.assignment.interval.ms": "0"}
BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT


def beat_request(member: str = "a", epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    whole: dict[str, Any] = {}
    if epoch == 0:
        whole = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["orders"], "topic_partitions": []}
    named: dict[str, Any] = {"group_id": "g", "member_id": member, "member_epoch": epoch}
    return ConsumerGroupHeartbeatRequest(**{**named, **whole, **fields})


def beat(broker: UnitBroker, member: str = "a", epoch: int = 0, **fields: Any) -> Any:
    """The answer to a heartbeat that is answered at once; a member of epoch 0 joins."""
    return broker.ask(BEAT, 1, beat_request(member, epoch, **fields))


def beat_later(broker: UnitBroker, member: str = "a", epoch: int = 0, **fields: Any) -> DelayedResponse:
    pending = broker.serve(BEAT, 1, beat_request(member, epoch, **fields))
    assert isinstance(pending, DelayedResponse)
    return pending


def indexes(answer: Any) -> list[int] | None:
    """The partitions of an answer; None without an assignment."""
    if answer.assignment is None:
        return None
    return sorted(index for row in answer.assignment.topic_partitions for index in row.partitions)


def described(broker: UnitBroker) -> Any:
    answer = broker.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest(group_ids=["g"]))
    return answer.groups[0]


async def loaded_again(broker: UnitBroker, epoch: int = 1) -> None:
    broker.parts.replicas.resign_all()
    await broker.lead("orders", 3, epoch=epoch)
    await broker.lead(OFFSETS_TOPIC, epoch=epoch)
    await broker.settled()


# The log.


async def test_a_group_that_is_loaded_again_has_its_members_epochs_and_partitions() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        assert indexes(beat(broker, "a")) == [0, 1, 2]
        assert indexes(beat(broker, "b", instance_id="i", rack_id="r", server_assignor="range")) == []
        before = described(broker)
        await loaded_again(broker)
        assert described(broker) == before
        assert beat(broker, "a", 2).error_code == ErrorCode.NONE
        refused = beat(broker, "a", 9)
        assert (refused.error_code, refused.member_id) == (ErrorCode.FENCED_MEMBER_EPOCH, None)


async def test_a_regular_expression_that_was_not_resolved_yet_is_resolved_after_the_group_is_loaded_again() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
        await loaded_again(broker)  # Before anything could resolve it.
        assert indexes(beat(broker, "a", 1)) is None
        await broker.settled()
        assert indexes(beat(broker, "a", 1)) == [0, 1, 2]


async def test_a_regular_expression_is_resolved_again_when_topics_are_created() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
        await broker.settled()
        assert indexes(beat(broker, "a", 1)) == [0, 1, 2]
        await broker.lead("orders-of-today")
        beat(broker, "a", 2)
        await broker.settled()
        assert indexes(beat(broker, "a", 2)) == [0, 0, 1, 2]


async def test_a_step_that_cannot_be_written_has_not_happened() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        before = described(broker)
        broker.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)
        assert beat(broker, "b").error_code == ErrorCode.NOT_COORDINATOR
        assert beat(broker, "a", -1).error_code == ErrorCode.NOT_COORDINATOR
        broker.disk.heal()
        assert described(broker) == before
        assert beat(broker, "b").member_epoch == 3


async def test_no_answer_says_what_the_in_sync_replicas_do_not_have() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        await in_sync(broker, ME, OTHER, epoch=1)
        joining = beat_later(broker, "b")
        steady = beat_later(broker, "a", 2)
        assert (joining.parts, steady.parts) == (None, None), "the second says that partitions are to be given up"
        await in_sync(broker, ME, epoch=2)
        assert answer_of(joining, BEAT, 1).member_epoch == 3
        assert indexes(answer_of(steady, BEAT, 1)) == [0, 1]


async def test_requests_that_wait_for_the_commit_are_answered_not_coordinator_when_another_broker_leads() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        await in_sync(broker, ME, OTHER, epoch=1)
        joining, again = beat_later(broker, "a"), beat_later(broker, "a", 2)
        broker.parts.replicas.resign_all()
        assert answer_of(joining, BEAT, 1).error_code == ErrorCode.NOT_COORDINATOR
        assert answer_of(again, BEAT, 1).error_code == ErrorCode.NOT_COORDINATOR
        assert beat(broker, "a").error_code == ErrorCode.NOT_COORDINATOR
        assert broker.parts.groups.memory.held_bytes == 0


async def test_a_regular_expression_of_another_broker_that_is_refused_here_matches_nothing() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        member = ConsumerMember("a", subscribed_regex="(", rebalance_timeout_ms=1_000, epoch=1)
        written = (SubscriptionChange("a", member), assignment_of(member))
        append(broker, batch_of([record_formats.written("g", change) for change in written]))
        await loaded_again(broker)
        beat(broker, "a", 1)
        await broker.settled()
        assert beat(broker, "a", 1).error_code == ErrorCode.NONE
        assert [member.subscribed_topic_regex for member in described(broker).members] == ["("]


# Either kind.


async def test_a_classic_group_without_members_becomes_a_consumer_group_and_keeps_its_offsets() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        assert commit(broker, {0: 5}) == [0]
        assert indexes(beat(broker, "a")) == [0, 1, 2]
        await loaded_again(broker)
        assert committed(broker) == {("orders", 0): 5}
        listed = broker.ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest()).groups
        assert [(group.group_id, group.group_type) for group in listed] == [("g", "consumer")]


async def test_members_of_both_protocols_live_on_when_the_group_is_loaded_again() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        classic = a_stable_group(broker)
        assert beat(broker, "b").error_code == ErrorCode.GROUP_ID_NOT_FOUND, "its assignment cannot be read"
        assert described(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert broker.ask(ApiKey.HEARTBEAT, 4, beat_of(classic)).error_code == ErrorCode.NONE


async def test_a_classic_member_of_a_consumer_group_is_known_by_its_generation_after_it_is_loaded_again() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        classic = join(broker, "c")
        assert (classic.error_code, classic.generation_id, classic.leader) == (ErrorCode.NONE, 3, "")
        await loaded_again(broker)
        assert broker.ask(ApiKey.HEARTBEAT, 4, beat_of(classic)).error_code == ErrorCode.NONE
        [described_classic] = [member for member in described(broker).members if member.member_id == "c"]
        assert described_classic.member_type == 0


def beat_of(joined: Any) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)


async def test_a_deletion_that_is_not_committed_when_another_broker_leads_is_answered_not_coordinator() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        beat(broker, "a", -1)
        await in_sync(broker, ME, OTHER, epoch=1)
        pending = broker.serve(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
        assert isinstance(pending, DelayedResponse)
        broker.parts.replicas.resign_all()
        answer = answer_of(pending, ApiKey.DELETE_GROUPS, 2)
        assert answer.results[0].error_code == ErrorCode.NOT_COORDINATOR


async def test_an_empty_group_is_deleted_with_its_offsets_and_stays_deleted() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        assert commit(broker, {0: 5}, version=9, joined=Epoch("a", 2)) == [0]
        assert deleted(broker) == ErrorCode.NON_EMPTY_GROUP
        beat(broker, "a", -1)
        assert deleted(broker) == ErrorCode.NONE
        await loaded_again(broker)
        assert described(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert committed(broker) == {}
        assert broker.parts.groups.memory.held_bytes == 0


async def test_offsets_of_topics_that_a_member_subscribes_to_do_not_expire() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        await broker.lead("payments", 1)
        beat(broker, "a", subscribed_topic_names=["orders", "payments"])
        joined = Epoch("a", 2)
        assert commit(broker, {0: 5}, version=9, joined=joined) == [0]
        assert commit(broker, {0: 6}, version=9, joined=joined, topic="payments") == [0]
        beat(broker, "a", 2, subscribed_topic_names=["orders"])
        broker.clock.ms += 7 * 24 * 3_600_000
        await expire(broker)
        assert committed(broker) == {("orders", 0): 5}


async def test_no_offsets_expire_while_a_regular_expression_of_a_member_is_not_resolved() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        assert commit(broker, {0: 5}) == [0]
        broker.clock.ms += 7 * 24 * 3_600_000
        beat(broker, "a", subscribed_topic_names=None, subscribed_topic_regex="ord.*")
        broker.parts.groups.runtime.loaded_shard("g").state.expire("g")
        await broker.settled()
        broker.parts.groups.runtime.loaded_shard("g").state.expire("g")
        assert committed(broker) == {("orders", 0): 5}


class Epoch:
    """What a commit needs of a member."""

    def __init__(self, member_id: str, generation_id: int) -> None:
        self.member_id = member_id
        self.generation_id = generation_id


def deleted(broker: UnitBroker) -> int:
    answer = broker.ask(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=["g"]))
    code: int = answer.results[0].error_code
    return code


# Limits.


async def test_a_subscription_of_too_many_names_is_refused() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        names = [f"t{number}" for number in range(10_001)]
        pending = broker.serve(BEAT, 1, beat_request("a", subscribed_topic_names=names))
        assert isinstance(pending, DelayedResponse)
        await broker.settled()
        answer = answer_of(pending, BEAT, 1)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message == "SubscribedTopicNames has 10001: 10000 are allowed."


async def test_a_classic_member_whose_subscription_has_too_many_rows_is_refused() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        metadata = subscription([f"t{number}" for number in range(20_001)], {})
        protocols = [JoinGroupRequestProtocol(name="range", metadata=metadata)]
        assert join(broker, "c", protocols=protocols).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


async def test_a_member_for_which_there_is_no_memory_is_refused_and_those_that_are_there_stay() -> None:
    async with a_coordinator({**AT_ONCE, "sordini.group.memory.bytes.max": "8000"}) as broker:
        assert beat(broker, "a").error_code == ErrorCode.NONE
        codes = [beat(broker, f"m{number}").error_code for number in range(6)]
        assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert broker.parts.groups.memory.held_bytes <= 8_000 + 6 * 700
        assert beat(broker, "a", 2).error_code == ErrorCode.NONE


async def test_a_member_s_subscription_does_not_grow_beyond_the_memory_limit() -> None:
    async with a_coordinator({**AT_ONCE, "sordini.group.memory.bytes.max": "20000"}) as broker:
        beat(broker, "a")
        larger = [f"{'t' * 200}-{number}" for number in range(100)]
        assert beat(broker, "a", 2, subscribed_topic_names=larger).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert beat(broker, "a", 2, subscribed_topic_names=["orders"]).error_code == ErrorCode.NONE
        assert broker.parts.groups.memory.held_bytes <= 20_000


@pytest.mark.parametrize("field", ["rack_id", "instance_id"])
async def test_the_rack_and_the_instance_of_members_count_and_are_limited(field: str) -> None:
    async with a_coordinator({**AT_ONCE, "sordini.group.memory.bytes.max": "100000"}) as broker:
        said = [{field: f"{number}" * 30_000} for number in range(4)]
        codes = [beat(broker, f"m{number}", **fields).error_code for number, fields in enumerate(said)]
        assert codes == [*[ErrorCode.NONE] * 3, ErrorCode.GROUP_MAX_SIZE_REACHED]
        assert 90_000 < broker.parts.groups.memory.held_bytes <= 100_000


async def test_partitions_of_one_topic_may_be_reported_in_several_rows() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        beat(broker, "b")
        topic_id = topic_id_of("orders")
        rows = [TopicPartitions(topic_id=topic_id, partitions=[index]) for index in (0, 1, 2)]
        assert indexes(beat(broker, "a", 2, topic_partitions=rows)) == [0, 1], "the last row is to be given up"
        assert beat(broker, "a", 2, topic_partitions=rows).member_epoch == 2, "it is not given up yet"
        assert beat(broker, "a", 2, topic_partitions=rows[:2]).member_epoch == 3


async def test_a_member_that_is_there_does_not_grow_beyond_the_memory_limit_by_another_rack_or_client_id() -> None:
    async with a_coordinator({**AT_ONCE, "sordini.group.memory.bytes.max": "20000"}) as broker:
        beat(broker, "a")
        assert beat(broker, "a", 2, rack_id="r" * 30_000).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        refused = broker.ask(BEAT, 1, beat_request("a", 2), client_id="c" * 30_000)
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert beat(broker, "a", 2).error_code == ErrorCode.NONE
        assert beat(broker, "a", -1, rack_id="r" * 30_000).error_code == ErrorCode.NONE, "it may leave"


async def test_the_metadata_of_classic_members_counts_and_is_limited() -> None:
    async with a_coordinator({**AT_ONCE, "sordini.group.memory.bytes.max": "20000"}) as broker:
        beat(broker, "a")
        before = broker.parts.groups.memory.held_bytes
        metadata = subscription(["orders"], {})
        assert join(broker, "c", protocols=padded(metadata, 4_000)).error_code == ErrorCode.NONE
        assert broker.parts.groups.memory.held_bytes - before > 4_000
        codes = [join(broker, f"c{number}", protocols=padded(metadata, 4_000)).error_code for number in range(4)]
        assert codes[-1] == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert broker.parts.groups.memory.held_bytes <= 20_000


def padded(metadata: bytes, size: int) -> list[JoinGroupRequestProtocol]:
    """A protocol whose metadata has more bytes behind the subscription."""
    return [JoinGroupRequestProtocol(name="range", metadata=metadata + bytes(size))]


async def test_memory_is_released_with_the_members() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        for member in "abc":
            beat(broker, member)
        for member in "abc":
            beat(broker, member, -1)
        assert fetch(broker).error_code == ErrorCode.NONE
        assert deleted(broker) == ErrorCode.NONE
        assert broker.parts.groups.memory.held_bytes == 0


async def test_an_assignment_that_takes_long_is_computed_beside_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "STEPS_AT_ONCE", 1)
    async with a_coordinator(AT_ONCE) as broker:
        assert indexes(beat(broker, "a")) == []
        assert described(broker).group_state == "Assigning"
        for _ in range(20):
            await asyncio.sleep(0)
        assert indexes(beat(broker, "a", 1)) == [0, 1, 2]


async def test_with_offloading_disabled_an_assignment_is_computed_in_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "STEPS_AT_ONCE", 1)
    async with a_coordinator({**AT_ONCE, "group.consumer.assignor.offload.enable": "false"}) as broker:
        assert indexes(beat(broker, "a")) == [0, 1, 2]


async def test_a_member_is_fenced_when_its_session_has_ended_and_its_partitions_are_assigned_to_others() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        beat(broker, "b")
        broker.clock.ms += 30_000
        assert beat(broker, "b", 3).error_code == ErrorCode.NONE
        broker.clock.ms += 15_000
        broker.timers.fire()
        assert beat(broker, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert indexes(beat(broker, "b", 3)) == [0, 1, 2]
        assert [fields["reason"] for event, fields in broker.log.at("info") if event == "member fenced"] == [
            "session expired"
        ]


async def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        end = log_end(broker)
        for _ in range(3):
            assert indexes(beat(broker, "a", 2)) is None
        assert log_end(broker) == end


async def test_a_stall_of_the_broker_fences_no_member_whose_heartbeat_waits_in_its_socket() -> None:
    async with a_coordinator(AT_ONCE) as broker:
        beat(broker, "a")
        broker.clock.ms += 60_000
        for _ in range(3):
            broker.timers.fire()
        assert beat(broker, "a", 2).error_code == ErrorCode.NONE
