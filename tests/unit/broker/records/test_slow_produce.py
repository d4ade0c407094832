"""Produce of records that take long to check: a worker checks them, and the order of appends stays."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.jobs import CheckJob, ConvertJob, Job, SearchJob
from sordini.protocol.records.legacy import entries
from tests.support import worst_batches
from tests.support.builders import a_batch
from tests.support.unit_broker import UnitBroker, a_broker, answer_of
from tests.unit.broker.records.test_produce_handler import codes_of, end_of, request, rows_of

PRODUCE = ApiKey.PRODUCE
CHECKED = {"sordini.validate.compressed": "true"}
DEAR = worst_batches.bomb(expanded_bytes=8 * worst_batches.MIB)


def when(broker: UnitBroker, happens: Any) -> None:
    """What else happens while a worker works."""

    async def before(_job: Job) -> None:
        broker.records.before = None
        made = happens()
        if made is not None:
            await made

    broker.records.before = before


@pytest.mark.parametrize("acks", [1, -1])
async def test_records_that_take_long_are_checked_by_a_worker(acks: int) -> None:
    async with a_broker(CHECKED) as broker:
        await broker.lead("orders", 3)
        answer = await broker.ask_later(PRODUCE, 9, request(a_batch(), DEAR, a_batch(), acks=acks))
        assert codes_of(answer) == [0, 0, 0]
        assert [row.base_offset for row in rows_of(answer)] == [0, 0, 0]
        assert [end_of(broker, index) for index in range(3)] == [3, 1, 3]
        assert [type(job) for job in broker.records.jobs] == [CheckJob]
        assert broker.parts.record_jobs.held_bytes == 0


async def test_small_and_closed_batches_need_no_worker() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        assert codes_of(broker.ask(PRODUCE, 9, request(DEAR, a_batch(codec=1)))) == [0, 0]
        assert broker.records.jobs == []


async def test_nothing_of_the_connection_starts_until_it_is_appended() -> None:
    async with a_broker({**CHECKED, "min.insync.replicas": "1"}) as broker:
        await broker.lead("orders")
        held: list[bool] = []
        pending = broker.serve(PRODUCE, 9, request(DEAR))
        assert isinstance(pending, DelayedResponse)
        when(broker, lambda: held.append(pending.blocks_pipeline))
        assert pending.blocks_pipeline
        await broker.settled()
        assert (held, pending.blocks_pipeline) == ([True], False)
        assert codes_of(answer_of(pending, PRODUCE, 9)) == [0]


async def test_a_leader_that_resigned_meanwhile_refuses() -> None:
    async with a_broker(CHECKED) as broker:
        await broker.lead("orders")
        partition = broker.parts.replicas.partition("orders", 0)
        when(broker, partition.resign)
        answer = await broker.ask_later(PRODUCE, 9, request(DEAR))
        assert codes_of(answer) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert end_of(broker) == 0


async def test_a_batch_is_validated_again_when_the_topics_settings_changed_meanwhile() -> None:
    async with a_broker(CHECKED) as broker:
        await broker.lead("orders")
        partition = broker.parts.replicas.partition("orders", 0)
        rules = partition.settings.rules

        def compact() -> None:
            partition.settings = partition.settings._replace(rules=rules._replace(key_required=True))

        when(broker, compact)
        keyless = worst_batches.bomb(expanded_bytes=8 * worst_batches.MIB, key=None)
        answer = await broker.ask_later(PRODUCE, 9, request(keyless))
        assert codes_of(answer) == [ErrorCode.INVALID_RECORD]
        assert (len(broker.records.jobs), end_of(broker)) == (2, 0)


async def test_a_broken_record_set_is_refused_alone_with_its_own_code() -> None:
    async with a_broker({**CHECKED, "sordini.expanded.bytes.max": str(4 * worst_batches.MIB)}) as broker:
        await broker.lead("orders", 2)
        answer = await broker.ask_later(PRODUCE, 9, request(DEAR, a_batch()))
        assert codes_of(answer) == [ErrorCode.MESSAGE_TOO_LARGE, 0]


async def test_what_a_request_may_take_is_shared_by_its_partitions() -> None:
    async with a_broker(CHECKED) as broker:
        await broker.lead("orders", 4)
        broker.records.cpu_ms = 500
        answer = await broker.ask_later(PRODUCE, 9, request(*[DEAR] * 4))
        assert codes_of(answer) == [0, 0, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NOT_ENOUGH_REPLICAS]
        assert len(broker.records.jobs) == 2


async def test_acks_0_that_fails_later_closes_the_connection() -> None:
    async with a_broker(CHECKED) as broker:
        await broker.lead("orders", 2)
        broken = worst_batches.bomb(expanded_bytes=8 * worst_batches.MIB)[:-1] + b"!"
        failures: list[Exception] = []
        pending = broker.serve(PRODUCE, 9, request(DEAR, broken, acks=0))
        assert isinstance(pending, DelayedResponse)
        pending.on_failure = failures.append
        await broker.settled()
        assert [type(failure) for failure in failures] == [WireError]
        assert (pending.is_answered, pending.parts, pending.blocks_pipeline) == (True, None, False)
        assert end_of(broker, 0) == 1


async def test_a_message_set_for_format_0_is_rewritten_when_the_log_grew_meanwhile() -> None:
    async with a_broker({"inter.broker.protocol.version": "2.8", "log.message.format.version": "0.9.0"}) as broker:
        await broker.lead("orders")
        grows = request(worst_batches.old_messages(100, 0), acks=1)
        when(broker, lambda: broker.serve(PRODUCE, 2, grows) and None)
        wrapper = worst_batches.wrapper(1, 0, 5_000)
        answer = await broker.ask_later(PRODUCE, 2, request(wrapper, acks=1))
        before = len(list(entries(worst_batches.old_messages(100, 0))))
        assert [row.base_offset for row in rows_of(answer)] == [before]
        assert end_of(broker) == before + 5_000
        assert len(broker.records.jobs) == 2


@pytest.mark.parametrize("acks", [1, 0])
async def test_a_partition_named_twice_refuses_the_request_and_nothing_is_appended(acks: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        rows = [PartitionProduceData(index=index, records=a_batch()) for index in (0, 1, 0)]
        twice = ProduceRequest(
            acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="orders", partition_data=rows)]
        )
        if acks:
            assert codes_of(broker.ask(PRODUCE, 9, twice)) == [ErrorCode.INVALID_REQUEST] * 3
        else:
            with pytest.raises(WireError, match="twice"):
                broker.serve(PRODUCE, 9, twice)
        assert (end_of(broker, 0), end_of(broker, 1)) == (0, 0)


async def test_an_answer_lists_a_thousand_bad_records_in_all() -> None:
    async with a_broker({"log.cleanup.policy": "compact"}) as broker:
        await broker.lead("orders", 3)
        answer = broker.ask(PRODUCE, 9, request(*[worst_batches.tiny_records(700, shapes=3)] * 3))
        assert codes_of(answer) == [ErrorCode.INVALID_RECORD] * 3
        assert [len(row.record_errors) for row in rows_of(answer)] == [700, 300, 0]


def a_fetch(version: int, *, offset: int = 0, bytes_max: int = 2**31 - 1, **fields: Any) -> FetchRequest:
    requested = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=bytes_max)
    return FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic="orders", partitions=[requested])], **fields)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
async def test_much_that_is_converted_for_an_old_reader_is_converted_by_a_worker(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await_answer = broker.ask(PRODUCE, 9, request(worst_batches.tiny_records(50_000, 1)))
        assert codes_of(await_answer) == [0]
        answer = await broker.ask_later(ApiKey.FETCH, version, a_fetch(version))
        [row] = answer.responses[0].partitions
        assert row.error_code == 0
        assert len(list(entries(bytes(row.records)))) >= 1
        assert [type(job) for job in broker.records.jobs] == [ConvertJob]
        assert broker.parts.record_jobs.held_bytes == 0


@pytest.mark.parametrize("version", [1, 3])
async def test_no_more_is_converted_than_the_requested_bytes_except_to_complete_the_first_batch(version: int) -> None:
    allowed = 2_000
    async with a_broker() as broker:
        await broker.lead("orders")
        records = [Record(number, 1_000, None, None) for number in range(200)]
        broker.ask(PRODUCE, 9, request(build_batch(records)))
        [row] = broker.ask(ApiKey.FETCH, version, a_fetch(version, bytes_max=allowed)).responses[0].partitions
        if version < 3:
            assert allowed - 40 <= len(row.records) <= allowed
        else:  # As Apache Kafka: the first batch is whole, however small the request's limit.
            assert len(list(entries(bytes(row.records)))) == len(records)


@pytest.mark.parametrize("version", [1, 3])
async def test_the_brokers_own_bound_holds_for_all_that_is_converted_for_an_answer(version: int) -> None:
    async with a_broker({"sordini.fetch.converted.bytes.max": "4096"}) as broker:
        await broker.lead("orders")
        for _ in range(100):
            broker.ask(PRODUCE, 9, request(a_batch(value=b"v" * 100)))
        [row] = broker.ask(ApiKey.FETCH, version, a_fetch(version)).responses[0].partitions
        assert 3_000 <= len(row.records) <= 4_096


def a_look_up(timestamp: int) -> ListOffsetsRequest:
    requested = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[requested])])


@pytest.mark.parametrize("timestamp", [worst_batches.TIMESTAMP + 5, -3])
async def test_a_time_is_looked_up_in_a_large_batch_by_a_worker(timestamp: int) -> None:
    records = [Record(number, worst_batches.TIMESTAMP + number // 5_000, b"k", None) for number in range(30_000)]
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.ask(PRODUCE, 9, request(a_batch(timestamp=1)))
        broker.ask(PRODUCE, 9, request(build_batch(records, codec=4)))
        answer = await broker.ask_later(ApiKey.LIST_OFFSETS, 7, a_look_up(timestamp))
        [row] = answer.topics[0].partitions
        assert (row.error_code, row.timestamp, row.offset) == (0, worst_batches.TIMESTAMP + 5, 3 + 25_000)
        assert [type(job) for job in broker.records.jobs] == [SearchJob]


async def test_a_lookup_by_timestamp_notices_a_new_leader_epoch() -> None:
    records = [Record(number, worst_batches.TIMESTAMP + number, b"k", None) for number in range(30_000)]
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.ask(PRODUCE, 9, request(build_batch(records, codec=4)))
        when(broker, lambda: broker.lead("orders", epoch=5))
        answer = await broker.ask_later(ApiKey.LIST_OFFSETS, 7, a_look_up(worst_batches.TIMESTAMP + 29_999))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_request_that_is_given_up_lets_its_slices_go() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.ask(PRODUCE, 9, request(worst_batches.tiny_records(50_000, 1)))
        pending = broker.serve(ApiKey.FETCH, 1, a_fetch(1))
        assert isinstance(pending, DelayedResponse)
        pending.abandon()
        await broker.settled()
        assert broker.records.jobs == []
        assert broker.parts.record_jobs.held_bytes == 0
        await asyncio.sleep(0)
