"""DeleteRecords and DescribeProducers."""

from __future__ import annotations

import errno

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sordini.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.replication.metadata_store import topics
from sordini.storage import names
from sordini.storage.log_directory import LogDirectory
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import BASE_TIMESTAMP, a_batch, an_idempotent_batch
from tests.support.partitions import checked
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, topic_id_of

DELETE, DESCRIBE = ApiKey.DELETE_RECORDS, ApiKey.DESCRIBE_PRODUCERS
HIGH_WATERMARK = -1
LATEST, EARLIEST = -1, -2


async def a_topic(broker: UnitBroker, name: str = "orders", batches: int = 3, **settings: str) -> None:
    """A led topic with three records in each batch."""
    config = {key.replace("_", "."): value for key, value in settings.items()}
    await topics.create_topic(broker.session, name, {0: (ME,)}, topic_id_of(name), config)
    await broker.lead(name)
    for _ in range(batches):
        append(broker, name)


def append(broker: UnitBroker, name: str = "orders", batch: bytes | None = None) -> None:
    broker.parts.replicas.partition(name, 0).append(checked(batch or a_batch()), 0, all_replicas=False)


def deleted(broker: UnitBroker, *wanted: tuple[str, int, int], version: int = 2) -> list[tuple[str, int, int, int]]:
    rows = [
        DeleteRecordsTopic(name=name, partitions=[DeleteRecordsPartition(partition_index=index, offset=offset)])
        for name, index, offset in wanted
    ]
    answer = broker.ask(DELETE, version, DeleteRecordsRequest(topics=rows, timeout_ms=1000))
    return [
        (topic.name, row.partition_index, row.low_watermark, row.error_code)
        for topic in answer.topics
        for row in topic.partitions
    ]


def bounds(broker: UnitBroker, name: str = "orders") -> tuple[int, int]:
    """A partition's earliest and latest offset by ListOffsets."""
    found = []
    for timestamp in (EARLIEST, LATEST):
        requested = ListOffsetsTopic(
            name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        )
        found.append(
            broker.ask(ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(replica_id=-1, topics=[requested]))
            .topics[0]
            .partitions[0]
            .offset
        )
    return found[0], found[1]


def fetched(broker: UnitBroker, offset: int) -> tuple[int, int, bytes]:
    requested = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1_000_000)
    request = FetchRequest(
        max_wait_ms=0, max_bytes=1_000_000, topics=[FetchTopic(topic="orders", partitions=[requested])]
    )
    row = broker.ask(ApiKey.FETCH, 11, request).responses[0].partitions[0]
    return row.error_code, row.log_start_offset, bytes(row.records or b"")


@pytest.mark.parametrize("version", range(3))
async def test_a_new_log_start_offset_applies_at_once_to_every_request(version: int) -> None:
    async with a_broker() as broker:
        await a_topic(broker)
        assert deleted(broker, ("orders", 0, 4), version=version) == [("orders", 0, 4, 0)]
        assert bounds(broker) == (4, 9)
        assert fetched(broker, 3)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
        code, start, records = fetched(broker, 4)
        assert (code, start) == (0, 4)
        assert records, "the batch that holds the offset is given whole"


async def test_below_the_log_start_offset_nothing_is_deleted_and_the_log_start_offset_is_the_answer() -> None:
    async with a_broker() as broker:
        await a_topic(broker)
        deleted(broker, ("orders", 0, 5))
        assert deleted(broker, ("orders", 0, 2)) == [("orders", 0, 5, 0)]
        assert deleted(broker, ("orders", 0, 0)) == [("orders", 0, 5, 0)]
        assert bounds(broker) == (5, 9)


async def test_minus_one_deletes_up_to_the_high_watermark_and_producing_continues() -> None:
    async with a_broker() as broker:
        await a_topic(broker)
        assert deleted(broker, ("orders", 0, HIGH_WATERMARK)) == [("orders", 0, 9, 0)]
        assert bounds(broker) == (9, 9)
        data = TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=a_batch())])
        answer = broker.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=1, timeout_ms=1000, topic_data=[data]))
        row = answer.responses[0].partition_responses[0]
        assert (row.base_offset, row.log_start_offset) == (9, 9)


async def test_nothing_that_is_not_yet_readable_is_deleted() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        append(broker)
        assert deleted(broker, ("orders", 0, 1)) == [("orders", 0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
        assert deleted(broker, ("orders", 0, HIGH_WATERMARK)) == [("orders", 0, 0, 0)]


@pytest.mark.parametrize("offset", [10, -2, 2**62])
async def test_an_offset_no_reader_could_have_come_to_is_out_of_range(offset: int) -> None:
    async with a_broker() as broker:
        await a_topic(broker)
        assert deleted(broker, ("orders", 0, offset)) == [("orders", 0, -1, ErrorCode.OFFSET_OUT_OF_RANGE)]
        assert bounds(broker) == (0, 9)


async def test_each_partition_has_its_own_answer() -> None:
    async with a_broker() as broker:
        await a_topic(broker)
        await a_topic(broker, "kept", cleanup_policy="compact")
        await a_topic(broker, "both", cleanup_policy="compact,delete")
        await a_topic(broker, "__consumer_offsets")
        await broker.lead("lost")
        broker.parts.replicas.partition("lost", 0).resign()
        outcome = deleted(
            broker,
            ("kept", 0, 1),
            ("kept", 0, 99),
            ("both", 0, 1),
            ("__consumer_offsets", 0, 1),
            ("__consumer_offsets", 9, 1),
            ("orders", 7, 0),
            ("nothing", 0, 0),
            ("lost", 0, 0),
            ("orders", 0, 1),
        )
        assert outcome == [
            ("kept", 0, -1, ErrorCode.POLICY_VIOLATION),
            ("both", 0, 1, 0),
            ("__consumer_offsets", 0, -1, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("__consumer_offsets", 9, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("orders", 7, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("orders", 0, 1, 0),
            ("nothing", 0, -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("lost", 0, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ]
        assert bounds(broker, "kept")[0] == bounds(broker, "__consumer_offsets")[0] == 0


async def test_of_a_partition_named_twice_the_last_word_counts() -> None:
    async with a_broker() as broker:
        await a_topic(broker)
        assert deleted(broker, ("orders", 0, 7), ("orders", 0, 2)) == [("orders", 0, 2, 0)]
        assert bounds(broker) == (2, 9)


async def test_a_partition_whose_directory_is_offline_is_a_storage_error() -> None:
    async with a_broker({"log.dirs": "/one,/two"}) as broker:
        await a_topic(broker)
        broker.parts.replicas.partition("orders", 0).log.log_dir.take_offline(OSError(errno.EIO, "gone"))
        assert deleted(broker, ("orders", 0, 1)) == [("orders", 0, -1, ErrorCode.KAFKA_STORAGE_ERROR)]


async def reopened(disk: ForgetfulDisk) -> tuple[int, int]:
    """Where the log of a partition begins and ends for the next process."""
    async with a_broker(disk=disk) as broker:
        await broker.lead("orders", epoch=1)
        return bounds(broker)


async def test_the_start_is_kept_over_a_clean_stop() -> None:
    disk = ForgetfulDisk()
    async with a_broker(disk=disk) as broker:
        await a_topic(broker)
        deleted(broker, ("orders", 0, 4))
        await broker.logs.close()
    assert await reopened(disk) == (4, 9)


async def test_the_start_is_kept_over_a_kill_once_the_checkpoint_is_written() -> None:
    disk = ForgetfulDisk()
    async with a_broker(disk=disk) as broker:
        await a_topic(broker)
        deleted(broker, ("orders", 0, 4))
        await broker.logs.checkpoint(names.LOG_STARTS, LogDirectory.log_starts)
    assert await reopened(disk.killed()) == (4, 9)


async def test_a_kill_before_the_checkpoint_shows_the_records_again_as_with_apache_kafka() -> None:
    disk = ForgetfulDisk()
    async with a_broker(disk=disk) as broker:
        await a_topic(broker)
        deleted(broker, ("orders", 0, 4))
    assert await reopened(disk.killed()) == (0, 9)


async def test_whole_segments_below_the_start_go_with_the_next_retention_pass() -> None:
    async with a_broker() as broker:
        await a_topic(broker, segment_bytes="120", batches=4)
        (log,) = broker.logs.logs()
        assert len(log.segments.all()) == 4
        deleted(broker, ("orders", 0, 7))
        assert len(log.segments.all()) == 4, "no file is touched while the request is answered"
        assert log.apply_retention(BASE_TIMESTAMP, log.high_watermark) == [0, 3]
        assert bounds(broker) == (7, 12)


async def test_a_refused_request_names_every_partition() -> None:
    from sordini.broker.records.delete_records_handler import RecordsHandler

    rows = [DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=3, offset=1)])]
    answer = RecordsHandler.delete_error_response(DeleteRecordsRequest(topics=rows), ErrorCode.UNKNOWN_SERVER_ERROR)
    (row,) = answer.topics[0].partitions
    assert (answer.topics[0].name, row.partition_index, row.low_watermark, row.error_code) == ("orders", 3, -1, -1)
    wanted = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[3])])
    (found,) = RecordsHandler.describe_error_response(wanted, ErrorCode.UNKNOWN_SERVER_ERROR).topics[0].partitions
    assert (found.partition_index, found.error_code) == (3, -1)


# DescribeProducers.


async def test_a_partitions_producers_are_described_by_its_leader() -> None:
    async with a_broker() as broker:
        await a_topic(broker, batches=1)
        append(broker, batch=an_idempotent_batch(3, producer_id=7, producer_epoch=2))
        append(broker, batch=an_idempotent_batch(2, producer_id=7, producer_epoch=2, sequence=3))
        append(broker, batch=an_idempotent_batch(1, producer_id=9, transactional=True))
        request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])])
        (row,) = broker.ask(DESCRIBE, 0, request).topics[0].partitions
        assert (row.error_code, row.error_message) == (0, None)
        reported = [
            (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp - BASE_TIMESTAMP)
            for one in row.active_producers
        ]
        assert reported == [(7, 2, 4, 1), (9, 0, 0, 0)]
        assert [one.coordinator_epoch for one in row.active_producers] == [-1, -1]
        assert [one.current_txn_start_offset for one in row.active_producers] == [-1, 8]


async def test_producers_of_partitions_that_cannot_be_described() -> None:
    async with a_broker() as broker:
        await a_topic(broker)
        broker.parts.replicas.partition("orders", 0).resign()
        request = DescribeProducersRequest(
            topics=[
                TopicRequest(name="orders", partition_indexes=[0, 7]),
                TopicRequest(name="../x", partition_indexes=[0]),
                TopicRequest(name="nothing", partition_indexes=[0]),
            ]
        )
        answer = broker.ask(DESCRIBE, 0, request)
        assert [(topic.name, [row.error_code for row in topic.partitions]) for topic in answer.topics] == [
            ("orders", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
            ("../x", [ErrorCode.INVALID_TOPIC_EXCEPTION]),
            ("nothing", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ]
