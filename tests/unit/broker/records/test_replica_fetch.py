"""What a leader answers to its followers, and what it learns from their questions."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.request_checks import InterBrokerGuard
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import PartitionInfo, PartitionState
from sordini.replication.partition import Partition
from sordini.replication.replica_throttling import ReplicaQuota
from tests.support.fake_ports import StillClock
from tests.support.replica_pair import LeaderSide, topic_id_of
from tests.support.unit_broker import Timers, a_peer, read_answer

ME, OTHER, THIRD, STRANGER = (BrokerId(number) for number in (1, 2, 3, 9))
ALL = (ME, OTHER, THIRD)
NAME = TopicPartition("orders", 0)
PLENTY = 1_000_000


class Side(LeaderSide):
    """The leader of `orders`, on a still clock, whose timers a test fires."""

    def __init__(self, **options: Any) -> None:
        self.clock = StillClock()
        self.timers = Timers()
        super().__init__(ME, self.clock, call_later=self.timers.call_later, **options)

    def lead(
        self,
        index: int = 0,
        *,
        epoch: int = 0,
        isr: tuple[BrokerId, ...] = ALL,
        leader: BrokerId = ME,
        topic: str = "orders",
    ) -> Partition:
        name = TopicPartition(topic, index)
        self.topics[topic_id_of(topic)] = topic
        state = PartitionState(leader, LeaderEpoch(epoch), isr, 1)
        self.replicas.become_leader_or_follower(PartitionInfo(name, topic_id_of(topic), ALL, state, epoch, is_new=True))
        return self.replicas.partition(*name)

    def serve(self, key: ApiKey, version: int, request: Any, *, listener: str = "PLAINTEXT") -> Any:
        frame = bytearray(request_header(APIS[key], version, 77, "test") + codecs.encode(request, version))
        return self.dispatcher.serve(a_peer(listener), memoryview(frame))

    def ask(self, key: ApiKey, version: int, request: Any, **how: Any) -> Any:
        parts = self.serve(key, version, request, **how)
        assert isinstance(parts, list), f"not answered at once: {parts}"
        return read_answer(key, version, parts)

    def fetch(self, *requests_of: FetchPartition, replica: BrokerId = OTHER, version: int = 17, **fields: Any) -> Any:
        return self.ask(ApiKey.FETCH, version, a_fetch(*requests_of, replica=replica, version=version, **fields))

    def park(self, *requests_of: FetchPartition, version: int = 17, **fields: Any) -> DelayedResponse:
        request = a_fetch(*requests_of, version=version, max_wait_ms=500, min_bytes=1, **fields)
        pending = self.serve(ApiKey.FETCH, version, request)
        assert isinstance(pending, DelayedResponse)
        return pending


def requested(offset: int = 0, index: int = 0, *, epoch: int = 0, **fields: Any) -> FetchPartition:
    return FetchPartition(
        partition=index, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=PLENTY, **fields
    )


def a_fetch(*requests_of: FetchPartition, replica: BrokerId = OTHER, version: int = 17, **fields: Any) -> FetchRequest:
    who = {"replica_state": ReplicaState(replica_id=replica)} if version >= 15 else {"replica_id": replica}
    topics = (
        [FetchTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=list(requests_of))]
        if requests_of
        else []
    )
    return FetchRequest(topics=topics, **who, **fields)


def only(answer: Any) -> PartitionData:
    ((row,),) = [topic.partitions for topic in answer.responses]
    return row


def answer_of(pending: DelayedResponse, version: int = 17) -> Any:
    assert pending.parts is not None
    return read_answer(ApiKey.FETCH, version, pending.parts)


@pytest.mark.parametrize("version", [11, 12, 13, 15, 17, 18])
async def test_a_follower_reads_to_the_end_of_the_log_and_a_client_to_the_high_watermark(version: int) -> None:
    side = Side()
    side.lead()
    side.append()
    row = only(side.fetch(requested(), version=version))
    assert (row.error_code, row.high_watermark, len(row.records) > 0) == (0, 0, True)
    row = only(
        side.fetch(requested(), version=version, replica=BrokerId(-1)) if version < 15 else client(side, version)
    )
    assert (row.error_code, row.high_watermark, len(row.records)) == (0, 0, 0)


def client(side: Side, version: int) -> Any:
    request = FetchRequest(
        topics=[FetchTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=[requested()])]
    )
    return side.ask(ApiKey.FETCH, version, request)


async def test_the_second_fetch_is_answered_with_the_watermark_that_follows_from_it() -> None:
    side = Side()
    side.lead(isr=(ME, OTHER))
    side.append()
    assert only(side.fetch(requested(0))).high_watermark == 0
    row = only(side.fetch(requested(3)))
    assert (row.high_watermark, len(row.records)) == (3, 0)


async def test_the_watermark_is_held_by_the_slowest_in_sync_follower() -> None:
    side = Side()
    side.lead()
    side.append()
    assert only(side.fetch(requested(3), replica=OTHER)).high_watermark == 0
    assert only(side.fetch(requested(0), replica=THIRD)).high_watermark == 0
    assert only(side.fetch(requested(3), replica=THIRD)).high_watermark == 3


async def test_a_held_fetch_is_woken_by_the_append_itself_although_the_watermark_stands_still() -> None:
    side = Side()
    partition = side.lead()
    pending = side.park(requested(0))
    assert [timer.seconds for timer in side.timers.waiting] == [0.5]
    side.append()
    row = only(answer_of(pending))
    assert (row.high_watermark, len(row.records) > 0) == (0, True)
    assert (side.timers.waiting, partition.log_end_waiters.purgatory) == ([], {})


async def test_a_held_fetch_with_nothing_new_is_answered_when_its_time_is_up() -> None:
    side = Side()
    side.lead()
    pending = side.park(requested(0))
    side.timers.fire()
    assert len(only(answer_of(pending)).records) == 0


async def test_a_new_watermark_alone_completes_no_delayed_fetch_and_is_in_the_next_answer() -> None:
    side = Side()
    side.lead()
    side.append()
    pending = side.park(requested(3), replica=OTHER)
    side.fetch(requested(3), replica=THIRD)
    assert not pending.is_answered
    side.timers.fire()
    assert only(answer_of(pending)).high_watermark == 3


async def test_only_the_question_counts_and_not_the_later_reading() -> None:
    side = Side()
    partition = side.lead()
    side.append()
    side.park(requested(3))
    replica = partition.leader.replicas[OTHER]
    came_ms = side.clock.ms
    assert (replica.caught_up_ms, replica.fetched_ms) == (came_ms, came_ms)
    side.clock.ms += 400
    side.append()
    assert (replica.caught_up_ms, replica.fetched_ms, replica.end_offset) == (came_ms, came_ms, 3)
    assert replica.leader_end == 3, "the leader's log end at the fetch"


async def test_a_delayed_follower_fetch_is_answered_when_the_leader_resigns() -> None:
    side = Side()
    side.lead()
    pending = side.park(requested(0))
    side.lead(epoch=1, leader=OTHER)
    assert only(answer_of(pending)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_former_leaders_refusal_names_the_current_leader() -> None:
    side = Side()
    side.lead()
    side.lead(epoch=1, leader=OTHER)
    for epoch, code in ((0, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)):
        row = only(side.fetch(requested(0, epoch=epoch), replica=THIRD))
        assert row.error_code == code
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (OTHER, 1)


# Authorization of followers.


@pytest.mark.parametrize("version", [12, 16])
async def test_a_broker_that_holds_no_replica_is_refused(version: int) -> None:
    side = Side()
    side.lead()
    side.append()
    row = only(side.fetch(requested(), replica=STRANGER, version=version))
    assert (row.error_code, len(row.records)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


async def test_followers_fetch_on_the_listener_of_brokers_only() -> None:
    side = Side(check=InterBrokerGuard("BROKERS", a_peer(), is_clustered=True).check_listener)
    partition = side.lead(isr=(ME, OTHER))
    side.append()
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for version in (12, 17):
        answer = side.ask(ApiKey.FETCH, version, a_fetch(requested(3), version=version), listener="CLIENTS")
        assert (answer.error_code, only(answer).error_code) == (refused, refused)
    assert partition.leader.high_watermark == 0
    assert only(side.ask(ApiKey.FETCH, 17, a_fetch(requested(3)), listener="BROKERS")).high_watermark == 3


@pytest.mark.parametrize("listener", ["CLIENTS", "BROKERS"])
async def test_where_the_log_ends_a_follower_learns_on_every_listener_and_moves_nothing(listener: str) -> None:
    """As with Apache Kafka: these requests change nothing, so a replica id in them gives no power."""
    side = Side(check=InterBrokerGuard("BROKERS", a_peer(), is_clustered=True).check_listener)
    partition = side.lead(isr=(ME, OTHER))
    side.append()
    ends = ListOffsetsRequest(replica_id=OTHER, topics=[ListOffsetsTopic(name="orders", partitions=[an_end()])])
    found = side.ask(ApiKey.LIST_OFFSETS, 9, ends, listener=listener).topics[0].partitions[0]
    assert (found.error_code, found.offset) == (0, 3)
    answer = side.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, an_epoch_question(0), listener=listener)
    assert (answer.topics[0].partitions[0].error_code, answer.topics[0].partitions[0].end_offset) == (0, 3)
    assert partition.leader.high_watermark == 0


@pytest.mark.parametrize(("epoch", "code"), [(4, ErrorCode.FENCED_LEADER_EPOCH), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)])
async def test_a_follower_of_another_term_is_refused_and_counts_for_nothing(epoch: int, code: ErrorCode) -> None:
    side = Side()
    partition = side.lead(epoch=5, isr=(ME, OTHER))
    side.append()
    row = only(side.fetch(requested(3, epoch=epoch)))
    assert row.error_code == code
    assert partition.leader.high_watermark == 0
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (ME, 5)


async def test_a_fetch_without_an_epoch_reads_and_counts_for_nothing() -> None:
    side = Side()
    partition = side.lead(isr=(ME, OTHER))
    side.append()
    row = only(side.fetch(requested(0, epoch=-1)))
    assert (row.error_code, len(row.records) > 0) == (0, True)
    side.fetch(requested(3, epoch=-1))
    assert partition.leader.high_watermark == 0


# Where logs part.


@pytest.mark.parametrize(
    ("offset", "epoch", "expected"),
    [
        (3, 1, None),
        (4, 1, (1, 3)),
        (6, 3, (1, 3)),
        (2, 0, (0, 0)),
        (6, 5, None),
        (7, 5, (5, 6)),
    ],
)
async def test_a_follower_gets_the_exact_diverging_epoch_and_its_end_offset(
    offset: int, epoch: int, expected: tuple[int, int] | None
) -> None:
    side = Side()
    side.lead(epoch=1, isr=(ME, OTHER))
    side.append()
    partition = side.lead(epoch=5, isr=(ME, OTHER))
    side.append()
    before = partition.leader.replicas[OTHER].end_offset
    row = only(side.fetch(requested(offset, epoch=5, last_fetched_epoch=epoch)))
    found = row.diverging_epoch
    assert (None if found is None else (found.epoch, found.end_offset)) == expected
    assert row.error_code == 0
    if expected is not None:
        assert len(row.records) == 0
        assert partition.leader.replicas[OTHER].end_offset == before, "its log does not have that offset"


# Partitions without news.


async def a_session_of(side: Side, *offsets: int) -> int:
    answer = side.fetch(*(requested(offset, index) for index, offset in enumerate(offsets)), session_epoch=0)
    return answer.session_id


async def test_a_partition_without_news_is_passed_over_and_still_waited_for() -> None:
    side = Side()
    quiet, other = side.lead(0, isr=(ME, OTHER)), side.lead(1, isr=(ME, OTHER))
    number = await a_session_of(side, 0, 0)
    side.fetch(session_id=number, session_epoch=1)
    replica = quiet.leader.replicas[OTHER]
    noted_ms = replica.caught_up_ms
    side.clock.ms += 499
    pending = side.park(session_id=number, session_epoch=2)
    assert replica.caught_up_ms == noted_ms, "passed over"
    side.append()
    assert [row.partition_index for row in answer_of(pending).responses[0].partitions] == [0]
    side.clock.ms += 2
    side.park(requested(3, 0), session_id=number, session_epoch=3)
    assert other.leader.replicas[OTHER].caught_up_ms == side.clock.ms, "now all were looked at"


async def test_a_session_checks_an_idle_partition_again_and_sends_its_new_log_start_offset() -> None:
    side = Side()
    partition = side.lead(isr=(ME, OTHER))
    side.append()
    number = await a_session_of(side, 3)
    side.fetch(session_id=number, session_epoch=1)
    partition.log.advance_log_start(2)
    side.clock.ms += 500
    assert only(side.fetch(session_id=number, session_epoch=2)).log_start_offset == 2


async def test_a_topic_that_does_not_exist_ends_no_wait_for_partitions_that_are_passed_over() -> None:
    side = Side()
    side.lead(isr=(ME, OTHER))
    number = await a_session_of(side, 0)
    request = a_fetch(session_id=number, session_epoch=1, max_wait_ms=500, min_bytes=1)
    request.topics = [FetchTopic(topic_id=TopicId(b"\x09" * 16), partitions=[requested(0)])]
    pending = side.serve(ApiKey.FETCH, 17, request)
    assert isinstance(pending, DelayedResponse)
    again = side.park(session_id=number, session_epoch=2)
    side.append()
    for answered in (pending, again):
        codes = [topic.partitions[0].error_code for topic in answer_of(answered).responses]
        assert sorted(codes) == [0, ErrorCode.UNKNOWN_TOPIC_ID]


async def test_divergence_is_found_in_a_topic_that_its_leader_learns_of_while_the_fetch_waits() -> None:
    side = Side()
    side.lead(isr=(ME, OTHER))
    later = FetchTopic(topic_id=topic_id_of("later"), partitions=[requested(2, epoch=5, last_fetched_epoch=1)])
    request = a_fetch(requested(0), max_wait_ms=500, min_bytes=1)
    request.topics.append(later)
    pending = side.serve(ApiKey.FETCH, 17, request)
    assert isinstance(pending, DelayedResponse)
    learned = side.lead(epoch=5, isr=(ME, OTHER), topic="later")
    side.append(3, learned.name)
    side.append()
    rows = {topic.topic_id: topic.partitions[0] for topic in answer_of(pending).responses}
    assert rows[topic_id_of("orders")].records
    row = rows[topic_id_of("later")]
    assert row.diverging_epoch.end_offset == 0, "the follower has records of an epoch that this log does not have"
    assert not row.records
    assert learned.leader.replicas[OTHER].end_offset != 2, "what diverges is not replicated"


async def test_a_new_term_is_never_passed_over() -> None:
    side = Side()
    side.lead(isr=(ME, OTHER))
    number = await a_session_of(side, 0)
    side.fetch(session_id=number, session_epoch=1)
    side.lead(epoch=1, isr=(ME, OTHER))
    assert only(side.fetch(session_id=number, session_epoch=2)).error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_new_question_is_never_passed_over() -> None:
    side = Side()
    partition = side.lead(isr=(ME, OTHER))
    side.append()
    number = await a_session_of(side, 3)
    side.fetch(session_id=number, session_epoch=1)
    side.fetch(requested(0), session_id=number, session_epoch=2)
    assert partition.leader.replicas[OTHER].end_offset == 0


async def test_a_watermark_that_was_not_sent_yet_is_in_the_next_answer() -> None:
    side = Side()
    side.lead()
    side.append()
    number = await a_session_of(side, 3)
    side.fetch(session_id=number, session_epoch=1)
    side.fetch(requested(3), replica=THIRD)
    assert only(side.fetch(session_id=number, session_epoch=2)).high_watermark == 3


# Throttles (KIP-73).


async def test_a_throttled_follower_that_is_not_in_sync_waits_and_one_that_is_gets_its_records() -> None:
    quota = ReplicaQuota(lambda name: name == NAME)
    quota.limit(10)
    side = Side(quota=quota)
    side.lead(0, isr=(ME, OTHER))
    side.lead(1, isr=(ME, OTHER))
    side.append()
    side.append(name=TopicPartition("orders", 1))
    assert len(only(side.fetch(requested(0), replica=THIRD)).records) > 0, "the rate is measured from what was sent"
    pending = side.park(requested(0), replica=THIRD)
    side.timers.fire()
    assert len(only(answer_of(pending)).records) == 0
    assert len(only(side.fetch(requested(0), replica=OTHER)).records) > 0
    assert len(only(side.fetch(requested(0, 1), replica=THIRD)).records) > 0, "not listed"
    side.clock.ms += 60_000
    assert len(only(side.fetch(requested(0), replica=THIRD)).records) > 0


# Offsets.


def an_end(timestamp: int = -1, **fields: int) -> ListOffsetsPartition:
    return ListOffsetsPartition(partition_index=0, timestamp=timestamp, **fields)


def an_epoch_question(epoch: int) -> OffsetForLeaderEpochRequest:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=epoch)
    return OffsetForLeaderEpochRequest(
        replica_id=OTHER, topics=[OffsetForLeaderTopic(topic="orders", partitions=[asked])]
    )


def listed(side: Side, timestamp: int, replica: int, version: int = 9) -> tuple[int, int]:
    request = ListOffsetsRequest(
        replica_id=replica, topics=[ListOffsetsTopic(name="orders", partitions=[an_end(timestamp)])]
    )
    row = side.ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions[0]
    return row.error_code, row.offset


async def test_the_latest_offset_is_the_log_end_for_a_follower_and_the_watermark_for_a_client() -> None:
    side = Side()
    side.lead()
    side.append()
    assert (listed(side, -1, OTHER), listed(side, -1, -1)) == ((0, 3), (0, 0))


async def test_a_follower_gets_the_end_offset_of_an_epoch() -> None:
    side = Side()
    side.lead()
    side.append()
    answer = side.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, an_epoch_question(0))
    assert answer.topics[0].partitions[0].end_offset == 3


async def test_the_latest_offset_is_not_available_while_the_watermark_is_below_the_start_of_the_leader_epoch() -> None:
    side = Side()
    side.lead()
    side.append(timestamp=1000)
    side.lead(epoch=1)
    late = (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
    assert listed(side, -1, -1) == late
    assert listed(side, 1001, -1) == late, "the record may be committed"
    assert listed(side, -1, -1, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert listed(side, -2, -1) == (0, 0)
    assert listed(side, -1, OTHER) == (0, 3)
    for replica in (OTHER, THIRD):
        side.fetch(requested(3, epoch=1), replica=replica)
    assert (listed(side, -1, -1), listed(side, 1001, -1)) == ((0, 3), (0, 1))


async def test_a_client_may_say_in_so_many_words_that_it_is_no_follower() -> None:
    side = Side()
    side.lead()
    side.append()
    row = only(side.fetch(requested(), replica=BrokerId(-1)))
    assert (row.error_code, len(row.records)) == (0, 0)
