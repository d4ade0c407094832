"""Rounds of a follower that are driven by callbacks: when they begin, what they send, and what ends them."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.records.enclosing import length_field
from sordini.protocol.types import NO_TOPIC_ID, TopicPartition
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.fetching.tail_rounds import FRAME_BYTES_MAX, STREAK_MIN, TailRounds
from sordini.replication.inter_broker_versions import InterBrokerVersions, versions_for
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.testing.simulation.virtual_loop import SimLoop, elapse
from tests.support.replica_pair import LEADER, NAME, Pair, in_virtual_time

SECOND = TopicPartition("orders", 1)
PROTOCOLS = {
    "without sessions": versions_for((1, 0), 0),
    "by name, classic": versions_for((2, 3), 1),
    "by name": versions_for((2, 7), 2),
    "by id": versions_for((3, 0), 1),
    "with the broker epoch": versions_for((3, 9), 0),
}


async def trickle(pair: Pair, records: int, name: TopicPartition = NAME, **fields: Any) -> None:
    """Append one record at a time, each when the follower has the one before."""
    for _ in range(records):
        pair.leader.append(1, name, **fields)
        await pair.until(lambda: pair.is_equal(name))


async def in_rounds(pair: Pair) -> None:
    """Let rounds begin."""
    await trickle(pair, 2 * STREAK_MIN)
    assert pair.wire.rounds > 0


def fetches(pair: Pair) -> list[FetchRequest]:
    return pair.wire.of(FetchRequest)


@pytest.mark.parametrize("versions", PROTOCOLS.values(), ids=PROTOCOLS)
def test_after_some_small_responses_for_one_partition_its_requests_are_patched(versions: InterBrokerVersions) -> None:
    """Every request says what the general way would say: the same script without rounds sends the same."""

    async def requests(loop: SimLoop, *, has_rounds: bool) -> list[FetchRequest]:
        pair = Pair(loop, versions=versions)
        pair.wire.has_rounds = has_rounds
        pair.assign(topic_id=None if versions.uses_topic_ids else NO_TOPIC_ID)
        await pair.until(lambda: bool(pair.led().log_end_waiters.purgatory))
        await trickle(pair, 20)
        led = pair.led().log
        led.advance_log_start(10)  # The follower's answer to that is in its next request.
        await trickle(pair, 3)
        pair.leader.append(5, value=bytes(FRAME_BYTES_MAX))
        await pair.until(pair.is_equal)
        await trickle(pair, 5)
        await elapse(1.2)
        await trickle(pair, 5)
        assert (pair.wire.rounds > 15) == (has_rounds and versions.fetch >= 7)
        sent = fetches(pair)
        assert pair.log.lines == []
        await pair.stop()
        return sent

    sent: list[list[FetchRequest]] = []

    async def both(loop: SimLoop) -> None:
        sent.append(await requests(loop, has_rounds=len(sent) == 0))

    in_virtual_time(both)
    in_virtual_time(both)
    assert sent[0] == sent[1]


def test_a_partition_that_is_added_is_fetched_after_the_response_in_flight() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        pair.assign(SECOND)
        pair.leader.append(1, SECOND)
        await trickle(pair, 1)
        await pair.until(lambda: pair.is_equal(SECOND), 0.1)
        await pair.stop()

    in_virtual_time(test)


def test_a_new_leader_epoch_ends_the_rounds_and_is_in_the_next_request() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        pair.assign(epoch=1)
        await trickle(pair, 5)
        last = [requested for fetch in fetches(pair) for topic in fetch.topics for requested in topic.partitions][-1]
        assert (last.current_leader_epoch, last.last_fetched_epoch) == (1, 1)
        assert pair.log.lines == []
        await pair.stop()

    in_virtual_time(test)


def test_records_that_cannot_be_appended_in_a_round_are_logged_once_and_fetched_again() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        pair.disk.fail_while(lambda call, _path: call == "write", errno.ENOSPC)
        before = pair.followed().log.log_end_offset
        pair.leader.append(1)
        await elapse(2.5)
        assert pair.followed().log.log_end_offset == before
        pair.disk.heal_faults()
        await pair.until(pair.is_equal)
        await pair.stop()

    in_virtual_time(test)


def test_damaged_records_are_not_appended_in_a_round() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        pair.wire.damaged = 1
        pair.leader.append(1)
        await pair.until(pair.is_equal)
        assert [event for _, event, _ in pair.log.lines] == ["fetched records not appended"]
        await pair.stop()

    in_virtual_time(test)


def test_what_a_round_appended_is_flushed_before_the_next_request_where_that_is_due() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop, flush_messages=STREAK_MIN * 3)
        pair.assign()
        await trickle(pair, STREAK_MIN * 3 - 1)
        assert pair.wire.rounds > 0
        assert pair.followed().log.recovery_point == 0
        await trickle(pair, 1)
        await elapse(0.001)
        assert pair.followed().log.recovery_point == STREAK_MIN * 3
        await pair.stop()

    in_virtual_time(test)


def test_with_a_quota_there_are_no_rounds_and_one_that_comes_ends_them() -> None:
    async def test(loop: SimLoop) -> None:
        quota = ReplicaQuota(lambda _: True)
        pair = Pair(loop, quota=quota)
        pair.assign()
        await in_rounds(pair)
        quota.limit(10**9)
        await trickle(pair, 1)
        rounds = pair.wire.rounds
        await trickle(pair, 10)
        assert pair.wire.rounds == rounds
        await pair.stop()

    in_virtual_time(test)


def test_the_end_of_following_ends_the_rounds_and_closes_the_session() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        await pair.stop()
        assert fetches(pair)[-1].session_epoch == -1
        assert len(pair.leader.sessions) == 0

    in_virtual_time(test)


def test_epochs_that_end_in_fetched_records_are_in_the_next_request_as_without_rounds() -> None:
    sent: list[list[FetchRequest]] = []

    async def catch_up(loop: SimLoop) -> None:
        pair = Pair(loop, settings=FetchSettings(partition_bytes_max=1, response_bytes_max=1))
        pair.wire.has_rounds = len(sent) == 0
        pair.assign()
        pair.wire.leaders.clear()
        for epoch in range(1, 6):
            pair.assign(epoch=epoch, isr=(LEADER,))
            for _ in range(5):
                pair.leader.append(1)
        pair.wire.leaders[LEADER] = pair.leader
        await pair.until(pair.is_equal)
        sent.append(fetches(pair))
        assert (pair.wire.rounds > 5) == pair.wire.has_rounds
        await pair.stop()

    in_virtual_time(catch_up)
    in_virtual_time(catch_up)
    assert named(sent[0]) == named(sent[1])
    assert {epoch for _, epoch in named(sent[0])} == {-1, *range(1, 6)}


def named(requests: list[FetchRequest]) -> list[tuple[int, int]]:
    """(fetch offset, last fetched epoch) of every partition that was requested."""
    rows = [row for request in requests for topic in request.topics for row in topic.partitions]
    return [(row.fetch_offset, row.last_fetched_epoch) for row in rows]


def test_a_broker_that_registered_again_says_so_in_the_next_request() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        pair.broker_epoch = 4712
        await trickle(pair, 2)
        await elapse(0.001)
        assert fetches(pair)[-1].replica_state.replica_epoch == 4712
        await pair.stop()

    in_virtual_time(test)


def test_a_partition_that_is_removed_during_a_round_is_forgotten_by_the_leader() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign(SECOND)
        pair.assign()
        await in_rounds(pair)
        pair.fetchers.remove_partition(pair.followed())
        before = len(fetches(pair))
        for _ in range(3):
            pair.leader.append(1)
            await elapse(0.7)
        forgotten = [topic.partitions for fetch in fetches(pair)[before:] for topic in fetch.forgotten_topics_data]
        assert forgotten == [[NAME.partition]]
        assert len(fetches(pair)) - before < 10
        await pair.stop()

    in_virtual_time(test)


def test_records_for_a_partition_that_was_removed_are_not_appended() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        followed, end = pair.followed(), pair.followed().log.log_end_offset
        pair.fetchers.remove_partition(followed)
        pair.leader.append(1)
        await elapse(1.0)
        assert followed.log.log_end_offset == end
        await pair.stop()

    in_virtual_time(test)


@pytest.mark.parametrize("versions", [PROTOCOLS["by name, classic"], PROTOCOLS["with the broker epoch"]])
def test_any_other_response_is_not_taken_and_changes_nothing(versions: InterBrokerVersions) -> None:
    """A response with any byte changed, outside of its numbers and records, is left to the general way."""

    async def test(loop: SimLoop) -> None:
        pair = Pair(loop, versions=versions)
        pair.assign(topic_id=None if versions.uses_topic_ids else NO_TOPIC_ID)
        await in_rounds(pair)
        rounds, answer = pair.wire.frames[-1]
        assert isinstance(rounds, TailRounds)
        frame, log = answer[4:], pair.followed().log
        watermarks = rounds._watermarks_at
        records = range(rounds._records_at + len(rounds._length_field), len(frame) - len(rounds._tags))
        state = log.log_end_offset, log.high_watermark, rounds.session_epoch
        for at in [*range(4, watermarks), *range(watermarks + 24, records.start), *range(records.stop, len(frame))]:
            changed = bytearray(frame)
            changed[at] ^= 1
            assert rounds.on_response(memoryview(changed)) is None, at
            assert not rounds.is_taken, at
        for cut in range(len(frame)):
            assert rounds.on_response(memoryview(frame)[:cut]) is None, cut
            assert not rounds.is_taken, cut
        tags = len(rounds._tags)
        start = frame[records.start : records.start + 30]  # Not a whole batch.
        length = length_field(len(start) + 4 - 3 * bool(tags), is_flexible=bool(tags))
        part = frame[: rounds._records_at] + length + start + frame[len(frame) - tags :]
        assert rounds.on_response(memoryview(part)) is None
        assert not rounds.is_taken
        assert rounds.on_response(memoryview(frame)) is None, (
            "without a change it is looked at, and refused: no new offset"
        )
        assert rounds.is_taken
        assert (log.log_end_offset, log.high_watermark, rounds.session_epoch) == state
        await pair.stop()

    in_virtual_time(test)


def test_a_long_response_is_left_to_the_task() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await in_rounds(pair)
        pair.leader.append(2, value=bytes(FRAME_BYTES_MAX))
        await pair.until(pair.is_equal)
        (rounds, answer) = pair.wire.frames[-1]
        assert len(answer) > FRAME_BYTES_MAX
        assert not rounds.is_taken
        await pair.stop()

    in_virtual_time(test)


def test_rounds_that_took_nothing_are_not_tried_again_at_once() -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop)
        pair.assign()
        await pair.until(lambda: bool(pair.led().log_end_waiters.purgatory))
        await trickle(pair, STREAK_MIN)
        begun = len(pair.wire.frames)
        pair.leader.append(2, value=bytes(FRAME_BYTES_MAX))  # What the first rounds get.
        await pair.until(pair.is_equal)
        assert len(pair.wire.frames) == begun + 1
        await trickle(pair, 2 * STREAK_MIN)
        assert len(pair.wire.frames) == begun + 1
        await pair.stop()

    in_virtual_time(test)
