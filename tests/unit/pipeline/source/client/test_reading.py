"""What becomes of a reading when leaders move, brokers stop, and logs lose what is to be read."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sordini.pipeline.errors import PipelineError
from sordini.pipeline.source.client import (
    Client,
    Fetched,
    NoProgress,
    OffsetLost,
    Refused,
    TopicRecreated,
    Unauthorized,
    UnknownTopic,
    Unreachable,
)
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from sordini.protocol.types import TopicPartition, topic_id_text
from tests.support.fake_cluster import TOPIC, FakeWorld

ORDERS = TopicPartition(TOPIC, 0)


@pytest.fixture
def world() -> FakeWorld:
    """Ten batches of ten records; each fetch brings two of them."""
    made = FakeWorld()
    for _ in range(10):
        made.log.add(10)
    return made


def a_client(world: FakeWorld, **options: object) -> Client:
    two_batches = 2 * len(world.log.batches[-1][2]) if world.log.batches else 1_000
    return Client(world.settings(**{"max_partition_fetch_bytes": two_batches, **options}), world.outside())


def read(world: FakeWorld, start: int = 0, end: int = 100, *, read_committed: bool = False, **options: object) -> bytes:
    with a_client(world, **options) as client:
        fetches = list(client.read(ORDERS, start, end, read_committed=read_committed))
    assert fetches[-1].next_offset >= end
    return b"".join(fetched.records for fetched in fetches)


def nothing() -> None:
    """Where nothing happens."""


def log_bytes(world: FakeWorld, start: int = 0, end: int = 100) -> bytes:
    return b"".join(data for base, behind, data in world.log.batches if behind > start and base < end)


def test_a_range_is_read_whole_and_no_batch_twice(world: FakeWorld) -> None:
    assert read(world) == log_bytes(world)
    assert [asked.fetch_offset for _, asked in world.fetches] == [0, 20, 40, 60, 80]
    assert not world.pauses


@given(start=st.integers(0, 99), length=st.integers(1, 100), size=st.integers(1, 2_000))
def test_every_range_is_the_batches_that_overlap_it(start: int, length: int, size: int) -> None:
    world = FakeWorld()
    for count in (1, 30, 2, 7, 20, 40):
        world.log.add(count)
    end = min(start + length, 100)
    assert read(world, start, end, max_partition_fetch_bytes=size) == log_bytes(world, start, end)


def test_the_next_fetch_leaves_before_its_predecessor_is_worked_on(world: FakeWorld) -> None:
    with a_client(world) as client:
        fetches = client.read(ORDERS, 0, 100)
        assert next(fetches).next_offset == 20
        assert [asked.fetch_offset for _, asked in world.fetches] == [0, 20]


def test_nothing_is_fetched_behind_the_end(world: FakeWorld) -> None:
    read(world, 0, 40)
    assert [asked.fetch_offset for _, asked in world.fetches] == [0, 20]


def test_an_empty_range_sends_no_request(world: FakeWorld) -> None:
    with a_client(world) as client:
        assert list(client.read(ORDERS, 7, 7)) == []
    assert world.opened == 0


def test_towards_the_end_no_more_is_asked_for_than_is_likely_to_be_left() -> None:
    world = FakeWorld()
    for _ in range(100):
        world.log.add(100)
    read(world, 0, 9_900, max_partition_fetch_bytes=len(log_bytes(world, 0, 9_000)))
    assert world.fetches[-1][1].partition_max_bytes < 100_000 < world.fetches[0][1].partition_max_bytes


def test_a_batch_larger_than_a_fetch_is_asked_for_with_more_room(world: FakeWorld) -> None:
    assert read(world, max_partition_fetch_bytes=50) == log_bytes(world)


def test_a_leader_that_moves_is_followed(world: FakeWorld) -> None:
    def move() -> None:
        world.log.leader, world.log.epoch = 2, 6

    world.on_fetch = [nothing, move]
    assert read(world) == log_bytes(world)
    assert [broker for broker, _ in world.fetches] == [1, 1, 2, 2, 2, 2]
    assert world.fetches[-1][1].current_leader_epoch == 6


def test_a_fetch_tells_the_leader_epoch_and_that_of_the_last_record(world: FakeWorld) -> None:
    read(world)
    asked = [(one.current_leader_epoch, one.last_fetched_epoch) for _, one in world.fetches]
    assert asked == [(5, -1), (5, 5), (5, 5), (5, 5), (5, 5)]


def test_older_metadata_is_not_believed(world: FakeWorld) -> None:
    world.log.leader, world.log.epoch = 2, 6
    world.believed[1] = (1, 5)  # Broker 1 has stale metadata.
    world.on_pause = [nothing, nothing, world.down.clear]
    with a_client(world) as client:
        client._topics.find([TOPIC])
        world.down.add(1)
        fetches = client.read(ORDERS, 0, 100)
        next(fetches)
        world.down ^= {1, 2}
        assert list(fetches)[-1].next_offset == 100
    assert {(broker, asked.current_leader_epoch) for broker, asked in world.fetches} == {(2, 6)}


def test_a_broker_that_restarts_costs_pauses_and_no_record(world: FakeWorld) -> None:
    world.on_pause = [nothing, nothing, nothing, nothing, world.down.clear]
    with a_client(world) as client:
        fetches = client.read(ORDERS, 0, 100)
        found = [next(fetches)]
        world.down |= {1, 2}
        found += fetches
    assert b"".join(fetched.records for fetched in found) == log_bytes(world)
    assert len(world.pauses) == 5


def test_brokers_that_stay_away_end_the_reading_after_the_time_for_a_call(world: FakeWorld) -> None:
    with a_client(world, default_api_timeout_ms=5_000) as client:
        fetches = client.read(ORDERS, 0, 100)
        next(fetches)
        world.down |= {1, 2}
        began = world.now
        with pytest.raises(Unreachable, match=r"connection refused.*\(tried for 5 s\)"):
            list(fetches)
    assert world.now == pytest.approx(began + 5)
    assert max(world.pauses) <= 1


def test_time_that_the_caller_takes_is_not_counted(world: FakeWorld) -> None:
    with a_client(world, default_api_timeout_ms=5_000) as client:
        for fetched in client.read(ORDERS, 0, 100):
            assert isinstance(fetched, Fetched)
            world.now += 3_600
            world.log.leader, world.log.epoch = 3 - world.log.leader, world.log.epoch + 1  # To be waited for.
    assert world.pauses


def test_a_partition_without_a_leader_is_waited_for(world: FakeWorld) -> None:
    world.log.leader = -1
    with a_client(world, default_api_timeout_ms=5_000) as client, pytest.raises(Unreachable, match="has no leader"):
        list(client.read(ORDERS, 0, 100))


def test_retention_that_passed_the_reader_is_reported_with_the_remaining_offsets(world: FakeWorld) -> None:
    def retain() -> None:
        world.log.start = 50
        world.log.batches = [batch for batch in world.log.batches if batch[1] > 50]

    world.on_fetch = [nothing, retain]
    with a_client(world) as client, pytest.raises(OffsetLost, match="30 offsets were deleted") as caught:
        list(client.read(ORDERS, 0, 100))
    lost = caught.value
    assert (lost.partition, lost.asked, lost.log_start_offset, lost.log_end_offset) == (ORDERS, 20, 50, 100)


def test_an_offset_beyond_the_log_is_reported(world: FakeWorld) -> None:
    with a_client(world) as client, pytest.raises(OffsetLost, match="the log ends before it") as caught:
        list(client.read(ORDERS, 150, 160))
    assert caught.value.log_end_offset == 100


def test_an_offset_that_is_out_of_range_for_a_moment_is_asked_for_again(world: FakeWorld) -> None:
    def find_the_end() -> None:
        world.log.end = 100

    world.log.end = 10
    world.after_fetch = [find_the_end]
    assert read(world, 20, 100) == log_bytes(world, 20, 100)
    assert len(world.pauses) == 1


def test_a_truncated_log_is_found_by_its_epochs(world: FakeWorld) -> None:
    def cut() -> None:
        world.log.diverging = (4, 15)

    world.on_fetch = [nothing, cut]
    with a_client(world) as client, pytest.raises(OffsetLost, match="an unclean election truncated the log") as caught:
        list(client.read(ORDERS, 0, 100))
    assert (caught.value.asked, caught.value.log_end_offset) == (20, 15)


@pytest.mark.parametrize("end_offset", [-1, 100])
def test_before_a_log_is_reported_truncated_its_leader_gets_a_request_for_the_last_epochs_end(
    world: FakeWorld, end_offset: int
) -> None:
    def answer(request: OffsetForLeaderEpochRequest, version: int) -> OffsetForLeaderEpochResponse:
        asked = request.topics[0].partitions[0]
        assert (asked.current_leader_epoch, asked.leader_epoch) == (5, 5)
        world.log.unknown_epoch = -1
        rows = [EpochEndOffset(partition=0, leader_epoch=5, end_offset=end_offset)]
        return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic=TOPIC, partitions=rows)])

    world.answers[OffsetForLeaderEpochRequest] = answer
    world.log.unknown_epoch = 5
    if end_offset >= 0:
        assert read(world) == log_bytes(world)
    else:
        with a_client(world) as client, pytest.raises(OffsetLost, match="an unclean election truncated the log"):
            list(client.read(ORDERS, 0, 100))


@pytest.mark.parametrize("fetch_version", [18, 12])
def test_a_recreated_topic_is_not_read_further(world: FakeWorld, fetch_version: int) -> None:
    def recreate() -> None:
        world.topic_id = b"\2" * 16
        world.log.leader, world.log.epoch = 2, 0

    world.versions[1] = fetch_version
    world.on_fetch = [nothing, recreate]
    with a_client(world) as client, pytest.raises(TopicRecreated) as caught:
        list(client.read(ORDERS, 0, 100))
    assert caught.value.expected_id == topic_id_text(b"\1" * 16)  # type: ignore[arg-type]
    assert caught.value.found_id == topic_id_text(b"\2" * 16)  # type: ignore[arg-type]


def test_a_topic_recreated_before_the_read_is_found_by_its_id(world: FakeWorld) -> None:
    with a_client(world) as client:
        noted = client.topic_ids([TOPIC])[TOPIC]
        assert list(client.read(ORDERS, 0, 100, topic_id=noted))
        world.topic_id = b"\2" * 16
        with a_client(world) as later, pytest.raises(TopicRecreated):
            list(later.read(ORDERS, 0, 100, topic_id=noted))
    assert world.fetches


def test_a_deleted_topic_is_reported_after_a_while(world: FakeWorld) -> None:
    def delete() -> None:
        world.topic_there = False
        world.log.leader = 2

    world.on_fetch = [nothing, delete]
    with a_client(world) as client, pytest.raises(UnknownTopic, match="no topic 'orders'"):
        list(client.read(ORDERS, 0, 100))
    assert 10 <= world.now - 1_000 < 15


def test_a_missing_partition_is_reported(world: FakeWorld) -> None:
    with a_client(world) as client, pytest.raises(UnknownTopic, match=r"has no partition 7 \(it has 1, from 0 on\)"):
        list(client.read(TopicPartition(TOPIC, 7), 0, 100))


def test_gaps_of_compaction_are_passed_over(world: FakeWorld) -> None:
    kept = [0, 3, 4, 9]
    world.log.batches = [world.log.batches[index] for index in kept]
    assert read(world) == log_bytes(world)
    assert read(world, 12, 29) == b""
    assert read(world, 12, 35) == log_bytes(world, 30, 35)


def test_an_end_whose_last_records_were_compacted_away_is_reached(world: FakeWorld) -> None:
    del world.log.batches[7:]
    assert read(world) == log_bytes(world)
    assert len(world.fetches) == 4 + 3


def test_records_that_remote_storage_returns_late_are_no_gap(world: FakeWorld) -> None:
    world.log.local_start, world.log.withheld = 60, 9
    assert read(world) == log_bytes(world)
    world.log.withheld = 10_000
    with (
        a_client(world, default_api_timeout_ms=5_000) as client,
        pytest.raises(NoProgress, match="remote storage does not return the records from offset 20"),
    ):
        list(client.read(ORDERS, 20, 100))


def test_a_broker_that_does_not_know_remote_storage_has_none(world: FakeWorld) -> None:
    world.versions[2] = 7
    del world.log.batches[7:]
    assert read(world) == log_bytes(world)


def test_an_open_transaction_holds_a_committed_reading_up_and_is_named(world: FakeWorld) -> None:
    world.log.stable = 40
    assert read(world, 0, 40, read_committed=True) == log_bytes(world, 0, 40)
    with (
        a_client(world, default_api_timeout_ms=5_000) as client,
        pytest.raises(NoProgress, match="an open transaction holds back the records from offset 40"),
    ):
        list(client.read(ORDERS, 0, 100, read_committed=True))


def test_an_end_that_is_not_there_yet_is_waited_for(world: FakeWorld) -> None:
    world.on_fetch = [nothing] * 5 + [lambda: world.log.add(10)]
    assert read(world, 90, 110) == log_bytes(world, 90, 110)


def test_aborted_transactions_come_with_the_records(world: FakeWorld) -> None:
    world.log.aborted = [(7, 12)]
    with a_client(world) as client:
        fetched = next(client.read(ORDERS, 0, 100, read_committed=True))
    assert fetched.aborted == [(7, 12)]
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (100, 100, 0)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Unauthorized),
        (ErrorCode.CORRUPT_MESSAGE, Refused),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, Refused),
    ],
)
def test_an_error_that_is_not_retriable_is_raised_at_once(
    world: FakeWorld, code: ErrorCode, error: type[Exception]
) -> None:
    world._refusal = lambda broker, epoch: code  # type: ignore[method-assign]
    with a_client(world) as client, pytest.raises(error, match=code.name):
        list(client.read(ORDERS, 0, 100))
    assert not world.pauses


def test_records_that_are_no_batches_are_handed_on_and_end_the_reading(world: FakeWorld) -> None:
    world.log.batches = [(0, 100, b"\xff" * 80)]
    with a_client(world, max_partition_fetch_bytes=1_000) as client:
        fetches = client.read(ORDERS, 0, 100)
        assert next(fetches).records == b"\xff" * 80
        with pytest.raises(Refused, match="no batch at 0"):
            next(fetches)


def test_a_reading_that_is_given_up_leaves_the_client_in_order(world: FakeWorld) -> None:
    with a_client(world) as client:
        fetches = client.read(ORDERS, 0, 100)
        next(fetches)
        fetches.close()  # type: ignore[attr-defined]
        assert client.offsets({ORDERS: -1}) == {ORDERS: 100}
        assert not world.pauses  # The answer that was still to come was taken for no other.
        assert len(list(client.read(ORDERS, 0, 100))) == 5


def test_a_copy_near_by_is_read_from_until_it_fails(world: FakeWorld) -> None:
    world.log.nearby = 2
    with a_client(world, client_rack="here") as client:
        fetches = client.read(ORDERS, 0, 100)
        found = [next(fetches), next(fetches)]
        assert [broker for broker, _ in world.fetches] == [1, 2, 2, 2]
        world.down.add(2)
        world.log.nearby = -1
        found += fetches
    assert b"".join(fetched.records for fetched in found) == log_bytes(world)
    assert {broker for broker, _ in world.fetches[4:]} == {1}


def test_the_leader_is_asked_again_for_a_copy_near_by_after_a_while(world: FakeWorld) -> None:
    world.log.nearby = 2
    with a_client(world, client_rack="here") as client:
        for _ in client.read(ORDERS, 0, 100):
            world.now += 200
    assert [broker for broker, _ in world.fetches] == [1, 2, 2, 2, 1, 2, 2]


def test_two_readings_at_once_do_not_disturb_each_other(world: FakeWorld) -> None:
    with a_client(world) as client:
        pairs = zip(client.read(ORDERS, 0, 100), client.read(ORDERS, 0, 100), strict=True)
        assert all(one.records == other.records for one, other in pairs)


def test_a_client_that_is_closed_reads_no_more(world: FakeWorld) -> None:
    with a_client(world) as client:
        fetches = client.read(ORDERS, 0, 100)
        next(fetches)
    with pytest.raises(PipelineError, match="closed"):
        list(fetches)
