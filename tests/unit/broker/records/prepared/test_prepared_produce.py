"""When a prepared Produce holds, and what the table keeps."""

from __future__ import annotations

import errno
import struct

import pytest
from crc32c import crc32c

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests import prepared_requests as table
from sordini.broker.requests.prepared_requests import Declined
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.produce import ProduceRequest
from sordini.protocol.primitives import varint
from sordini.protocol.records.batch import read_header
from sordini.protocol.records.enclosing import length_field
from sordini.protocol.types import LeaderEpoch, Offset, TopicId, TopicPartition
from sordini.replication.follower_truncation import FetchPosition
from sordini.replication.purgatory import DelayedOperation
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, answer_of
from tests.unit.broker.records.test_produce_handler import codes_of, end_of, request, rows_of

PRODUCE = ApiKey.PRODUCE
ORDERS = TopicPartition("orders", 0)


def prepared_in(broker: UnitBroker) -> int:
    return len(broker.parts.dispatcher.prepared.by_prefix)


def outcome(broker: UnitBroker, message: ProduceRequest, version: int = 9) -> object:
    """What the prepared request for this one answers, without the general way."""
    frame = broker.frame(PRODUCE, version, message)
    for end in broker.peer.prefix_ends:
        prepared = broker.parts.dispatcher.prepared.by_prefix.get((version, bytes(frame[8:end])))
        if prepared is not None:
            return prepared.serve(broker.peer, frame, 77)
    return None


async def learned(broker: UnitBroker, version: int = 9, **fields: object) -> ProduceRequest:
    """A request that was served the general way, and is prepared now."""
    message = request(a_batch(1), **{"acks": 1, **fields})
    broker.serve(PRODUCE, version, message)
    assert prepared_in(broker) == 1
    return message


@pytest.mark.parametrize("version", range(14))
async def test_from_version_3_on_a_request_of_one_partition_is_prepared_when_it_was_served(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.serve(PRODUCE, version, request(a_batch(1), acks=1))
        assert prepared_in(broker) == (version >= 3)
        if version >= 3:
            assert isinstance(outcome(broker, request(a_batch(1), acks=1), version), list)
            assert end_of(broker) == 2


async def test_a_request_of_several_partitions_or_of_an_internal_topic_is_not_prepared() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        await broker.lead("__consumer_offsets")
        broker.serve(PRODUCE, 9, request(a_batch(), a_batch(), acks=1))
        broker.serve(PRODUCE, 9, request(a_batch(), acks=1, topic="__consumer_offsets"), client_id="__admin_client")
        broker.serve(PRODUCE, 9, request(a_batch(), acks=1, topic="missing"))
        broker.serve(PRODUCE, 9, request(a_batch(), acks=7))
        assert prepared_in(broker) == 0


@pytest.mark.parametrize("version", [9, 13])
async def test_a_new_leader_epoch_makes_it_stale_and_the_next_request_is_learned_again(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker, version)
        await broker.lead("orders", epoch=5)
        assert outcome(broker, message, version) is Declined.STALE
        broker.serve(PRODUCE, version, message)
        assert isinstance(outcome(broker, message, version), list)
        stored = broker.disk.contents("/logs/orders-0/00000000000000000000.log")
        epochs = [read_header(stored, number * len(a_batch(1))).partition_leader_epoch for number in range(3)]
        assert epochs == [0, 5, 5]


@pytest.mark.parametrize("version", [9, 13])
async def test_nothing_is_prepared_for_a_topic_that_was_deleted_and_made_again_with_another_id(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker, version)
        old = broker.parts.replicas.partition("orders", 0)
        broker.parts.replicas.stop_replica(ORDERS, delete=True)
        assert prepared_in(broker) == 0, "the table holds no partition that is gone"
        await broker.lead("orders", topic_id=TopicId(b"another id 16 by"))
        answer = broker.ask(PRODUCE, version, message)
        assert codes_of(answer) == [0 if version < 13 else ErrorCode.UNKNOWN_TOPIC_ID]
        assert (old.log.log_end_offset, end_of(broker)) == (1, 1 if version < 13 else 0)


async def test_a_broker_that_follows_now_declines() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker)
        broker.parts.replicas.resign_all()
        assert prepared_in(broker) == 0
        assert codes_of(broker.ask(PRODUCE, 9, message)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


async def test_changed_settings_make_it_stale() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker)
        broker.parts.topic_configs.set("orders", {"max.message.bytes": "70"})
        broker.parts.replicas.reconfigure("orders")
        assert outcome(broker, message) is Declined.STALE
        assert codes_of(broker.ask(PRODUCE, 9, message)) == [ErrorCode.MESSAGE_TOO_LARGE]
        assert end_of(broker) == 1


@pytest.mark.parametrize("acks", [1, -1])
async def test_an_append_that_rolls_the_segment_is_flushed_where_that_is_due(acks: int) -> None:
    """A roll moves the recovery point back, so that the flush may be due that was not before."""
    async with a_broker({"log.flush.interval.messages": "4", "log.segment.bytes": "300"}) as broker:
        await broker.lead("orders")
        log = broker.logs.logs()[0]
        message = await learned(broker, acks=acks)
        partition = broker.parts.replicas.partition("orders", 0)
        # Something that waits for records, for which a prepared request takes its longer way.
        DelayedOperation(1 << 30, (partition,), lambda: None)
        for number in range(1, 30):
            served = broker.serve(PRODUCE, 9, message)
            await broker.settled()
            assert not isinstance(served, DelayedResponse) or served.is_answered
            assert (log.log_end_offset, log.unflushed_messages < 4) == (number + 1, True)
        assert log.segments.active.base > 20


@pytest.mark.parametrize(
    "settings",
    [
        {"message.timestamp.type": "LogAppendTime"},
        {"message.timestamp.after.max.ms": "1000"},
        {"message.format.version": "0.10.0"},
    ],
)
async def test_topics_whose_batches_are_changed_or_dated_have_no_prepared_way(settings: dict[str, str]) -> None:
    async with a_broker({"inter.broker.protocol.version": "2.8"}) as broker:
        broker.parts.topic_configs.set("orders", settings)
        await broker.lead("orders")
        broker.serve(PRODUCE, 9, request(a_batch(1), acks=1))
        assert prepared_in(broker) == 0


async def test_an_offline_directory_is_answered_by_the_general_way() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker)
        log = broker.parts.replicas.partition("orders", 0).log
        log.log_dir.take_offline(OSError(5, "broken"))
        assert codes_of(broker.ask(PRODUCE, 9, message)) == [ErrorCode.KAFKA_STORAGE_ERROR]


async def test_too_few_in_sync_replicas_are_answered_by_the_general_way_with_nothing_done() -> None:
    async with a_broker({"min.insync.replicas": "2"}) as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        message = await learned(broker, acks=-1)
        await broker.lead("orders", isr=(ME,), epoch=1)
        broker.parts.replicas.partition("orders", 0).replicas = (ME, OTHER)
        for _ in range(2):
            assert codes_of(broker.ask(PRODUCE, 9, message)) == [ErrorCode.NOT_ENOUGH_REPLICAS]
        assert outcome(broker, message) is Declined.UNUSUAL
        assert end_of(broker) == 1


async def test_a_batch_out_of_order_is_refused_and_the_right_one_appended() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        for sequence, code in ((0, 0), (1, 0), (3, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), (2, 0), (2, 0), (3, 0)):
            answer = broker.ask(PRODUCE, 9, request(an_idempotent_batch(1, sequence=sequence), acks=1))
            assert codes_of(answer) == [code], sequence
        assert end_of(broker) == 4


async def test_while_a_batch_was_refused_the_first_of_a_producer_is_left_to_the_general_way() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await learned(broker)
        first, second = (request(an_idempotent_batch(1, sequence=sequence), acks=1) for sequence in (0, 1))
        broker.disk.fail_while(lambda kind, path: kind == "write", errno.ENOSPC)
        assert codes_of(broker.ask(PRODUCE, 9, first)) == [ErrorCode.KAFKA_STORAGE_ERROR]
        broker.disk.heal()
        assert outcome(broker, second) is Declined.UNUSUAL
        assert isinstance(outcome(broker, request(a_batch(1), acks=1)), list), "it has no producer"
        assert codes_of(broker.ask(PRODUCE, 9, first)) == [0]
        assert isinstance(outcome(broker, second), list), "its producer is known"


async def test_with_acks_all_the_packed_answer_follows_the_commit() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        await learned(broker, acks=-1)
        served = outcome(broker, request(a_batch(1), acks=-1))
        assert isinstance(served, DelayedResponse)
        assert not served.is_answered
        partition = broker.parts.replicas.partition("orders", 0)
        partition.update_follower_fetch_state(OTHER, FetchPosition(Offset(2), LeaderEpoch(0), -1), broker.clock.ms)
        (row,) = rows_of(answer_of(served, PRODUCE, 9))
        assert (row.error_code, row.base_offset, row.log_start_offset) == (0, 1, 0)


async def test_with_acks_all_the_packed_answer_has_the_error_of_a_timeout() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        await learned(broker, acks=-1)
        served = outcome(broker, request(a_batch(1), acks=-1))
        assert isinstance(served, DelayedResponse)
        broker.timers.fire()
        (row,) = rows_of(answer_of(served, PRODUCE, 9))
        assert (row.error_code, row.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 1)


async def test_an_abandoned_request_that_waits_for_its_commit_leaves_no_timer() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        await learned(broker, acks=-1)
        broker.timers.fire()
        served = outcome(broker, request(a_batch(1), acks=-1))
        assert isinstance(served, DelayedResponse)
        served.abandon()
        assert not broker.timers.waiting


async def test_a_frame_that_is_not_canonical_is_never_prepared() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        frame = bytes(broker.frame(PRODUCE, 9, request(a_batch(1), acks=1)))
        (client_id,) = struct.unpack_from(">h", frame, 8)
        tags = 10 + client_id
        tagged = frame[:tags] + b"\x01\x50\x01x" + frame[tags + 1 :]  # A tagged field in the header.
        for _ in range(2):
            assert broker.parts.dispatcher.serve(broker.peer, memoryview(bytearray(tagged))) is not None
        assert prepared_in(broker) == 0
        assert end_of(broker) == 2


async def test_the_table_is_bounded_and_learns_some_new_shapes_when_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PREPARED_MAX", 8)
    async with a_broker() as broker:
        await broker.lead("orders", 100)
        rows = [a_batch(1)]
        for index in range(100):
            message = request(*rows, acks=1)
            message.topic_data[0].partition_data[0].index = index
            broker.serve(PRODUCE, 9, message)
        assert prepared_in(broker) == 8
        assert [end_of(broker, index) for index in range(100)] == [1] * 100
        prepared = broker.parts.dispatcher.prepared.by_prefix
        newest = max(struct.unpack(">i", prefix[-4:])[0] for _, prefix in prepared)
        assert newest >= 8, "an old shape made room"


async def test_a_connection_remembers_a_few_lengths_of_prefixes() -> None:
    async with a_broker() as broker:
        for size in range(1, 20):
            await broker.lead("t" * size)
            broker.serve(PRODUCE, 9, request(a_batch(1), topic="t" * size, acks=1))
        assert len(broker.peer.prefix_ends) == table.PREFIX_ENDS_MAX
        assert prepared_in(broker) == 19


async def test_a_long_prefix_is_not_kept() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.serve(PRODUCE, 9, request(a_batch(1), acks=1), client_id="c" * table.PREFIX_BYTES_MAX)
        assert prepared_in(broker) == 0
        assert end_of(broker) == 1


@pytest.mark.parametrize("room", [*range(-3, 300), 16_383, 16_384, 16_385, 16_386, 16_387, 2**21, 2**21 + 2, 2**21 + 3])
def test_a_length_field_is_the_canonical_one_or_empty(room: int) -> None:
    for is_flexible in (False, True):
        field = length_field(room, is_flexible=is_flexible)
        size = room - len(field)
        if field:
            assert field == (varint(size + 1) if is_flexible else struct.pack(">i", size))
        else:
            assert room < 4 or is_flexible


def rewritten(batch: bytes, at: int, data: bytes) -> bytes:
    """A batch with other bytes at a position, and the right CRC."""
    changed = bytearray(batch)
    changed[at : at + len(data)] = data
    changed[17:21] = crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


UNUSUAL = {
    "the CRC is wrong": a_batch(1)[:-1] + b"\x7f",
    "the base offset is not 0": b"\0\0\0\0\0\0\0\1" + a_batch(1)[8:],
    "it is larger than the topic takes": a_batch(1, value=bytes(1_050_000)),
    "its codec is not in this version": a_batch(1, codec=4),
    "its last offset is not that of its records": rewritten(a_batch(2), 23, b"\0\0\0\7"),
    "it has no records": rewritten(a_batch(1), 57, b"\0\0\0\0"),
    "a producer without a sequence": an_idempotent_batch(1, sequence=-1),
    "a producer without an epoch": an_idempotent_batch(1, producer_epoch=-1),
    "its bytes are not of its codec": rewritten(a_batch(1, codec=3), 61, b"not a frame of lz4"),
    "a control batch": a_batch(1, control=True),
    "its timestamps are not those of its records": rewritten(a_batch(1), 35, bytes(8)),
}


@pytest.mark.parametrize("batch", UNUSUAL.values(), ids=UNUSUAL)
async def test_what_is_unusual_about_a_batch_is_left_to_the_general_way_with_nothing_done(batch: bytes) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await learned(broker, 6)
        requests = {one.number: one.requests for one in broker.parts.dispatcher.versioned_apis}
        assert outcome(broker, request(batch, acks=1), 6) is Declined.UNUSUAL
        assert end_of(broker) == 1
        assert {one.number: one.requests for one in broker.parts.dispatcher.versioned_apis} == requests


async def test_tagged_fields_behind_the_records_are_left_to_the_general_way() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker)
        frame = bytearray(broker.frame(PRODUCE, 9, message))
        (prepared,) = broker.parts.dispatcher.prepared.by_prefix.values()
        for at in (-1, -2, -3):
            changed = bytearray(frame)
            changed[at] = 1
            assert prepared.serve(broker.peer, memoryview(changed), 77) is Declined.UNUSUAL
        assert end_of(broker) == 1


async def test_an_append_that_the_disk_refuses_leaves_the_request_as_it_came() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker)
        frame = broker.frame(PRODUCE, 9, message)
        before = bytes(frame)
        (prepared,) = broker.parts.dispatcher.prepared.by_prefix.values()
        broker.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)
        assert prepared.serve(broker.peer, frame, 77) is Declined.UNUSUAL
        assert bytes(frame) == before, "its base offset, too"
        broker.disk.heal_faults()
        assert isinstance(prepared.serve(broker.peer, frame, 77), list)


async def test_weak_acks_that_need_the_store_are_left_to_the_general_way_while_the_session_is_in_doubt() -> None:
    async with a_broker({"sordini.leader.acks.require.session": "true"}) as broker:
        await broker.lead("orders")
        message = await learned(broker)
        broker.contact.expired()
        assert outcome(broker, message) is Declined.UNUSUAL
        assert end_of(broker) == 1


async def test_a_fetch_of_a_follower_that_waits_is_notified() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        message = await learned(broker)
        partition, completed = broker.parts.replicas.partition(*ORDERS), []
        operation = DelayedOperation(1, (partition.log_end_waiters,), lambda: completed.append(end_of(broker)))
        assert isinstance(outcome(broker, message), list)
        assert completed == [2]
        assert operation.done


async def test_a_record_without_a_key_for_a_compacted_topic_is_left_to_the_general_way() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = broker.parts.replicas.partition(*ORDERS)
        rules = partition.settings.rules._replace(key_required=True)
        partition.settings = partition.settings._replace(rules=rules)
        broker.serve(PRODUCE, 9, request(a_batch(1, key=b"key"), acks=1))
        assert isinstance(outcome(broker, request(a_batch(1, key=b"key"), acks=1)), list)
        for records in (1, 3):
            assert outcome(broker, request(a_batch(records), acks=1)) is Declined.UNUSUAL
        assert end_of(broker) == 2
