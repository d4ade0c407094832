"""What a follower answers of its own log, and what only the leader does. tests/cluster compares it with Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages import delete_records, describe_producers, offset_for_leader_epoch
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.replication.follower_log import append_fetched_records
from tests.support.builders import BASE_TIMESTAMP, an_idempotent_batch
from tests.support.partitions import checked
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, topic_id_of

CONSUMER, DEBUGGING = -1, -2
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
COMMITTED = an_idempotent_batch(3, producer_id=7, producer_epoch=2)
OPEN = an_idempotent_batch(2, producer_id=9, transactional=True)
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


async def a_replica(broker: UnitBroker, *, leads: bool) -> None:
    """Five records, of which three are committed; a transaction is open in the others."""
    if leads:
        await broker.lead("orders", isr=(ME, OTHER))
        partition = broker.parts.replicas.partition("orders", 0)
        for batch in (COMMITTED, OPEN):
            partition.append(checked(batch), 0, all_replicas=False)
        partition.require_leader().fetched(OTHER, 3, 5, 0, log_start_offset=0)  # type: ignore[arg-type]
        partition.log.high_watermark = partition.require_leader().high_watermark
    else:
        await broker.follow("orders")
        partition = broker.parts.replicas.partition("orders", 0)
        assert partition.follower is not None
        for offset, batch in ((0, COMMITTED), (3, OPEN)):
            placed = offset.to_bytes(8) + batch[8:]
            append_fetched_records(partition, partition.follower, offset, memoryview(placed), 3, 0, 0)
    assert (partition.log.log_end_offset, partition.log.high_watermark) == (5, 3)


def listed(
    broker: UnitBroker, replica_id: int, timestamp: int, *, version: int = 9, epoch: int = -1, level: int = 0
) -> Any:
    row = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch, max_num_offsets=9)
    topics = [ListOffsetsTopic(name="orders", partitions=[row])]
    request = ListOffsetsRequest(replica_id=replica_id, isolation_level=level, topics=topics)
    return broker.ask(ApiKey.LIST_OFFSETS, version, request).topics[0].partitions[0]


def producers(broker: UnitBroker) -> Any:
    topics = [describe_producers.TopicRequest(name="orders", partition_indexes=[0])]
    request = describe_producers.DescribeProducersRequest(topics=topics)
    return broker.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request).topics[0].partitions[0]


@pytest.mark.parametrize("leads", [True, False])
async def test_each_replica_describes_the_producers_of_its_own_log(leads: bool) -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=leads)
        row = producers(broker)
        assert (row.error_code, row.error_message) == (0, None)
        found = [(one.producer_id, one.last_sequence, one.current_txn_start_offset) for one in row.active_producers]
        assert found == [(7, 2, -1), (9, 1, 3)]


async def test_a_replica_between_two_terms_describes_no_producers() -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=False)
        broker.parts.replicas.partition("orders", 0).resign()
        assert producers(broker).error_code == NOT_LEADER


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("level", [0, 1])
async def test_a_debugging_consumer_is_answered_by_each_replica_of_all_that_its_log_holds(
    leads: bool, level: int
) -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=leads)
        latest = listed(broker, DEBUGGING, LATEST, level=level)
        assert (latest.error_code, latest.offset, latest.leader_epoch) == (0, 5, 0)
        assert listed(broker, DEBUGGING, EARLIEST, level=level).offset == 0
        newest = listed(broker, DEBUGGING, BASE_TIMESTAMP, level=level)
        assert (newest.offset, newest.timestamp) == (0, BASE_TIMESTAMP)
        assert listed(broker, DEBUGGING, MAX_TIMESTAMP, level=level).error_code == 0
        assert listed(broker, DEBUGGING, LATEST, version=0).old_style_offsets == [5, 0]


@pytest.mark.parametrize("replica_id", [CONSUMER, ME, OTHER, 7, -3])
async def test_a_follower_refers_every_other_question_for_offsets_to_the_leader(replica_id: int) -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=False)
        for version in (0, 1, 9):
            assert listed(broker, replica_id, LATEST, version=version).error_code == NOT_LEADER


@pytest.mark.parametrize(("replica_id", "end"), [(CONSUMER, 3), (OTHER, 5), (7, 5), (DEBUGGING, 5), (-3, 5)])
async def test_of_a_leader_a_consumer_learns_what_is_committed_and_every_other_the_log_end(
    replica_id: int, end: int
) -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=True)
        assert listed(broker, replica_id, LATEST).offset == end


@pytest.mark.parametrize("leads", [True, False])
async def test_a_debugging_consumer_of_another_leader_epoch_is_refused(leads: bool) -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=leads)
        assert listed(broker, DEBUGGING, LATEST, epoch=0).error_code == 0
        assert listed(broker, DEBUGGING, LATEST, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


@pytest.mark.parametrize("replica_id", [CONSUMER, DEBUGGING, OTHER])
async def test_ends_of_epochs_and_deletions_are_the_leaders(replica_id: int) -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=False)
        topic = offset_for_leader_epoch.OffsetForLeaderTopic(
            topic="orders", partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(leader_epoch=0)]
        )
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[topic])
        answer = broker.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, request)
        assert answer.topics[0].partitions[0].error_code == NOT_LEADER
        row = delete_records.DeleteRecordsPartition(partition_index=0, offset=1)
        deletion = delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name="orders", partitions=[row])]
        )
        assert broker.ask(ApiKey.DELETE_RECORDS, 2, deletion).topics[0].partitions[0].error_code == NOT_LEADER


@pytest.mark.parametrize(("version", "code"), [(10, NOT_LEADER), (11, 0), (12, 0), (17, 0)])
async def test_a_follower_serves_a_debugging_fetch_of_what_is_committed(version: int, code: int) -> None:
    async with a_broker() as broker:
        await a_replica(broker, leads=False)
        row = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
        topic = FetchTopic(topic="orders", topic_id=topic_id_of("orders"), partitions=[row])
        state = ReplicaState(replica_id=DEBUGGING)
        request = FetchRequest(
            replica_id=DEBUGGING, replica_state=state, max_wait_ms=0, max_bytes=1_000_000, topics=[topic]
        )
        (found,) = broker.ask(ApiKey.FETCH, version, request).responses[0].partitions
        assert found.error_code == code
        if not code:
            assert (found.high_watermark, bytes(found.records or b"")) == (3, COMMITTED)
