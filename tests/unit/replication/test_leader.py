"""The leader's view of its replicas: the high watermark, and the ISR as proposals change it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.types import BrokerId, LeaderEpoch, Offset
from sordini.replication.leader import IsrProposal, Leader, Term

ME, SECOND, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)
LAG_MS = 100


def a_leader(isr: list[int], high_watermark: int = 0, end: int = 0, replicas: tuple[int, ...] = (1, 2, 3)) -> Leader:
    return Leader(
        ME,
        Term(LeaderEpoch(4), tuple(map(BrokerId, isr)), tuple(map(BrokerId, replicas)), 7),
        high_watermark=Offset(high_watermark),
        log_end_offset=Offset(end),
        now_ms=0,
        lag_ms_max=LAG_MS,
    )


# The watermark as the documents walk through it.


def test_alone_in_the_in_sync_set_the_watermark_is_the_end_of_the_log() -> None:
    leader = a_leader([1], end=5)
    assert leader.high_watermark == 5
    assert leader.appended(Offset(8))
    assert leader.high_watermark == 8
    assert not leader.appended(Offset(8))


def test_a_replica_that_has_not_fetched_holds_the_watermark_down() -> None:
    leader = a_leader([1, 2], high_watermark=3, end=5)
    assert not leader.appended(Offset(9))
    assert leader.high_watermark == 3


def test_a_checkpointed_watermark_past_the_log_end_is_lowered_to_it() -> None:
    assert a_leader([1, 2], high_watermark=10, end=4).high_watermark == 4


def test_the_second_fetch_says_that_the_first_was_written_and_moves_the_watermark() -> None:
    leader = a_leader([1, 2])
    assert not leader.appended(Offset(1))
    assert not leader.fetched(SECOND, Offset(0), Offset(1), 1)
    assert leader.high_watermark == 0
    assert leader.fetched(SECOND, Offset(1), Offset(1), 2)
    assert leader.high_watermark == 1
    assert not leader.fetched(SECOND, Offset(1), Offset(1), 3)


def test_the_slowest_in_sync_replica_decides() -> None:
    leader = a_leader([1, 2, 3], end=9)
    assert not leader.fetched(SECOND, Offset(9), Offset(9), 1)
    assert leader.fetched(THIRD, Offset(4), Offset(9), 1)
    assert leader.high_watermark == 4


def test_a_fetch_from_further_back_does_not_move_the_watermark_back() -> None:
    leader = a_leader([1, 2], end=9)
    leader.fetched(SECOND, Offset(9), Offset(9), 1)
    leader.fetched(SECOND, Offset(2), Offset(9), 2)
    leader.appended(Offset(12))
    assert leader.high_watermark == 9


# The ISR.


def test_a_follower_that_never_fetched_is_let_go_after_the_lag_allowed() -> None:
    leader = a_leader([1, 2, 3], end=5)
    leader.fetched(SECOND, Offset(5), Offset(5), 1)
    assert leader.shrink(LAG_MS) is None
    proposal = leader.shrink(LAG_MS + 1)
    assert proposal == IsrProposal((ME, SECOND), LeaderEpoch(4), 7, (-1, -1))
    assert leader.high_watermark == 0
    assert leader.granted(proposal, proposal.isr, 8)
    assert (leader.isr, leader.partition_epoch, leader.high_watermark) == ((ME, SECOND), 8, 5)


def test_one_that_has_all_there_is_does_not_lag_however_long_ago_it_fetched() -> None:
    leader = a_leader([1, 2], end=5)
    leader.fetched(SECOND, Offset(5), Offset(5), 1)
    assert leader.shrink(10_000) is None
    leader.appended(Offset(6))
    assert leader.shrink(10_000) is not None


def test_one_that_has_what_there_was_when_it_last_fetched_keeps_up() -> None:
    leader = a_leader([1, 2], end=5)
    end = 5
    for now_ms in range(60, 10 * LAG_MS, 60):
        end += 5
        leader.appended(Offset(end))
        leader.fetched(SECOND, Offset(end - 5), Offset(end), now_ms)
        assert leader.shrink(now_ms) is None
    assert leader.shrink(10 * LAG_MS + 120) is not None


def test_one_that_fetches_but_falls_behind_is_let_go() -> None:
    leader = a_leader([1, 2], end=100)
    for now_ms in range(0, LAG_MS + 1, 10):
        leader.appended(Offset(100 + 10 * now_ms))
        leader.fetched(SECOND, Offset(now_ms), Offset(100 + 10 * now_ms), now_ms)
        assert leader.shrink(now_ms) is None
    assert leader.shrink(LAG_MS + 1) is not None


def test_a_replica_joins_at_the_watermark_and_the_start_of_the_epoch() -> None:
    leader = a_leader([1, 2], high_watermark=2, end=6)
    for offset, may_join in ((1, False), (2, False), (5, False), (6, True)):
        leader.fetched(THIRD, Offset(offset), Offset(6), 1)
        assert leader.may_join(THIRD) is may_join
    leader.fetched(SECOND, Offset(8), Offset(8), 2)
    leader.appended(Offset(8))
    leader.fetched(SECOND, Offset(8), Offset(8), 3)
    assert leader.high_watermark == 6  # The third, close behind, holds it.
    assert leader.may_join(THIRD)


def test_one_that_is_close_behind_is_waited_for_no_longer_when_its_broker_has_gone() -> None:
    leader = a_leader([1, 2], end=6)
    leader.fetched(SECOND, Offset(6), Offset(6), 1)
    leader.fetched(THIRD, Offset(6), Offset(6), 1)
    leader.appended(Offset(8))
    leader.fetched(SECOND, Offset(8), Offset(8), 2)
    assert leader.high_watermark == 6
    assert leader.shrink(3, lambda broker_id: broker_id != THIRD) is None
    assert leader.appended(Offset(8))
    assert leader.high_watermark == 8


def test_one_that_is_in_sync_is_waited_for_although_its_broker_has_gone() -> None:
    leader = a_leader([1, 2, 3], end=6)
    leader.fetched(SECOND, Offset(6), Offset(6), 1)
    assert leader.shrink(3, lambda broker_id: broker_id != THIRD) is None
    assert not leader.appended(Offset(6)), "only a granted change takes it out"
    assert leader.high_watermark == 0


def test_the_last_fetch_of_an_unregistered_broker_does_not_hold_back_the_watermark() -> None:
    leader = a_leader([1, 2], end=6)
    leader.fetched(SECOND, Offset(6), Offset(6), 1)
    leader.fetched(THIRD, Offset(6), Offset(6), 1, is_registered=False)
    leader.appended(Offset(8))
    assert leader.fetched(SECOND, Offset(8), Offset(8), 2)
    assert leader.high_watermark == 8


def test_a_replica_below_the_watermark_may_not_join_though_it_is_past_the_start_of_the_epoch() -> None:
    leader = a_leader([1])
    leader.appended(Offset(9))
    leader.fetched(SECOND, Offset(8), Offset(9), 1)
    assert not leader.may_join(SECOND)


def test_one_that_is_proposed_while_it_lags_holds_the_watermark_from_then_on() -> None:
    leader = a_leader([1, 2], high_watermark=2, end=6)
    leader.appended(Offset(50))
    leader.fetched(THIRD, Offset(6), Offset(50), 1)
    leader.expand(THIRD)
    leader.fetched(SECOND, Offset(50), Offset(50), 1)
    assert leader.high_watermark == 6


def test_one_that_has_what_there_was_then_was_caught_up_then_and_not_now() -> None:
    leader = a_leader([1, 2], end=10)
    leader.fetched(SECOND, Offset(5), Offset(10), 10)
    leader.appended(Offset(15))
    leader.fetched(SECOND, Offset(10), Offset(15), 109)
    assert leader.shrink(110) is None
    assert leader.shrink(111) is not None


def test_a_replica_that_has_not_fetched_in_this_epoch_may_not_join_an_empty_log() -> None:
    leader = a_leader([1])
    assert not leader.may_join(SECOND)
    leader.fetched(SECOND, Offset(0), Offset(0), 1)
    assert leader.may_join(SECOND)


def test_a_replica_that_is_in_sync_already_or_unknown_may_not_join() -> None:
    leader = a_leader([1, 2])
    leader.fetched(SECOND, Offset(0), Offset(0), 1)
    assert not leader.may_join(SECOND)
    assert not leader.may_join(BrokerId(9))
    assert not leader.may_join(ME)


def test_the_proposed_hold_the_watermark_and_leave_it_when_they_are_refused() -> None:
    leader = a_leader([1], end=5)
    leader.fetched(SECOND, Offset(5), Offset(5), 1, broker_epoch=33)
    proposal = leader.expand(SECOND)
    assert proposal == IsrProposal((ME, SECOND), LeaderEpoch(4), 7, (-1, 33))
    assert leader.maximal_isr == (ME, SECOND)
    assert leader.isr == (ME,)
    assert not leader.appended(Offset(9))
    assert leader.high_watermark == 5
    assert leader.ineligible(proposal)
    assert (leader.high_watermark, leader.maximal_isr) == (9, (ME,))


def by_code(leader: Leader) -> None:
    leader.ineligible(leader.expand(SECOND))


def by_the_state_in_force(leader: Leader) -> None:
    leader.granted(leader.expand(SECOND), (ME,), leader.partition_epoch)


def refused_once(broker_epoch: int, refuse: Callable[[Leader], None] = by_code) -> Leader:
    """A leader whose proposal to add the second replica in that broker epoch at 1 ms was refused."""
    leader = a_leader([1], end=5)
    leader.fetched(SECOND, Offset(5), Offset(5), 1, broker_epoch=broker_epoch)
    refuse(leader)
    return leader


@pytest.mark.parametrize("refuse", [by_code, by_the_state_in_force])
@pytest.mark.parametrize("broker_epoch", [-1, 33])
def test_who_was_refused_is_not_proposed_again_and_holds_nothing_while_nothing_has_changed(
    broker_epoch: int, refuse: Callable[[Leader], None]
) -> None:
    leader = refused_once(broker_epoch, refuse)
    for now_ms in (2, 10, LAG_MS):
        assert not leader.may_join(SECOND)
        leader.fetched(SECOND, Offset(5), Offset(5), now_ms, broker_epoch=broker_epoch)
    assert not leader.may_join(SECOND)
    assert leader.appended(Offset(6)), "the watermark does not wait for it"


def test_who_was_refused_may_join_in_its_next_life_after_a_change_of_the_cluster_or_a_while_later() -> None:
    leader = refused_once(33)
    leader.fetched(SECOND, Offset(5), Offset(5), 2, broker_epoch=34)
    assert leader.may_join(SECOND)
    leader = refused_once(33)
    leader.clear_refusals()
    assert leader.may_join(SECOND)
    leader = refused_once(-1)
    leader.fetched(SECOND, Offset(5), Offset(5), 1 + LAG_MS)
    assert leader.may_join(SECOND)


def test_a_grant_of_fewer_than_were_proposed_refuses_the_others_alone() -> None:
    leader = a_leader([1], end=5)
    for member in (SECOND, THIRD):
        leader.fetched(member, Offset(5), Offset(5), 1)
    leader.granted(leader.expand(SECOND), (ME,), 9)
    assert (leader.isr, leader.partition_epoch, leader.proposal) == ((ME,), 9, None)
    assert (leader.may_join(SECOND), leader.may_join(THIRD)) == (False, True)
    leader.granted(leader.expand(THIRD), (ME, THIRD), 10)
    assert (leader.isr, leader.may_join(SECOND)) == ((ME, THIRD), False)
    leader.clear_refusals()
    assert leader.may_join(SECOND)


def test_those_to_be_let_go_hold_the_watermark_until_that_is_granted() -> None:
    leader = a_leader([1, 2], end=5)
    proposal = leader.shrink(LAG_MS + 1)
    assert proposal is not None
    assert leader.maximal_isr == (ME, SECOND)
    assert not leader.appended(Offset(6))
    assert leader.ineligible(proposal) is False
    assert leader.isr == (ME, SECOND)


def test_nothing_more_is_proposed_while_a_proposal_is_under_way() -> None:
    leader = a_leader([1, 3], end=5)
    leader.fetched(SECOND, Offset(5), Offset(5), LAG_MS)
    proposal = leader.expand(SECOND)
    assert leader.shrink(10 * LAG_MS) is None
    assert not leader.may_join(SECOND)
    with pytest.raises(AssertionError):
        leader.expand(SECOND)
    leader.ineligible(proposal)
    assert leader.shrink(10 * LAG_MS) is not None


def test_an_answer_to_another_proposal_or_an_older_one_changes_nothing() -> None:
    leader = a_leader([1, 2], end=5)
    first = leader.shrink(LAG_MS + 1)
    assert first is not None
    leader.ineligible(first)
    second = leader.shrink(LAG_MS + 1)
    assert second is not None
    assert not leader.granted(first, (ME,), 8)
    assert not leader.ineligible(first)
    assert not leader.granted(second, (ME,), 6)
    assert (leader.proposal, leader.isr, leader.partition_epoch) == (second, (ME, SECOND), 7)


def test_what_was_granted_counts_and_not_what_was_proposed() -> None:
    leader = a_leader([1, 2], end=5)
    proposal = leader.shrink(LAG_MS + 1)
    assert proposal is not None
    assert not leader.granted(proposal, (ME, SECOND, THIRD), 9)
    assert leader.isr == (ME, SECOND, THIRD)
    leader.fetched(SECOND, Offset(5), Offset(5), 1)
    assert leader.high_watermark == 0
    assert leader.fetched(THIRD, Offset(3), Offset(5), 1)
    assert leader.high_watermark == 3


def test_one_close_behind_holds_the_watermark_until_it_is_slow() -> None:
    leader = a_leader([1], end=5)
    leader.fetched(SECOND, Offset(5), Offset(5), 1)
    assert not leader.appended(Offset(7))
    assert leader.high_watermark == 5
    assert leader.shrink(LAG_MS) is None
    assert not leader.appended(Offset(7))
    assert leader.shrink(LAG_MS + 2) is None
    assert leader.appended(Offset(7))


def test_one_far_behind_does_not_hold_the_watermark() -> None:
    leader = a_leader([1], end=50)
    assert not leader.fetched(SECOND, Offset(3), Offset(50), 1)
    assert leader.appended(Offset(51))


def test_a_leader_outside_of_its_in_sync_set_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        a_leader([2, 3])
    leader = a_leader([1, 2], end=5)
    proposal = leader.shrink(LAG_MS + 1)
    assert proposal is not None
    with pytest.raises(AssertionError):
        leader.granted(proposal, (SECOND,), 8)


# Laws.


class Course:
    """Anything that may happen to a leader, in any order, with the invariants looked at after each step."""

    def __init__(self, isr: list[int], high_watermark: int, end: int) -> None:
        self.leader = a_leader(isr, high_watermark, end)
        self.end = end
        self.now_ms = 0
        self.reported = dict.fromkeys((SECOND, THIRD), 0)
        self.watermark = self.leader.high_watermark
        """Up to here it came from an earlier term, at first."""
        self.check(moved=False)

    def append(self, count: int) -> None:
        self.end += count
        self.check(moved=self.leader.appended(Offset(self.end)))

    def fetch(self, choice: int) -> None:
        broker_id = (SECOND, THIRD)[choice % 2]
        offset = min(self.end, choice // 2)
        self.reported[broker_id] = offset
        moved = self.leader.fetched(broker_id, Offset(offset), Offset(self.end), self.now_ms, broker_epoch=choice)
        self.check(moved=moved)

    def expand(self, choice: int) -> None:
        broker_id = (SECOND, THIRD)[choice % 2]
        if self.leader.may_join(broker_id):
            self.is_proposed(self.leader.expand(broker_id))
        self.check(moved=False)

    def shrink(self, milliseconds: int) -> None:
        self.now_ms += 10 * milliseconds
        before = self.leader.proposal
        proposal = self.leader.shrink(self.now_ms)
        if proposal is not None:
            assert before is None
            self.is_proposed(proposal)
        self.check(moved=False)

    def is_proposed(self, proposal: IsrProposal) -> None:
        leader = self.leader
        assert proposal is leader.proposal
        assert (proposal.leader_epoch, proposal.partition_epoch) == (leader.leader_epoch, leader.partition_epoch)
        assert set(proposal.isr) ^ set(leader.isr)
        assert len(proposal.broker_epochs) == len(proposal.isr)

    def answer(self, choice: int) -> None:
        leader, proposal = self.leader, self.leader.proposal
        if proposal is None:
            return
        if choice % 2:
            before = leader.isr, leader.partition_epoch
            moved = leader.ineligible(proposal)
            assert (leader.isr, leader.partition_epoch) == before
        else:
            moved = leader.granted(proposal, proposal.isr, leader.partition_epoch + 1)
            assert leader.isr == proposal.isr
        assert leader.proposal is None
        self.check(moved=moved)

    def check(self, *, moved: bool) -> None:
        leader = self.leader
        assert moved == (leader.high_watermark > self.watermark)
        assert self.watermark <= leader.high_watermark <= self.end
        if moved:
            assert all(self.reported[member] >= leader.high_watermark for member in leader.maximal_isr if member != ME)
        self.watermark = leader.high_watermark
        assert ME in leader.isr
        proposed = () if leader.proposal is None else leader.proposal.isr
        assert set(leader.maximal_isr) == set(leader.isr) | set(proposed)
        assert leader.proposal is None or ME in proposed


STEPS: dict[str, Callable[[Course, int], None]] = {
    "append": Course.append,
    "fetch": Course.fetch,
    "expand": Course.expand,
    "shrink": Course.shrink,
    "answer": Course.answer,
}


@given(
    st.sampled_from([[1], [1, 2], [1, 2, 3]]),
    st.integers(0, 4),
    st.integers(0, 4),
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 15)), max_size=40),
)
def test_whatever_happens_the_invariants_hold(
    isr: list[int], high_watermark: int, end: int, steps: list[tuple[str, int]]
) -> None:
    course = Course(isr, high_watermark, end)
    for name, choice in steps:
        STEPS[name](course, choice)


@given(st.lists(st.integers(0, 50)))
def test_the_watermark_never_moves_back_and_never_passes_the_log(steps: list[int]) -> None:
    leader = a_leader([1])
    end = 0
    for step in steps:
        before = leader.high_watermark
        end += step
        moved = leader.appended(Offset(end))
        assert moved == (leader.high_watermark > before)
        assert before <= leader.high_watermark <= end


@given(st.permutations([(SECOND, 3), (SECOND, 7), (THIRD, 5), (THIRD, 6)]))
def test_the_order_in_which_fetches_come_makes_no_difference_once_all_have_the_same(
    fetches: list[tuple[BrokerId, int]],
) -> None:
    leader = a_leader([1, 2, 3], end=9)
    for now_ms, (broker_id, offset) in enumerate(fetches):
        leader.fetched(broker_id, Offset(offset), Offset(9), now_ms)
        assert leader.high_watermark <= 6
    for broker_id in (SECOND, THIRD):
        leader.fetched(broker_id, Offset(9), Offset(9), 9)
    assert leader.high_watermark == 9
