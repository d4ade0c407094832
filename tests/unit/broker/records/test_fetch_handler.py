"""Fetch: what is read, how much of it, when it is answered, and what a session leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from sordini.protocol.records.batch import read_header
from sordini.protocol.records.control import COMMIT, Marker, build_marker
from sordini.protocol.records.produce_validation import CheckedBatches
from sordini.protocol.types import TopicPartition
from tests.support.builders import a_batch, an_idempotent_batch
from tests.support.partitions import checked
from tests.support.unit_broker import ME, UnitBroker, a_broker, answer_of, joined, topic_id_of

FETCH = ApiKey.FETCH
BATCH = a_batch(leader_epoch=0)
PLENTY = 1_000_000


def requested(index: int = 0, offset: int = 0, size: int = PLENTY, **fields: Any) -> FetchPartition:
    return FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size, **fields)


def request(*requests_of: FetchPartition, topic: str = "orders", **fields: Any) -> FetchRequest:
    """A fetch that does not wait, of one topic by name and by id."""
    return FetchRequest(
        topics=[FetchTopic(topic=topic, topic_id=topic_id_of(topic), partitions=list(requests_of))], **fields
    )


def waiting(*requests_of: FetchPartition, min_bytes: int = 1, **fields: Any) -> FetchRequest:
    return request(*requests_of, max_wait_ms=500, min_bytes=min_bytes, **fields)


def append(broker: UnitBroker, index: int = 0, batch: bytes | None = None, *, topic: str = "orders") -> None:
    partition = broker.parts.replicas.partition(topic, index)
    partition.append(checked(batch), 0, all_replicas=True)
    partition.notify_purgatory()


def rows_of(answer: FetchResponse) -> dict[int, PartitionData]:
    return {row.partition_index: row for topic in answer.responses for row in topic.partitions}


def only(answer: FetchResponse) -> PartitionData:
    ((_, row),) = rows_of(answer).items()
    return row


def records(row: PartitionData) -> bytes:
    return bytes(row.records)


def parked(broker: UnitBroker, version: int, fetch: FetchRequest) -> DelayedResponse:
    pending = broker.serve(FETCH, version, fetch)
    assert isinstance(pending, DelayedResponse)
    assert not pending.is_answered
    return pending


def open_pins(broker: UnitBroker) -> int:
    return sum(segment.handle._pins for log in broker.logs.logs() for segment in log.segments.all())


@pytest.mark.parametrize("version", range(4, 19))
async def test_records_leave_as_they_are_in_the_file(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        row = only(broker.ask(FETCH, version, request(requested())))
        assert (row.error_code, row.high_watermark, records(row)) == (0, 3, BATCH)
        assert row.log_start_offset == (0 if version >= 5 else -1)
        assert open_pins(broker) == 0


async def test_a_fetch_at_the_end_is_answered_when_records_come() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        pending = parked(broker, 12, waiting(requested()))
        assert [timer.seconds for timer in broker.timers.waiting] == [0.5]
        append(broker)
        row = only(answer_of(pending, FETCH, 12))
        assert records(row) == BATCH
        assert row.high_watermark == 3
        assert broker.timers.waiting == [], "and its time is never up"
        assert not broker.parts.replicas.partition("orders", 0).purgatory


async def test_a_fetch_at_the_end_is_answered_when_its_time_is_up() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        pending = parked(broker, 12, waiting(requested()))
        broker.timers.fire()
        row = only(answer_of(pending, FETCH, 12))
        assert (row.error_code, records(row)) == (0, b"")
        assert not broker.parts.replicas.partition("orders", 0).purgatory


async def test_less_than_min_bytes_waits_in_purgatory_and_is_sent_after_max_wait() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        pending = parked(broker, 12, waiting(requested(), min_bytes=3 * len(BATCH)))
        assert open_pins(broker) == 0, "what waits holds no file open"
        append(broker)
        assert not pending.is_answered
        broker.timers.fire()
        assert len(records(only(answer_of(pending, FETCH, 12)))) == 2 * len(BATCH)


async def test_a_fetch_whose_client_disconnected_leaves_nothing_in_purgatory() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        pending = parked(broker, 12, waiting(requested(0), requested(1)))
        pending.abandon()
        assert broker.timers.waiting == []
        for partition in broker.parts.replicas:
            assert not partition.purgatory
        append(broker)
        assert not pending.is_answered


async def test_a_delayed_fetch_is_answered_when_its_partition_gets_another_leader() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        pending = parked(broker, 12, waiting(requested()))
        broker.parts.replicas.stop_replica(TopicPartition("orders", 0), delete=False)
        assert only(answer_of(pending, FETCH, 12)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert broker.timers.waiting == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"offset": 99}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"offset": -5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"index": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"current_leader_epoch": 5}, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
async def test_an_error_does_not_wait(fields: dict[str, int], code: ErrorCode) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        answer = broker.ask(FETCH, 12, waiting(requested(**fields)))
        assert only(answer).error_code == code


async def test_a_failed_log_directory_is_an_error_of_its_partition_and_the_other_is_served() -> None:
    async with a_broker({"log.dirs": "/a,/b"}) as broker:
        await broker.lead("orders", 2)
        append(broker, 1)
        broker.parts.replicas.partition("orders", 0).log.log_dir.failure = OSError("gone")
        append_free = broker.parts.replicas.partition("orders", 0)
        append_free.log.log_end_offset, append_free.leader.high_watermark = 3, 3
        rows = rows_of(broker.ask(FETCH, 12, waiting(requested(0), requested(1))))
        assert rows[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert records(rows[1]) == BATCH


@pytest.mark.parametrize("version", [3, 12])
async def test_the_first_batch_comes_whole_whatever_the_limits(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        append(broker, 0)
        append(broker, 1)
        rows = rows_of(broker.ask(FETCH, version, request(requested(0, size=1), requested(1, size=1), max_bytes=1)))
        assert records(rows[0])
        assert records(rows[1]) == b""


async def test_what_the_first_partition_leaves_is_the_second_ones() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        for index in (0, 0, 1, 1):
            append(broker, index)
        size = len(BATCH)
        rows = rows_of(broker.ask(FETCH, 12, request(requested(0), requested(1), max_bytes=3 * size)))
        assert (len(records(rows[0])), len(records(rows[1]))) == (2 * size, size)
        rows = rows_of(broker.ask(FETCH, 12, request(requested(0), requested(1), max_bytes=2 * size)))
        assert (len(records(rows[0])), records(rows[1])) == (2 * size, b"")
        rows = rows_of(broker.ask(FETCH, 12, request(requested(1), requested(0), max_bytes=2 * size)))
        assert (records(rows[0]), len(records(rows[1]))) == (b"", 2 * size), "in the order of the request"


async def test_a_batch_that_does_not_fit_behind_the_first_is_left_for_the_next_fetch() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        append(broker, 0)
        append(broker, 1)
        rows = rows_of(broker.ask(FETCH, 12, request(requested(0), requested(1, size=len(BATCH) - 1))))
        assert records(rows[0]) == BATCH
        assert records(rows[1]) == b""
        assert open_pins(broker) == 0


async def test_the_brokers_own_limit_bounds_every_answer() -> None:
    async with a_broker({"fetch.max.bytes": "1024"}) as broker:
        await broker.lead("orders")
        for _ in range(30):
            append(broker)
        row = only(broker.ask(FETCH, 12, request(requested(size=2**31 - 1), max_bytes=2**31 - 1)))
        assert len(records(row)) <= 1024


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
async def test_negative_limits_are_none_at_all(limit: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        append(broker, 0)
        append(broker, 1)
        rows = rows_of(
            broker.ask(FETCH, 12, request(requested(0, size=limit), requested(1, size=limit), max_bytes=limit))
        )
        assert records(rows[0]) == BATCH
        assert records(rows[1]) == b""


async def test_before_version_3_an_answer_is_never_larger_than_the_requested_bytes() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        append(broker)
        whole = records(only(broker.ask(FETCH, 2, request(requested()))))
        for size in (0, 1, len(BATCH), len(whole) - 1):
            found = records(only(broker.ask(FETCH, 2, request(requested(size=size)))))
            assert len(found) <= size
            assert whole.startswith(found) or is_beginning_of_a_message(found)


def is_beginning_of_a_message(found: bytes | memoryview) -> bool:
    """Whether a client that reads the size in front of a message takes a larger buffer."""
    return len(found) < 12 or int.from_bytes(found[8:12]) > len(found)


async def test_before_version_3_a_buffer_too_small_for_the_first_batch_gets_the_beginning_of_a_message() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        for version in (0, 1, 2):
            for size in (1, 12, len(BATCH) - 1):
                found = records(only(broker.ask(FETCH, version, request(requested(size=size)))))
                assert 0 < len(found) <= size
                assert is_beginning_of_a_message(found)
            assert (
                records(
                    only(broker.ask(FETCH, version, request(requested(offset=read_header(BATCH).next_offset, size=10))))
                )
                == b""
            )


async def test_before_version_3_a_whole_batch_of_which_such_clients_see_nothing_is_no_beginning_of_a_message() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        marker = build_marker(Marker(COMMIT, 1), producer_id=5, producer_epoch=0, timestamp_ms=1)
        partition = broker.parts.replicas.partition("orders", 0)
        partition.append(CheckedBatches(memoryview(marker), [(0, read_header(marker))]), 0, all_replicas=True)
        partition.notify_purgatory()
        assert len(records(only(broker.ask(FETCH, 4, request(requested()))))) == len(marker)
        assert records(only(broker.ask(FETCH, 2, request(requested())))) == b""


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
async def test_old_versions_get_the_format_they_know(version: int, magic: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        found = records(only(broker.ask(FETCH, version, request(requested()))))
        assert found[16] == magic
        assert open_pins(broker) == 0


async def test_old_versions_get_nothing_where_down_conversion_is_off() -> None:
    async with a_broker({"log.message.downconversion.enable": "false"}) as broker:
        await broker.lead("orders")
        append(broker)
        row = only(broker.ask(FETCH, 3, request(requested())))
        assert (row.error_code, records(row)) == (ErrorCode.UNSUPPORTED_VERSION, b"")
        assert open_pins(broker) == 0
        assert records(only(broker.ask(FETCH, 4, request(requested())))) == BATCH


async def test_a_client_that_calls_itself_a_follower_gets_nothing() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        for version, fields in ((12, {"replica_id": 1}), (16, {"replica_state": ReplicaState(replica_id=1)})):
            row = only(broker.ask(FETCH, version, waiting(requested(), **fields)))
            assert (row.error_code, records(row)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")


async def test_a_committed_reader_stops_before_an_open_transaction() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        append(broker, batch=an_idempotent_batch(transactional=True))
        row = only(broker.ask(FETCH, 12, request(requested(), isolation_level=1)))
        assert (row.high_watermark, row.last_stable_offset) == (6, 3)
        assert records(row) == BATCH
        assert row.aborted_transactions == []
        row = only(broker.ask(FETCH, 12, request(requested(offset=3), isolation_level=1)))
        assert (records(row), row.aborted_transactions) == (b"", [])
        row = only(broker.ask(FETCH, 12, request(requested())))
        assert len(records(row)) > len(BATCH)
        assert row.aborted_transactions is None


async def test_an_unknown_isolation_level_is_refused_for_every_partition() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        answer = broker.ask(FETCH, 12, request(requested(), isolation_level=2))
        assert (answer.error_code, only(answer).error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST)


async def test_a_reader_whose_log_diverges_gets_the_diverging_epoch_and_its_end_offset() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=1)
        append(broker)
        await broker.lead("orders", epoch=5)
        append(broker)
        row = only(broker.ask(FETCH, 12, waiting(requested(offset=4, last_fetched_epoch=3))))
        assert (row.diverging_epoch.epoch, row.diverging_epoch.end_offset) == (1, 3)
        assert records(row) == b""
        row = only(broker.ask(FETCH, 12, request(requested(offset=3, last_fetched_epoch=1))))
        assert row.diverging_epoch is None
        assert records(row)


async def test_an_unknown_topic_id_and_an_unknown_partition_have_different_error_codes() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        assert (
            only(broker.ask(FETCH, 13, request(requested(), topic="nothing"))).error_code == ErrorCode.UNKNOWN_TOPIC_ID
        )
        row = only(broker.ask(FETCH, 13, request(requested(9))))
        assert row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Sessions.


async def test_a_sessions_incremental_answer_holds_only_what_is_news() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 3)
        append(broker, 0)
        opened = broker.ask(FETCH, 12, request(requested(0), requested(1), requested(2), session_epoch=0))
        assert opened.session_id > 0
        assert sorted(rows_of(opened)) == [0, 1, 2], "the first answer is complete"
        step = {"session_id": opened.session_id, "topics": []}
        nothing = FetchRequest(**step, session_epoch=1)
        assert sorted(rows_of(broker.ask(FETCH, 12, nothing))) == [0], "its records were not read past"
        past = FetchRequest(**{**step, "topics": request(requested(0, offset=3)).topics}, session_epoch=2)
        assert rows_of(broker.ask(FETCH, 12, past)) == {}
        append(broker, 2)
        found = rows_of(broker.ask(FETCH, 12, FetchRequest(**step, session_epoch=3)))
        assert list(found) == [2]
        assert records(found[2]) == BATCH


async def test_a_session_receives_a_high_watermark_that_moved_without_records() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        opened = broker.ask(FETCH, 12, request(requested(offset=0), session_epoch=0))
        append(broker)
        reported = broker.ask(
            FETCH,
            12,
            FetchRequest(session_id=opened.session_id, session_epoch=1, topics=request(requested(offset=3)).topics),
        )
        assert only(reported).high_watermark == 3
        again = broker.ask(FETCH, 12, FetchRequest(session_id=opened.session_id, session_epoch=2))
        assert rows_of(again) == {}


async def test_a_session_receives_an_error_until_it_is_over() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        opened = broker.ask(FETCH, 12, request(requested(offset=99), session_epoch=0))
        for epoch in (1, 2):
            reported = broker.ask(FETCH, 12, FetchRequest(session_id=opened.session_id, session_epoch=epoch))
            assert only(reported).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        healed = FetchRequest(session_id=opened.session_id, session_epoch=3, topics=request(requested(offset=0)).topics)
        assert only(broker.ask(FETCH, 12, healed)).error_code == 0, "that it is over is news, too"


async def test_a_partition_that_was_served_goes_behind_the_others_of_its_session() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        append(broker, 0)
        append(broker, 1)
        opened = broker.ask(FETCH, 12, request(requested(0), requested(1), session_epoch=0, max_bytes=1))
        assert records(rows_of(opened)[0])
        served = []
        for epoch in range(1, 5):
            step = FetchRequest(session_id=opened.session_id, session_epoch=epoch, max_bytes=1)
            served += [index for index, row in rows_of(broker.ask(FETCH, 12, step)).items() if records(row)]
        assert sorted(served[:2]) == sorted(served[2:]) == [0, 1], "no partition starves"


async def test_a_session_that_is_not_known_is_refused_as_a_whole() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        answer = broker.ask(FETCH, 12, request(requested(), session_id=77, session_epoch=3))
        assert (answer.error_code, answer.responses) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, [])


async def test_a_delayed_fetch_of_a_session_is_answered_with_the_partition_that_got_records() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        opened = broker.ask(FETCH, 12, request(requested(0), requested(1), session_epoch=0))
        step = FetchRequest(session_id=opened.session_id, session_epoch=1, max_wait_ms=500, min_bytes=1)
        pending = parked(broker, 12, step)
        append(broker, 1)
        assert list(rows_of(answer_of(pending, FETCH, 12))) == [1]


async def test_slices_that_are_never_sent_are_given_back() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)  # A fetch of one partition gets copies of cached records.
        pending = parked(broker, 12, waiting(requested(0), requested(1)))
        append(broker)
        assert open_pins(broker) == 1
        pending.abandon()
        assert open_pins(broker) == 0


async def test_batches_keep_their_order_and_offsets() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME,))
        for _ in range(3):
            append(broker)
        parts = broker.serve(FETCH, 12, request(requested(offset=4)))
        assert isinstance(parts, list)
        slices = [part for part in parts if hasattr(part, "file")]
        assert [(piece.position, piece.size) for piece in slices] == [(len(BATCH), 2 * len(BATCH))], (
            "one slice, by reference"
        )
        data = slices[0].read()
        assert [read_header(data, at).base_offset for at in (0, len(BATCH))] == [3, 6]
        joined(parts)


async def test_more_than_an_answer_may_hold_is_not_waited_for() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        row = only(broker.ask(FETCH, 12, waiting(requested(), min_bytes=PLENTY, max_bytes=len(BATCH))))
        assert records(row) == BATCH


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_a_negative_limit_is_no_room_for_old_readers_either(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        append(broker)
        row = only(broker.ask(FETCH, version, request(requested(size=-5))))
        assert (row.error_code, records(row)) == (0, b"")
