"""How a follower replicates: what it requests, where it truncates its log, and its high watermark."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.follower import EpochEndRequest, FetchErrorAction, Follower, follower_high_watermark
from sordini.replication.follower_truncation import (
    EpochEnd,
    FetchPosition,
    FetchStart,
    find_divergence,
    start_when_out_of_range,
)
from sordini.storage.epoch_cache import EpochCache

EPOCH = LeaderEpoch(9)


def a_follower(*, truncates_before_fetch: bool = False) -> Follower:
    return Follower(BrokerId(2), EPOCH, truncates_before_fetch=truncates_before_fetch)


def a_cache(*entries: tuple[int, int]) -> EpochCache:
    return EpochCache(entries)


# What it requests.


def test_a_fetch_says_where_the_log_ends_which_epoch_is_believed_in_and_that_of_the_last_record() -> None:
    assert a_follower().next_request(a_cache((2, 0), (5, 3)), Offset(7)) == FetchPosition(Offset(7), EPOCH, 5)
    assert a_follower().next_request(a_cache(), Offset(0)) == FetchPosition(Offset(0), EPOCH, -1)


def test_with_old_protocol_versions_a_follower_requests_the_end_of_its_last_epoch_before_it_fetches() -> None:
    follower, epochs = a_follower(truncates_before_fetch=True), a_cache((2, 0), (5, 3))
    assert follower.next_request(epochs, Offset(7)) == EpochEndRequest(EPOCH, 5)
    assert follower.next_request(epochs, Offset(7)) == EpochEndRequest(EPOCH, 5)
    assert follower.truncation_offset(EpochEnd(5, 6), epochs, Offset(7), Offset(0)) == 6
    assert follower.next_request(epochs, Offset(6)) == FetchPosition(Offset(6), EPOCH, 5)


def test_without_an_epoch_there_is_nothing_to_ask_before_the_first_fetch() -> None:
    follower = a_follower(truncates_before_fetch=True)
    assert follower.next_request(a_cache(), Offset(0)) == FetchPosition(Offset(0), EPOCH, -1)
    assert follower.next_request(a_cache((9, 0)), Offset(1)) == FetchPosition(Offset(1), EPOCH, 9)


def test_a_follower_that_the_leader_fenced_sends_no_more_fetches() -> None:
    for follower in (a_follower(), a_follower(truncates_before_fetch=True)):
        assert follower.on_error(ErrorCode.FENCED_LEADER_EPOCH) is FetchErrorAction.WAIT
        assert follower.next_request(a_cache((2, 0)), Offset(1)) is None


@pytest.mark.parametrize(
    ("code", "reaction"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, FetchErrorAction.FIND_START),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, FetchErrorAction.RETRY),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, FetchErrorAction.RETRY),
        (ErrorCode.KAFKA_STORAGE_ERROR, FetchErrorAction.RETRY),
        (999, FetchErrorAction.RETRY),
    ],
)
def test_any_other_refusal_leaves_the_term_in_force(code: int, reaction: FetchErrorAction) -> None:
    follower = a_follower()
    assert follower.on_error(code) is reaction
    assert follower.next_request(a_cache(), Offset(0)) is not None


# Where it cuts.


def test_at_an_epoch_that_both_logs_have_the_log_is_truncated_to_its_smaller_end() -> None:
    epochs = a_cache((2, 0), (5, 3))
    assert a_follower().truncation_offset(EpochEnd(5, 4), epochs, Offset(7), Offset(0)) == 4
    assert a_follower().truncation_offset(EpochEnd(5, 9), epochs, Offset(7), Offset(0)) == 7
    assert a_follower().truncation_offset(EpochEnd(2, 9), epochs, Offset(7), Offset(0)) == 3


def test_an_epoch_that_is_not_known_here_lays_the_one_before_it_bare_and_that_is_asked_about_next() -> None:
    follower, epochs = a_follower(truncates_before_fetch=True), a_cache((2, 0), (5, 3))
    assert follower.truncation_offset(EpochEnd(4, 6), epochs, Offset(7), Offset(0)) == 3
    epochs.truncate_from_end(3)
    assert follower.next_request(epochs, Offset(3)) == EpochEndRequest(EPOCH, 2)


def test_a_leader_whose_answer_has_no_leader_epoch_gets_one_request() -> None:
    follower, epochs = a_follower(truncates_before_fetch=True), a_cache((2, 0), (5, 3))
    assert follower.truncation_offset(EpochEnd(-1, 4), epochs, Offset(7), Offset(0)) == 4
    assert follower.next_request(epochs, Offset(4)) == FetchPosition(Offset(4), EPOCH, 5)


def test_the_log_is_truncated_to_the_watermark_only_for_a_leader_without_leader_epochs() -> None:
    follower, epochs = a_follower(truncates_before_fetch=True), a_cache((2, 0))
    assert follower.truncation_offset(EpochEnd(-1, -1), epochs, Offset(7), Offset(5)) == 5
    assert follower.next_request(epochs, Offset(5)) == FetchPosition(Offset(5), EPOCH, 2)


def test_without_local_epochs_the_log_is_truncated_to_the_leaders_end() -> None:
    follower = a_follower(truncates_before_fetch=True)
    assert follower.truncation_offset(EpochEnd(3, 4), a_cache(), Offset(7), Offset(0)) == 4
    assert follower.truncation_offset(EpochEnd(3, 9), a_cache(), Offset(7), Offset(0)) == 7


def test_a_leader_without_so_late_an_epoch_says_that_the_offset_is_out_of_range() -> None:
    with pytest.raises(BrokerError) as refused:
        find_divergence(FetchPosition(Offset(4), EPOCH, 7), a_cache((2, 0), (5, 3)), Offset(4))
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


# Laws, of logs as a cluster makes them.


class Records(NamedTuple):
    """The epoch of every record, and the cache that belongs to it."""

    log: list[int]
    epochs: EpochCache

    def append(self, epoch: int) -> None:
        self.epochs.assign(epoch, len(self.log))
        self.log.append(epoch)

    def cut(self, end_offset: int) -> None:
        del self.log[end_offset:]
        self.epochs.truncate_from_end(end_offset)


def in_common(one: list[int], other: list[int]) -> int:
    """Records are the same where their epoch and offset are: an epoch has one leader, which writes an offset once."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Records, Records]:
    """A follower's log and its leader's, after some terms in which any of three led, wrote, and was copied in part."""
    replicas = [Records([], EpochCache()) for _ in range(3)]
    leader = replicas[0]
    for epoch in range(draw(st.integers(1, 7))):
        leader = replicas[draw(st.integers(0, 2))]
        leader.epochs.assign(epoch, len(leader.log))
        for _ in range(draw(st.integers(0, 3))):
            leader.append(epoch)
        for other in replicas:
            if other is not leader and draw(st.booleans()):
                other.cut(in_common(other.log, leader.log))
                for copied in leader.log[len(other.log) : draw(st.integers(0, 12))]:
                    other.append(copied)
    follower = next(other for other in replicas if other is not leader)
    return follower, leader


@given(clusters(), st.booleans())
def test_the_epoch_requests_end_with_the_log_truncated_exactly_at_the_divergence(
    cluster: tuple[Records, Records], truncates_before_fetch: bool
) -> None:
    own, leader = cluster
    together = in_common(own.log, leader.log)
    follower = a_follower(truncates_before_fetch=truncates_before_fetch)
    for _ in range(2 * len(own.log) + 3):
        question = follower.next_request(own.epochs, Offset(len(own.log)))
        assert question is not None
        ended: EpochEnd | None
        if isinstance(question, EpochEndRequest):
            ended = EpochEnd(*leader.epochs.end_offset(question.requested_epoch, len(leader.log)))
        elif truncates_before_fetch or question.last_fetched_epoch < 0:
            break
        else:
            ended = find_divergence(question, leader.epochs, Offset(len(leader.log)))
            if ended is None:
                break
        # The watermark must not matter: none is right here.
        own.cut(follower.truncation_offset(ended, own.epochs, Offset(len(own.log)), Offset(0)))
        assert len(own.log) >= together
    else:
        pytest.fail("no end of questions")
    assert own.log == leader.log[:together]
    assert follower.next_request(own.epochs, Offset(together)) == FetchPosition(
        Offset(together), EPOCH, own.epochs.latest
    )


@given(clusters())
def test_a_leader_lets_a_fetch_pass_only_if_the_log_before_it_is_its_own(cluster: tuple[Records, Records]) -> None:
    own, leader = cluster
    if own.epochs.latest < 0:
        return
    position = FetchPosition(Offset(len(own.log)), EPOCH, own.epochs.latest)
    parted = find_divergence(position, leader.epochs, Offset(len(leader.log)))
    if parted is None:
        assert own.log == leader.log[: len(own.log)]
    else:
        assert own.log != leader.log[: len(own.log)] or own.epochs.latest not in own.log


@given(clusters(), st.integers(-1, 8), st.integers(0, 20), st.integers(0, 20))
def test_a_truncation_offset_lies_within_the_log_whatever_a_leader_answers(
    cluster: tuple[Records, Records], epoch: int, end_offset: int, high_watermark: int
) -> None:
    own, _ = cluster
    end = len(own.log)
    cut = a_follower().truncation_offset(
        EpochEnd(epoch, end_offset), own.epochs, Offset(end), Offset(min(high_watermark, end))
    )
    assert 0 <= cut <= end


# After an offset that was out of range, and how far records count.


def test_a_log_past_the_leaders_end_is_truncated_to_it() -> None:
    assert start_when_out_of_range(Offset(2), Offset(5), Offset(9)) == FetchStart(Offset(5), truncate_fully=False)


def test_a_log_that_ends_before_the_leaders_start_is_truncated_fully() -> None:
    assert start_when_out_of_range(Offset(6), Offset(9), Offset(4)) == FetchStart(Offset(6), truncate_fully=True)


def test_a_log_end_within_the_leaders_log_is_where_fetching_continues() -> None:
    for end in (2, 3, 5):
        assert start_when_out_of_range(Offset(2), Offset(5), Offset(end)) == FetchStart(
            Offset(end), truncate_fully=False
        )


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_the_watermark_here_never_moves_back_and_never_passes_the_log(own: int, leaders: int, end: int) -> None:
    own = min(own, end)
    moved = follower_high_watermark(Offset(own), Offset(leaders), Offset(end))
    assert own <= moved <= end
    assert moved == own or moved <= leaders
    assert moved >= min(leaders, end)
