"""Fetch: which rows end its wait, beside a partition without news and alone (tests/compat/test_fetch_waits.py)."""

from __future__ import annotations

import pytest

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.types import TopicId, TopicPartition
from tests.support.builders import a_batch
from tests.support.unit_broker import UnitBroker, a_broker, answer_of, topic_id_of
from tests.unit.broker.records.test_fetch_handler import (
    BATCH,
    append,
    open_pins,
    parked,
    request,
    requested,
    rows_of,
    waiting,
)

FETCH = ApiKey.FETCH
NEW_ID = TopicId(b"\x07" * 16)


def beside(topic: str, partition: FetchPartition, max_wait_ms: int = 500, **fields: int) -> FetchRequest:
    """A fetch of that partition and of the quiet `orders`-0."""
    topics = [
        FetchTopic(topic=name, topic_id=topic_id_of(name), partitions=[row])
        for name, row in ((topic, partition), ("orders", requested()))
    ]
    return FetchRequest(topics=topics, max_wait_ms=max_wait_ms, min_bytes=1, **fields)


def codes(broker: UnitBroker, version: int, fetch: FetchRequest) -> list[int]:
    """Of each row, of an answer at once."""
    return [row.error_code for topic in broker.ask(FETCH, version, fetch).responses for row in topic.partitions]


def delete(broker: UnitBroker, topic: str) -> None:
    broker.parts.metadata.drop_partition(topic, 0)
    broker.parts.replicas.stop_replica(TopicPartition(topic, 0), delete=True)


@pytest.mark.parametrize("version", [4, 12, 13, 18])
@pytest.mark.parametrize(("topic", "index"), [("nothing", 0), ("orders", 9), ("orders", -1)])
async def test_a_partition_that_does_not_exist_ends_no_wait_of_another_one(
    version: int, topic: str, index: int
) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        pending = parked(broker, version, beside(topic, requested(index)))
        append(broker)
        rows = [row for one in answer_of(pending, FETCH, version).responses for row in one.partitions]
        is_id = version >= 13 and topic == "nothing"
        unknown = ErrorCode.UNKNOWN_TOPIC_ID if is_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [(row.error_code, bytes(row.records)) for row in rows] == [(unknown, b""), (0, BATCH)]


@pytest.mark.parametrize("version", [4, 12, 13])
async def test_partitions_of_which_none_exists_are_answered_at_once(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes(broker, version, waiting(requested(7), requested(9))) == [unknown, unknown]
        assert codes(broker, version, waiting()) == []


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (requested(offset=99), ErrorCode.OFFSET_OUT_OF_RANGE),
        (requested(current_leader_epoch=1), ErrorCode.FENCED_LEADER_EPOCH),
        (requested(current_leader_epoch=5), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_an_error_of_a_partition_that_exists_ends_the_wait_of_all(row: FetchPartition, code: ErrorCode) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.lead("others", epoch=3)
        assert codes(broker, 12, beside("others", row)) == [code, 0]


async def test_a_session_with_a_deleted_topic_waits_for_its_other_topic_and_repeats_the_error() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.lead("others")
        opened = broker.ask(FETCH, 13, beside("others", requested(), 0, session_epoch=0))
        session = {"session_id": opened.session_id, "max_wait_ms": 500, "min_bytes": 1}
        pending = parked(broker, 13, FetchRequest(**session, session_epoch=1))
        delete(broker, "others")
        gone = [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert [(n, row.error_code) for n, row in rows_of(answer_of(pending, FETCH, 13)).items()] == gone
        for epoch in (2, 3):
            pending = parked(broker, 13, FetchRequest(**session, session_epoch=epoch))
            broker.timers.fire()
            assert [(n, row.error_code) for n, row in rows_of(answer_of(pending, FETCH, 13)).items()] == gone


async def test_a_topic_made_again_is_inconsistent_with_its_former_id_in_a_session_and_unknown_without() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.lead("others")
        opened = broker.ask(FETCH, 13, beside("others", requested(), 0, session_epoch=0))
        delete(broker, "others")
        await broker.lead("others", topic_id=NEW_ID)
        session = FetchRequest(session_id=opened.session_id, session_epoch=1, max_wait_ms=500, min_bytes=1)
        assert codes(broker, 13, session) == [ErrorCode.INCONSISTENT_TOPIC_ID], "and it does not wait"
        pending = parked(broker, 13, beside("others", requested()))
        broker.timers.fire()
        rows = [row for one in answer_of(pending, FETCH, 13).responses for row in one.partitions]
        assert [row.error_code for row in rows] == [ErrorCode.UNKNOWN_TOPIC_ID, 0]


def answered_later(broker: UnitBroker, fetch: FetchRequest) -> list[int]:
    pending = parked(broker, 13, fetch)
    broker.timers.fire()
    return [row.error_code for topic in answer_of(pending, FETCH, 13).responses for row in topic.partitions]


async def test_a_session_of_deleted_topics_alone_gets_the_error_at_once_and_waits_after_that() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        opened = broker.ask(FETCH, 13, request(requested(), session_epoch=0))
        session = {"session_id": opened.session_id, "max_wait_ms": 500, "min_bytes": 1}
        delete(broker, "orders")
        gone, unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID
        assert codes(broker, 13, FetchRequest(**session, session_epoch=1)) == [gone]
        assert answered_later(broker, FetchRequest(**session, session_epoch=2)) == [gone]
        more = request(requested(), topic="nothing").topics
        assert codes(broker, 13, FetchRequest(**session, session_epoch=3, topics=more)) == [gone, unknown]
        assert answered_later(broker, FetchRequest(**session, session_epoch=4)) == [gone, unknown]


async def test_a_session_gets_the_error_of_a_topic_made_again_at_once_and_waits_after_that() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.lead("others")
        opened = broker.ask(FETCH, 13, beside("others", requested(), 0, session_epoch=0))
        session = {"session_id": opened.session_id, "max_wait_ms": 500, "min_bytes": 1}
        delete(broker, "others")
        await broker.lead("others", topic_id=NEW_ID)
        assert codes(broker, 13, FetchRequest(**session, session_epoch=1)) == [ErrorCode.INCONSISTENT_TOPIC_ID]
        again = answered_later(broker, FetchRequest(**session, session_epoch=2))
        assert again == [ErrorCode.INCONSISTENT_TOPIC_ID]
        delete(broker, "others")
        assert answered_later(broker, FetchRequest(**session, session_epoch=3)) == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ], "beside another topic"


async def test_a_topic_that_gets_known_during_a_wait_is_read_by_the_next_request_of_the_session() -> None:
    """Whether it may be read is checked before a request is served, by its name."""
    async with a_broker() as broker:
        await broker.lead("orders")
        opened = broker.ask(FETCH, 13, beside("others", requested(), 0, session_epoch=0))
        session = {"session_id": opened.session_id, "max_wait_ms": 500, "min_bytes": 1}
        pending = parked(broker, 13, FetchRequest(**session, session_epoch=1))
        await broker.lead("others")
        append(broker, topic="others")
        assert not pending.is_answered
        broker.timers.fire()
        rows = [row for topic in answer_of(pending, FETCH, 13).responses for row in topic.partitions]
        assert [row.error_code for row in rows] == [ErrorCode.UNKNOWN_TOPIC_ID]
        found = broker.ask(FETCH, 13, FetchRequest(**session, session_epoch=2))
        assert [bytes(row.records) for topic in found.responses for row in topic.partitions] == [BATCH]


async def test_a_partition_whose_topic_the_metadata_do_not_have_is_not_waited_for_by_its_id() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        broker.parts.metadata.drop_partition("orders", 0)
        opened = broker.ask(FETCH, 13, request(requested(), session_epoch=0))
        session = {"session_id": opened.session_id, "max_wait_ms": 500, "min_bytes": 1}
        pending = parked(broker, 13, FetchRequest(**session, session_epoch=1))
        append(broker)
        assert not pending.is_answered
        pending.abandon()


async def test_an_error_that_the_client_can_mend_ends_every_wait_of_a_session() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        opened = broker.ask(FETCH, 13, request(requested(offset=99), session_epoch=0))
        session = {"session_id": opened.session_id, "max_wait_ms": 500, "min_bytes": 1}
        for epoch in (1, 2):
            assert codes(broker, 13, FetchRequest(**session, session_epoch=epoch)) == [ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_a_topic_made_again_on_another_broker_is_led_elsewhere_in_a_session() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        await broker.lead("others")
        opened = broker.ask(FETCH, 13, beside("others", requested(), 0, session_epoch=0))
        delete(broker, "others")
        await broker.lead("others", topic_id=NEW_ID)
        broker.parts.replicas.stop_replica(TopicPartition("others", 0), delete=True)
        session = FetchRequest(session_id=opened.session_id, session_epoch=1, max_wait_ms=500, min_bytes=1)
        assert codes(broker, 13, session) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


@pytest.mark.parametrize("version", [3, 12])
async def test_the_rest_of_an_older_segment_is_sent_at_once_although_it_is_less_than_min_bytes(version: int) -> None:
    async with a_broker({"log.segment.bytes": "200"}) as broker:
        await broker.lead("orders")
        size = len(a_batch(leader_epoch=0))
        for _ in range(200 // size + 1):
            append(broker)
        assert len(broker.parts.replicas.partition("orders", 0).log.segments) == 2
        (row,) = broker.ask(FETCH, version, waiting(requested(), min_bytes=10_000)).responses[0].partitions
        assert row.records
        newest = broker.parts.replicas.partition("orders", 0).log.segments.active.base
        parked(broker, version, waiting(requested(offset=newest), min_bytes=10_000)).abandon()
        assert open_pins(broker) == 0


@pytest.mark.parametrize(("min_bytes", "waits"), [(1, False), (10_000, True)])
async def test_records_that_an_old_version_may_not_have_count_for_min_bytes(min_bytes: int, *, waits: bool) -> None:
    async with a_broker({"log.message.downconversion.enable": "false"}) as broker:
        await broker.lead("orders")
        append(broker)
        fetch = waiting(requested(), min_bytes=min_bytes)
        if waits:
            pending = parked(broker, 3, fetch)
            broker.timers.fire()
            answer = answer_of(pending, FETCH, 3)
        else:
            answer = broker.ask(FETCH, 3, fetch)
        assert [row.error_code for row in answer.responses[0].partitions] == [ErrorCode.UNSUPPORTED_VERSION]
        assert open_pins(broker) == 0


async def test_a_zstd_batch_that_an_old_version_cannot_have_ends_the_wait() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker, batch=a_batch(leader_epoch=0, codec=4))
        answer = broker.ask(FETCH, 3, waiting(requested()))
        assert [row.error_code for row in answer.responses[0].partitions] == [ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
