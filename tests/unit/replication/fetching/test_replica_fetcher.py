"""How a broker fetches what it follows."""

from __future__ import annotations

import errno
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from sordini.protocol.messages.fetch import FetchRequest
from sordini.protocol.messages.list_offsets import ListOffsetsRequest
from sordini.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from sordini.protocol.types import NO_TOPIC_ID, LeaderEpoch, TopicPartition
from sordini.replication.fetching.messages import FetchSettings
from sordini.replication.inter_broker_versions import versions_for
from sordini.replication.leader import Term
from sordini.replication.replica_throttling import ReplicaQuota
from sordini.testing.simulation.virtual_loop import SimLoop, elapse
from tests.support.builders import a_batch
from tests.support.partitions import checked
from tests.support.replica_pair import FOLLOWER, LEADER, NAME, Pair, in_virtual_time

SECOND = TopicPartition("orders", 1)
OTHER = TopicPartition("others", 0)
LATE = versions_for((3, 9), 0)
BEFORE_DIVERGING_EPOCHS = versions_for((2, 7), 0)


def virtual(test: Callable[[SimLoop], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def wrapped() -> None:
        in_virtual_time(test)

    del wrapped.__wrapped__  # type: ignore[attr-defined]  # pytest must not see the loop as a fixture.
    return wrapped


def fetches(pair: Pair) -> list[FetchRequest]:
    return pair.wire.of(FetchRequest)


def named(request: FetchRequest) -> list[tuple[int, int]]:
    """(partition, offset) of what a fetch names."""
    return [(requested.partition, requested.fetch_offset) for topic in request.topics for requested in topic.partitions]


def in_purgatory(pair: Pair, name: TopicPartition = NAME) -> bool:
    return bool(pair.led(name).log_end_waiters.purgatory)


# The two cases of the documents.


@virtual
async def test_a_fetch_with_nothing_new_waits_in_purgatory_and_is_answered_with_the_watermark(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.leader.topics = {}
    pair.assign()
    begin = loop.time()
    await pair.until(lambda: len(fetches(pair)) == 2)
    assert loop.time() - begin == pytest.approx(0.5, abs=0.002)
    assert (pair.led().leader.high_watermark, pair.followed().log.high_watermark) == (0, 0)
    assert named(fetches(pair)[1]) == [], "and nothing has changed"
    await pair.stop()


@virtual
async def test_a_held_fetch_is_woken_by_the_append_and_the_second_one_is_answered_with_the_new_watermark(
    loop: SimLoop,
) -> None:
    pair = Pair(loop)
    pair.assign()
    await pair.until(lambda: in_purgatory(pair))
    begin = loop.time()
    pair.leader.append()
    await pair.until(lambda: pair.followed().log.log_end_offset == 3)
    assert loop.time() - begin < 0.005, "no timer was waited for"
    await pair.until(lambda: pair.led().leader.high_watermark == 3)
    assert pair.followed().log.high_watermark == 0, "the records came with the watermark from before them"
    assert loop.time() - begin < 0.005
    pair.leader.append()
    await pair.until(lambda: pair.followed().log.high_watermark == 3)
    assert loop.time() - begin < 0.01, "the second fetch was answered, with records, and the watermark was on it"
    await pair.until(lambda: pair.followed().log.high_watermark == 6)
    assert loop.time() - begin == pytest.approx(0.5, abs=0.01), "the third had nothing but the watermark"
    await pair.stop()


# Sessions.


@virtual
async def test_partitions_are_named_once_and_then_when_they_have_moved(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(NAME)
    pair.assign(SECOND)
    await pair.until(lambda: in_purgatory(pair, SECOND))
    pair.leader.append(3, SECOND)
    await pair.until(lambda: pair.is_equal(SECOND))
    await pair.until(lambda: len(fetches(pair)) == 2)
    first, second = fetches(pair)
    assert (first.session_id, first.session_epoch, named(first)) == (0, 0, [(0, 0), (1, 0)])
    assert (second.session_id, second.session_epoch, named(second)) == (1, 1, [(1, 3)])
    await pair.stop()


@virtual
async def test_what_is_followed_no_longer_is_forgotten_and_the_last_one_ends_the_session(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(NAME)
    pair.assign(SECOND)
    await pair.until(lambda: in_purgatory(pair))
    pair.fetchers.remove_partition(pair.followed(SECOND))
    await pair.until(lambda: len(fetches(pair)) == 2)
    (forgotten,) = fetches(pair)[1].forgotten_topics_data
    assert forgotten.partitions == [1]
    assert len(pair.leader.sessions) == 1
    await pair.stop()
    assert (fetches(pair)[-1].session_id, fetches(pair)[-1].session_epoch) == (1, -1)
    assert (len(pair.leader.sessions), len(pair.fetchers)) == (0, 0)


@virtual
async def test_a_session_that_the_leader_evicted_is_opened_again_without_a_pause(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign()
    await pair.until(lambda: in_purgatory(pair))
    pair.leader.sessions._sessions.clear()
    pair.leader.append()
    begin = loop.time()
    await pair.until(lambda: pair.is_equal() and pair.led().leader.high_watermark == 3)
    assert loop.time() - begin < 0.01
    assert [(one.session_id, one.session_epoch) for one in fetches(pair)] == [(0, 0), (1, 1), (0, 0)]
    await pair.stop()


@virtual
async def test_a_broken_connection_leaves_no_session_behind(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign()
    for trouble in ("before", "after", "after", "before"):
        await pair.until(lambda: in_purgatory(pair))
        troubles = [trouble]
        # An answer that opens a session is another matter: this side cannot know of the session then.
        pair.wire.trouble = lambda one, troubles=troubles: troubles.pop() if one.session_epoch and troubles else None
        pair.leader.append()
        await pair.until(lambda troubles=troubles: not troubles and fetches(pair)[-1].session_epoch > 0)
        await pair.until(lambda: pair.is_equal() and in_purgatory(pair))
        assert len(pair.leader.sessions) == 1
    await pair.stop()


@virtual
async def test_a_leader_without_fetch_sessions_gets_full_fetch_requests(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.leader.sessions._slots = 0
    pair.assign(NAME)
    pair.assign(SECOND)
    pair.leader.append(3, SECOND)
    await pair.until(lambda: len(fetches(pair)) == 2)
    assert named(fetches(pair)[1]) == [(0, 0), (1, 3)]
    assert {(one.session_id, one.session_epoch) for one in fetches(pair)} == {(0, 0)}
    await pair.stop()


@virtual
async def test_a_new_partition_does_not_wait_for_the_end_of_a_long_poll(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(NAME)
    await pair.until(lambda: len(fetches(pair)) == 2 and in_purgatory(pair))
    begin = loop.time()
    pair.assign(SECOND)
    pair.leader.append(3, SECOND)
    await pair.until(lambda: pair.is_equal(SECOND))
    assert loop.time() - begin < 0.005
    assert len(pair.leader.sessions) == 1
    assert pair.log.lines == []
    await pair.stop()


# Versions.


@virtual
async def test_a_topic_without_an_id_takes_all_to_version_12_until_it_goes(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(NAME)
    await pair.until(lambda: in_purgatory(pair))
    pair.assign(OTHER, topic_id=NO_TOPIC_ID)
    pair.leader.append(3, NAME)
    pair.leader.append(3, OTHER)
    await pair.until(lambda: pair.is_equal(NAME) and pair.is_equal(OTHER))
    pair.fetchers.remove_partition(pair.followed(OTHER))
    pair.leader.append(3, NAME)
    await pair.until(lambda: pair.is_equal(NAME) and in_purgatory(pair))
    assert list(dict.fromkeys(version for version, _ in pair.wire.asked)) == [17, 12]
    assert pair.wire.asked[-1][0] == 17
    assert (pair.log.lines, len(pair.leader.sessions)) == ([], 1)
    await pair.stop()


@pytest.mark.parametrize(
    ("release", "step", "version", "has_id"),
    [
        ((2, 7), 0, 11, False),
        ((2, 7), 2, 12, False),
        ((3, 0), 1, 12, True),
        ((3, 1), 0, 13, True),
        ((3, 9), 0, 17, True),
    ],
)
def test_the_protocol_of_the_cluster_decides_the_version(
    release: tuple[int, ...], step: int, version: int, *, has_id: bool
) -> None:
    async def test(loop: SimLoop) -> None:
        pair = Pair(loop, versions=versions_for(release, step))
        pair.assign(topic_id=None if has_id else NO_TOPIC_ID)
        pair.leader.append()
        await pair.until(lambda: pair.is_equal() and in_purgatory(pair))
        assert {asked for asked, _ in pair.wire.asked} == {version}
        request = fetches(pair)[0]
        if version < 15:
            assert (request.replica_id, request.replica_state) == (2, None)
        else:
            state = request.replica_state
            assert (request.replica_id, state.replica_id, state.replica_epoch) == (-1, 2, 4711)
        await pair.stop()

    in_virtual_time(test)


@virtual
async def test_old_protocols_ask_where_an_epoch_ended_before_they_fetch(loop: SimLoop) -> None:
    pair = Pair(loop, versions=BEFORE_DIVERGING_EPOCHS)
    pair.assign(topic_id=NO_TOPIC_ID)
    pair.leader.append()
    await pair.until(lambda: pair.is_equal() and in_purgatory(pair))
    assert pair.wire.of(OffsetForLeaderEpochRequest) == [], "an empty log has no epoch to ask about"
    pair.usurp(epoch=1).append(checked(a_batch(2)), 0, all_replicas=False)
    pair.wire.asked.clear()
    pair.assign(epoch=2, topic_id=NO_TOPIC_ID)
    pair.leader.append(1)
    await pair.until(pair.is_equal)
    (version, question), *rest = pair.wire.asked
    assert (version, question.replica_id) == (3, 2)
    (requested,) = question.topics[0].partitions
    assert (requested.current_leader_epoch, requested.leader_epoch) == (2, 1)
    assert all(isinstance(request, FetchRequest) for _, request in rest), "one answer was enough"
    await pair.stop()


# What is wrong with one partition.


@virtual
async def test_a_partition_that_is_refused_pauses_alone(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(NAME)
    pair.assign(SECOND, only=pair.replicas)
    pair.leader.append()
    begin = loop.time()
    await pair.until(pair.is_equal)
    assert loop.time() - begin < 0.01
    pair.leader.append()
    await pair.until(pair.is_equal)
    assert loop.time() - begin < 0.02, "the other partition is fetched again after a backoff, this one at once"
    pair.assign(SECOND, only=pair.leader.replicas)
    pair.leader.append(3, SECOND)
    await pair.until(lambda: pair.is_equal(SECOND))
    assert 0.02 <= loop.time() - begin < 0.2
    await pair.stop()


@virtual
async def test_fetches_to_a_leader_that_does_not_know_its_election_yet_are_retried_with_backoff(
    loop: SimLoop,
) -> None:
    pair = Pair(loop)
    pair.assign(only=pair.replicas)
    await elapse(60)
    assert 60 < len(pair.wire.of(FetchRequest)) < 70, "a second apart after the first few"
    assert [event for _, event, _ in pair.log.lines] == ["partitions not fetched"], "logged once"
    pair.assign(only=pair.leader.replicas)
    pair.leader.append()
    await pair.until(pair.is_equal)
    await pair.stop()


@virtual
async def test_a_term_that_is_over_asks_nothing_until_the_next_begins(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(NAME)
    pair.assign(NAME, epoch=1, only=pair.leader.replicas)
    await elapse(5)
    assert len(fetches(pair)) == 1
    assert pair.followed().follower.is_fenced
    pair.leader.append()
    pair.assign(NAME, epoch=1, only=pair.replicas)
    await pair.until(pair.is_equal)
    await pair.stop()


@virtual
async def test_a_follower_that_has_fallen_out_of_the_leaders_log_begins_where_that_begins(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(isr=(LEADER,))
    await pair.until(lambda: in_purgatory(pair))
    pair.fetchers.remove_partition(pair.followed())
    pair.leader.append(3)
    pair.leader.append(3)
    pair.led().log.advance_log_start(4)
    pair.fetchers.add_partition(pair.followed())
    await pair.until(pair.is_equal)
    assert [
        [requested.timestamp for requested in one.topics[0].partitions] for one in pair.wire.of(ListOffsetsRequest)
    ] == [
        [-1],
        [-2],
    ]
    assert {one.replica_id for one in pair.wire.of(ListOffsetsRequest)} == {2}
    assert {version for version, one in pair.wire.asked if isinstance(one, ListOffsetsRequest)} == {9}
    assert pair.followed().log.log_start_offset == 4
    await pair.stop()


@virtual
async def test_a_new_term_ends_a_pause(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(epoch=1, only=pair.replicas)
    pair.assign(epoch=0, only=pair.leader.replicas)
    await elapse(0.1)
    assert not in_purgatory(pair), "it was refused, and pauses"
    pair.leader.append()
    pair.assign(epoch=2, only=pair.leader.replicas)
    pair.followed().become_follower(LEADER, Term(LeaderEpoch(2), (LEADER, FOLLOWER), (LEADER, FOLLOWER)))
    pair.fetchers.add_partition(pair.followed())
    begin = loop.time()
    await pair.until(pair.is_equal)
    assert loop.time() - begin < 0.01
    await pair.stop()


@virtual
async def test_diverging_records_are_truncated_where_the_leader_says(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign()
    pair.leader.append(3)
    await pair.until(pair.is_equal)
    pair.usurp(epoch=1).append(checked(a_batch(5)), 0, all_replicas=False)
    pair.assign(epoch=2, isr=(LEADER,))
    pair.leader.append(1)
    await pair.until(pair.is_equal, 5)
    ((_, event, fields),) = pair.log.lines
    assert event == "log truncated"
    assert (fields["partition"], fields["log_end_offset"], fields["old_log_end_offset"]) == ("orders-0", 3, 8)
    assert pair.followed().log.epochs.entries == [(0, 0), (2, 3)]
    await pair.stop()


@virtual
async def test_an_idle_follower_sends_its_new_log_start_offset(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign()
    pair.leader.append()
    await pair.until(lambda: pair.is_equal() and in_purgatory(pair))
    await pair.until(lambda: pair.followed().log.high_watermark == 3)
    pair.followed().log.advance_log_start(2)
    await elapse(1.1)
    assert pair.led().leader.replicas[2].start_offset == 2
    await pair.stop()


@virtual
async def test_what_is_followed_no_longer_is_left_as_it_is_whatever_is_answered_about_it(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign(isr=(LEADER,))
    pair.leader.append(3)
    pair.leader.append(3)
    pair.led().log.advance_log_start(4)
    pair.wire.latency_s = 0.1
    await pair.until(lambda: bool(pair.wire.of(ListOffsetsRequest)))
    pair.fetchers.remove_partition(pair.followed())
    await pair.until(lambda: not len(pair.fetchers))
    assert (pair.followed().log.log_start_offset, pair.followed().log.log_end_offset) == (0, 0)
    assert len(pair.leader.sessions) == 0
    await pair.stop()


@virtual
async def test_a_refusal_that_the_leaders_ends_do_not_explain_pauses(loop: SimLoop) -> None:
    pair = Pair(loop, versions=versions_for((2, 7), 2))
    pair.leader.topics[NO_TOPIC_ID] = "orders"
    # A log of a former life of the topic: it ends within the leader's, in an epoch that the leader has never had.
    pair.assign(epoch=0, topic_id=NO_TOPIC_ID, only=pair.replicas)
    pair.usurp(epoch=5).append(checked(), 0, all_replicas=False)
    pair.replicas._forget(NAME)
    pair.assign(epoch=0, topic_id=NO_TOPIC_ID, isr=(LEADER,))
    pair.leader.append()
    pair.leader.append()
    await elapse(5)
    assert len(pair.wire.asked) < 30
    await pair.stop()


@virtual
async def test_an_answer_to_a_term_that_is_over_is_thrown_away(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.wire.latency_s = 0.1
    pair.assign()
    pair.leader.append()
    await elapse(0.15)
    follower = pair.followed().follower
    pair.assign(epoch=1, only=pair.replicas)
    assert pair.followed().follower is not follower
    await elapse(0.06)
    assert pair.followed().log.log_end_offset == 0, "it came, and counted for nothing"
    pair.assign(epoch=1, only=pair.leader.replicas)
    await pair.until(pair.is_equal)
    await pair.stop()


@virtual
async def test_a_full_disk_pauses_a_partition_and_heals(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign()
    await pair.until(lambda: in_purgatory(pair))
    pair.disk.fail_while(lambda kind, path: kind == "write" and path.endswith(".log"), errno.ENOSPC)
    pair.leader.append()
    await elapse(3)
    assert pair.followed().log.log_end_offset == 0
    assert len(fetches(pair)) < 8
    assert pair.log.lines == [], "the directory has a line, and its partitions none"
    pair.disk.heal_faults()
    await pair.until(pair.is_equal)
    await pair.stop()


@virtual
async def test_partitions_that_a_leader_refuses_are_one_line_for_each_answer_and_error(loop: SimLoop) -> None:
    pair = Pair(loop)
    for name in (NAME, SECOND):
        pair.assign(name, only=pair.replicas)
    await elapse(30)
    ((level, event, fields),) = pair.log.lines
    assert (level, event, fields["partitions"]) == ("info", "partitions not fetched", 2)
    await pair.stop()


@virtual
async def test_a_failed_disk_ends_the_fetching_of_what_is_on_it(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.assign()
    await pair.until(lambda: in_purgatory(pair))
    pair.disk.fail_while(lambda kind, path: path.endswith(".log"), errno.EIO)
    pair.leader.append()
    await pair.until(lambda: not len(pair.fetchers))
    assert [(level, event) for level, event, _ in pair.log.lines] == [("error", "replica fetching stopped")]
    await pair.stop()
    assert pair.fetchers._fetcher_of == {}


@virtual
async def test_what_is_acknowledged_by_asking_for_more_is_as_durable_as_the_topic_wants(loop: SimLoop) -> None:
    pair = Pair(loop, flush_messages=1)
    pair.assign()
    for _ in range(3):
        pair.leader.append()
        end = pair.led().log.log_end_offset
        await pair.until(lambda end=end: pair.led().leader.high_watermark == end)
        lost = pair.disk.power_lost(seed=1)
        assert b"value-2" in lost.read(pair.followed().log.segments.all()[-1].handle.path)
    assert not pair.followed().log.needs_flush
    await pair.stop()


@virtual
async def test_a_batch_larger_than_every_bound_comes_whole(loop: SimLoop) -> None:
    pair = Pair(loop, settings=FetchSettings(partition_bytes_max=10, response_bytes_max=10))
    pair.assign()
    pair.assign(SECOND)
    for _ in range(5):
        pair.leader.append(3, NAME)
        pair.leader.append(3, SECOND)
    await pair.until(lambda: pair.is_equal(NAME) and pair.is_equal(SECOND))
    await pair.stop()


@virtual
async def test_damaged_records_are_not_appended_and_are_fetched_again(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.wire.leaders.clear()
    pair.assign()
    pair.leader.append()
    segment = pair.led().log.segments.all()[-1]
    whole = segment.handle.reopen().read_at(0, segment.size)
    segment.handle.reopen().write_at(segment.size - 1, bytes([whole[-1] ^ 1]))
    pair.wire.leaders[LEADER] = pair.leader
    fetched = len(fetches(pair))
    await pair.until(lambda: len(fetches(pair)) > fetched + 1)
    assert pair.followed().log.log_end_offset == 0
    segment.handle.reopen().write_at(segment.size - 1, whole[-1:])
    await pair.until(pair.is_equal)
    assert [(level, event) for level, event, _ in pair.log.lines] == [("warning", "fetched records not appended")]
    await pair.stop()


# The leader.


@virtual
async def test_an_unreachable_leader_is_logged_once_and_retried_after_each_backoff(loop: SimLoop) -> None:
    pair = Pair(loop)
    pair.wire.leaders.clear()
    pair.assign()
    pair.leader.append()
    await elapse(3.5)
    assert len(fetches(pair)) == 4
    pair.wire.leaders[LEADER] = pair.leader
    await pair.until(pair.is_equal)
    assert [(level, event) for level, event, _ in pair.log.lines] == [
        ("warning", "leader unreachable"),
        ("info", "leader reachable again"),
    ]
    await pair.stop()


@virtual
async def test_an_answer_that_does_not_come_in_time_costs_the_connection_and_nothing_else(loop: SimLoop) -> None:
    pair = Pair(loop, settings=FetchSettings(wait_max_ms=5000, socket_timeout_ms=700))
    pair.assign()
    pair.leader.append()
    await pair.until(pair.is_equal)
    await elapse(4)
    pair.leader.append()
    await pair.until(pair.is_equal)
    assert not in_purgatory(pair) or len(pair.led().log_end_waiters.purgatory) == 1, (
        "no request waits for a closed connection"
    )
    await pair.stop()


# Many fetchers.


@virtual
async def test_partitions_are_distributed_over_the_fetchers_of_a_leader_and_again_when_their_number_changes(
    loop: SimLoop,
) -> None:
    pair = Pair(loop, per_leader=3)
    names = [TopicPartition("orders", index) for index in range(12)]
    for name in names:
        pair.assign(name)
    assert len(pair.fetchers) == 3
    assert set(pair.wire.client_ids) == {f"broker-2-fetcher-{number}" for number in range(3)}
    await pair.until(lambda: all(in_purgatory(pair, name) for name in names))
    pair.fetchers.resize(1)
    for name in names:
        pair.leader.append(1, name)
    await pair.until(lambda: all(pair.is_equal(name) for name in names) and len(pair.fetchers) == 1)
    await pair.stop()
    assert len(pair.leader.sessions) == 0


# Throttles (KIP-73).


@virtual
async def test_a_throttled_replica_that_lags_is_fetched_at_its_rate_and_others_are_not_held_back(loop: SimLoop) -> None:
    quota = ReplicaQuota(lambda name: name == NAME)
    quota.limit(1000)
    pair = Pair(loop, quota=quota, settings=FetchSettings(partition_bytes_max=500))
    pair.assign(NAME, isr=(LEADER,))
    pair.assign(SECOND, isr=(LEADER,))
    for name in (NAME, SECOND):
        for _ in range(100):
            pair.leader.append(3, name)
    size = pair.led().log.segments.all()[-1].size
    begin = loop.time()
    await pair.until(lambda: pair.is_equal(SECOND))
    assert loop.time() - begin < 0.1
    await pair.until(lambda: pair.is_equal(NAME))
    assert size / 1000 * 0.8 < loop.time() - begin < size / 1000 * 1.2 + 1
    begin = loop.time()
    pair.leader.append(3)
    await pair.until(pair.is_equal)
    assert loop.time() - begin < 0.01, "what keeps it in sync is not held back"
    await pair.stop()


@virtual
async def test_a_leader_withholds_records_from_throttled_replicas_that_are_not_in_sync(loop: SimLoop) -> None:
    quota = ReplicaQuota(lambda name: name == NAME)
    quota.limit(1000)
    pair = Pair(loop, leader_quota=quota, settings=FetchSettings(partition_bytes_max=500))
    pair.assign(NAME, isr=(LEADER,))
    for _ in range(50):
        pair.leader.append()
    size = pair.led().log.segments.all()[-1].size
    begin = loop.time()
    await pair.until(pair.is_equal)
    assert size / 1000 * 0.8 < loop.time() - begin < size / 1000 * 1.2 + 1
    pair.assign(NAME, epoch=1, isr=(LEADER, 2))
    for _ in range(50):
        pair.leader.append()
    begin = loop.time()
    await pair.until(pair.is_equal)
    assert loop.time() - begin < 0.6, "in sync, it gets all"
    await pair.stop()
