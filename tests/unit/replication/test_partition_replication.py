"""A partition that is replicated: a leader and its follower, each on a log of its own, talk through their methods."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from sordini.replication.follower_log import append_fetched_records, restart_at, truncate_to_divergence
from sordini.replication.follower_truncation import EpochEnd, FetchPosition, FetchStart
from sordini.replication.leader import IsrProposal, Term
from sordini.replication.partition import Partition
from sordini.replication.partition_deps import IsrChangeCounts, Peers
from sordini.replication.ports import IsrGrant, IsrRefusal
from sordini.replication.purgatory import DelayedOperation
from sordini.replication.state_change_log import IsrChangeLog
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import a_batch
from tests.support.fake_ports import ListLog, StillClock
from tests.support.partitions import ME, NAME, OTHER, SETTINGS, TOPIC_ID, checked, logs_on
from tests.support.parts import examples
from tests.support.unit_broker import Timers

THIRD = BrokerId(3)
ALL_REPLICAS = (ME, OTHER, THIRD)


class Asked(NamedTuple):
    proposal: IsrProposal
    answered: object


class Notary:
    """Grants ISR changes: keeps the proposals, and answers on demand."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.withdrawn: list[TopicPartition] = []

    def propose(self, _name: TopicPartition, _topic_id: TopicId, proposal: IsrProposal, answered) -> None:
        self.asked.append(Asked(proposal, answered))

    def withdraw(self, topic_partition: TopicPartition) -> None:
        self.withdrawn.append(topic_partition)

    def answer(self, answer: IsrGrant | IsrRefusal) -> None:
        self.asked.pop(0).answered(answer)

    def grant(self) -> None:
        proposal = self.asked[0].proposal
        self.answer(IsrGrant(proposal.leader_epoch, proposal.isr, proposal.partition_epoch + 1))


def a_leader(isr: tuple[BrokerId, ...] = ALL_REPLICAS, epoch: int = 0, **peers) -> tuple[Partition, Notary]:
    notary = Notary()
    log = logs_on(ForgetfulDisk()).create(NAME, TOPIC_ID, SETTINGS.log)
    partition = Partition(NAME, TOPIC_ID, log, SETTINGS, Peers(notary, **peers))
    partition.become_leader(ME, Term(LeaderEpoch(epoch), isr, ALL_REPLICAS), 0)
    return partition, notary


def a_follower(epoch: int = 0, leader: BrokerId = ME) -> Partition:
    log = logs_on(ForgetfulDisk()).create(NAME, TOPIC_ID, SETTINGS.log)
    partition = Partition(NAME, TOPIC_ID, log, SETTINGS)
    partition.become_follower(leader, Term(LeaderEpoch(epoch), ALL_REPLICAS, ALL_REPLICAS))
    return partition


def code_of(action) -> ErrorCode:
    with pytest.raises(BrokerError) as refusal:
        action()
    return refusal.value.code


def fetch(leader: Partition, follower: Partition, who: BrokerId, now_ms: int = 0) -> EpochEnd | None:
    """One fetch from question to answer, as the fetch loop and the handler do it."""
    asked = follower.next_request()
    assert isinstance(asked, FetchPosition)
    assert follower.follower is not None
    parted = leader.update_follower_fetch_state(who, asked, now_ms)
    if parted is not None:
        truncate_to_divergence(follower, follower.follower, parted, 0)
        return parted
    piece = leader.read_replica(asked.fetch_offset, 1_000_000, whole_first=True)
    records = b"" if piece is None else piece.read()
    watermark, start = leader.require_leader().high_watermark, leader.log.log_start_offset
    if piece is not None:
        piece.release()
    append_fetched_records(follower, follower.follower, asked.fetch_offset, memoryview(records), watermark, start, 0)
    return None


def stored(partition: Partition) -> bytes:
    return b"".join(segment.file().read_at(0, segment.size) for segment in partition.log.segments.all())


def test_the_watermark_rises_with_the_second_fetch_of_the_last_in_sync_replica() -> None:
    """The first fetch brings the records, the second acknowledges them by its offset."""
    leader, _ = a_leader()
    followers = {OTHER: a_follower(), THIRD: a_follower()}
    leader.append(checked(), 0, all_replicas=True)
    for who, follower in followers.items():
        fetch(leader, follower, who)
        assert (follower.log.log_end_offset, follower.log.high_watermark) == (3, 0)
    assert leader.require_leader().high_watermark == 0
    fetch(leader, followers[OTHER], OTHER)
    assert leader.require_leader().high_watermark == 0, "the third has not acknowledged them"
    fetch(leader, followers[THIRD], THIRD)
    assert leader.require_leader().high_watermark == 3
    assert followers[THIRD].log.high_watermark == 3, "the fetch that moved it is answered with it"
    assert followers[OTHER].log.high_watermark == 0
    fetch(leader, followers[OTHER], OTHER)
    assert followers[OTHER].log.high_watermark == 3
    assert stored(leader) == stored(followers[OTHER]) == stored(followers[THIRD])


def test_waiting_producers_are_answered_when_the_watermark_has_passed_their_records() -> None:
    leader, _ = a_leader((ME, OTHER))
    follower, reported = a_follower(), []
    end = leader.append(checked(), 0, all_replicas=True).end_offset
    leader.pending_commits.add(Offset(end), lambda _, code: reported.append(code))
    fetch(leader, follower, OTHER)
    assert reported == []
    fetch(leader, follower, OTHER)
    assert reported == [ErrorCode.NONE]


def test_what_counts_with_too_few_in_sync_is_answered_so() -> None:
    leader, notary = a_leader((ME, OTHER), lag_ms_max=100)
    leader.settings = SETTINGS._replace(min_insync_replicas=2)
    reported: list[ErrorCode] = []
    end = leader.append(checked(), 0, all_replicas=True).end_offset
    leader.pending_commits.add(Offset(end), lambda _, code: reported.append(code))
    leader.maybe_shrink_isr(101)
    notary.grant()
    assert reported == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert code_of(lambda: leader.append(checked(), 0, all_replicas=True)) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_parked_follower_is_woken_by_the_append_and_a_consumer_by_the_watermark() -> None:
    leader, _ = a_leader((ME, OTHER))
    follower, woken = a_follower(), []
    DelayedOperation(1, (leader.log_end_waiters,), lambda: woken.append("follower"))
    DelayedOperation(1, (leader,), lambda: woken.append("consumer"))
    assert leader.has_delayed_operations
    leader.append(checked(), 0, all_replicas=True)
    leader.notify_purgatory()
    assert woken == ["follower"]
    fetch(leader, follower, OTHER)
    assert woken == ["follower"]
    fetch(leader, follower, OTHER)
    assert woken == ["follower", "consumer"]


def test_a_consumer_that_wants_more_than_the_watermark_passed_waits_on() -> None:
    leader, _ = a_leader((ME, OTHER))
    follower, woken = a_follower(), []
    size = len(a_batch())
    DelayedOperation(size + 1, (leader,), lambda: woken.append("consumer"))
    leader.append(checked(), 0, all_replicas=True)
    for _ in range(2):
        fetch(leader, follower, OTHER)
    leader.append(checked(), 0, all_replicas=True)
    assert woken == []
    for _ in range(2):
        fetch(leader, follower, OTHER)
    assert woken == ["consumer"]


def test_a_fetch_of_another_epoch_is_refused_and_one_without_counts_for_nothing() -> None:
    leader, _ = a_leader((ME, OTHER), epoch=4)
    leader.append(checked(), 0, all_replicas=True)
    end = Offset(3)
    fenced = FetchPosition(end, LeaderEpoch(3), -1)
    assert code_of(lambda: leader.update_follower_fetch_state(OTHER, fenced, 0)) == ErrorCode.FENCED_LEADER_EPOCH
    unknown = FetchPosition(end, LeaderEpoch(5), -1)
    assert code_of(lambda: leader.update_follower_fetch_state(OTHER, unknown, 0)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert leader.update_follower_fetch_state(OTHER, FetchPosition(end, LeaderEpoch(-1), -1), 0) is None
    assert leader.require_leader().high_watermark == 0
    assert leader.update_follower_fetch_state(OTHER, FetchPosition(end, LeaderEpoch(4), 4), 0) is None
    assert leader.require_leader().high_watermark == 3


def test_a_broker_that_holds_no_replica_is_refused() -> None:
    leader, _ = a_leader()
    stranger = FetchPosition(Offset(0), LeaderEpoch(0), -1)
    assert (
        code_of(lambda: leader.update_follower_fetch_state(BrokerId(9), stranger, 0))
        == ErrorCode.NOT_LEADER_OR_FOLLOWER
    )


def test_a_diverging_follower_gets_the_diverging_epoch_and_does_not_advance_the_watermark() -> None:
    leader, _ = a_leader((ME, OTHER), epoch=1)
    leader.append(checked(), 0, all_replicas=True)
    leader.become_leader(ME, Term(LeaderEpoch(3), (ME, OTHER), ALL_REPLICAS), 0)
    leader.append(checked(), 0, all_replicas=True)
    other = FetchPosition(Offset(6), LeaderEpoch(3), 2)
    assert leader.update_follower_fetch_state(OTHER, other, 0) == EpochEnd(1, 3)
    assert leader.require_leader().high_watermark == 0


def test_a_diverged_follower_converges_to_the_leaders_bytes() -> None:
    """Two leaders in turn wrote different records at the same offsets."""
    leader, _ = a_leader((ME, OTHER), epoch=0)
    follower = a_follower()
    leader.append(checked(), 0, all_replicas=True)
    fetch(leader, follower, OTHER)
    follower.become_leader(OTHER, Term(LeaderEpoch(1), (OTHER,), ALL_REPLICAS), 0)
    for _ in range(3):
        follower.append(checked(a_batch(2, value=b"lost")), 0, all_replicas=False)
    leader.become_leader(ME, Term(LeaderEpoch(2), (ME, OTHER), ALL_REPLICAS), 0)
    leader.append(checked(a_batch(1, value=b"kept")), 0, all_replicas=False)
    follower.become_follower(ME, Term(LeaderEpoch(2), (ME, OTHER), ALL_REPLICAS))
    answers = [fetch(leader, follower, OTHER) for _ in range(4)]
    assert answers == [EpochEnd(0, 3), None, None, None]
    assert stored(follower) == stored(leader)
    assert follower.log.epochs.entries == [(0, 0), (2, 3)]
    assert leader.require_leader().high_watermark == follower.log.high_watermark == 4


@given(st.lists(st.tuples(st.sampled_from(["append", "fetch", "elect"]), st.sampled_from([0, 1, 2])), max_size=40))
@settings(max_examples=examples(80), deadline=None)
def test_all_replicas_become_equal_in_the_end_whichever_replica_leads_next(steps: list[tuple[str, int]]) -> None:
    """Clean elections only: the next leader is one that has everything below the watermark."""
    copies = {ME: a_leader()[0], OTHER: a_follower(), THIRD: a_follower()}
    names, leads, epoch = (ME, OTHER, THIRD), ME, 0
    for kind, number in steps:
        who = names[number]
        if kind == "append":
            copies[leads].append(checked(), 0, all_replicas=False)
        elif kind == "fetch" and who != leads:
            fetch(copies[leads], copies[who], who)
        elif kind == "elect":
            epoch, leads = epoch + 1, who
            term = Term(LeaderEpoch(epoch), names, names)
            for name, copy in copies.items():
                copy.become_leader(name, term, 0) if name == leads else copy.become_follower(leads, term)
    for _ in range(3 + 2 * epoch):
        for name in names:
            if name != leads:
                fetch(copies[leads], copies[name], name)
    assert stored(copies[ME]) == stored(copies[OTHER]) == stored(copies[THIRD])
    assert {copy.log.high_watermark for copy in copies.values()} == {copies[leads].log.log_end_offset}
    assert len({tuple(copy.log.epochs.entries[:-1]) for copy in copies.values()} | set()) <= 2


def test_a_replica_that_has_come_to_the_watermark_and_the_epochs_start_is_proposed() -> None:
    leader, notary = a_leader((ME,))
    leader.append(checked(), 0, all_replicas=True)
    follower = a_follower()
    fetch(leader, follower, OTHER)
    assert notary.asked == []
    fetch(leader, follower, OTHER)
    assert [asked.proposal.isr for asked in notary.asked] == [(ME, OTHER)]
    leader.append(checked(), 0, all_replicas=True)
    assert leader.require_leader().high_watermark == 3, "from the proposal on the newcomer holds the watermark"
    notary.grant()
    assert leader.require_leader().isr == (ME, OTHER)
    assert leader.require_leader().partition_epoch == 1


def test_granted_changes_of_the_in_sync_set_are_logged_and_counted_by_the_leader() -> None:
    log, counts, timers = ListLog(), IsrChangeCounts(), Timers()
    changes = IsrChangeLog(log, StillClock(), timers.call_later)
    leader, controller = a_leader((ME, OTHER), lag_ms_max=100, log=changes, counts=counts)
    follower = a_follower()
    leader.append(checked(), 0, all_replicas=True)
    leader.maybe_shrink_isr(101)
    timers.fire()
    assert log.lines == [], "proposed and not granted"
    controller.grant()
    for _ in range(2):
        fetch(leader, follower, OTHER, 200)
    controller.answer(IsrRefusal.INELIGIBLE)
    timers.fire()
    assert [event for event, _ in log.at("info")] == ["ISR shrunk"], "a refused proposal changes nothing"
    assert (counts.shrinks, counts.expansions) == (1, 0)
    leader.require_leader().clear_refusals()
    fetch(leader, follower, OTHER, 200)
    controller.grant()
    timers.fire()
    assert log.at("info") == [
        (
            "ISR shrunk",
            {"partition": "orders-0", "isr": [ME], "left": [OTHER], "partition_epoch": 1, "leader_epoch": 0},
        ),
        (
            "ISR expanded",
            {"partition": "orders-0", "isr": [ME, OTHER], "joined": [OTHER], "partition_epoch": 2, "leader_epoch": 0},
        ),
    ]


def test_changes_of_the_in_sync_set_are_counted_by_their_direction() -> None:
    counts = IsrChangeCounts()
    one, two, three = BrokerId(1), BrokerId(2), BrokerId(3)
    counts.changed((one, two), (one,))
    counts.changed((one,), (one, two, three))
    counts.changed((one, two), (three, one))
    assert (counts.shrinks, counts.expansions) == (2, 2)


def test_a_broker_that_is_not_alive_is_not_proposed() -> None:
    leader, notary = a_leader((ME,), may_join=lambda broker_id: broker_id == THIRD)
    for who in (OTHER, THIRD):
        leader.update_follower_fetch_state(who, FetchPosition(Offset(0), LeaderEpoch(0), -1), 0)
    assert [asked.proposal.isr for asked in notary.asked] == [(ME, THIRD)]


def test_acknowledgements_do_not_wait_for_a_newcomer_whose_broker_has_gone() -> None:
    alive = {OTHER, THIRD}
    leader, notary = a_leader((ME, OTHER), may_join=lambda broker_id: broker_id in alive)
    leader.update_follower_fetch_state(THIRD, FetchPosition(Offset(0), LeaderEpoch(0), -1), 0)
    notary.answer(IsrRefusal.INELIGIBLE)  # It is about to stop, and fetches once more before it does.
    leader.require_leader().clear_refusals()
    leader.require_leader().fetched(THIRD, Offset(0), Offset(0), 0)
    leader.append(checked(), 0, all_replicas=True)
    leader.update_follower_fetch_state(OTHER, FetchPosition(Offset(3), LeaderEpoch(0), 0), 0)
    assert leader.require_leader().high_watermark == 0
    alive.remove(THIRD)
    leader.maybe_shrink_isr(0)
    assert leader.require_leader().high_watermark == 3
    assert leader.require_leader().isr == (ME, OTHER)


def test_a_broker_that_has_gone_is_not_waited_for_when_its_last_fetch_is_read_late() -> None:
    leader, _ = a_leader((ME, OTHER), may_join=lambda broker_id: broker_id == OTHER)
    leader.update_follower_fetch_state(THIRD, FetchPosition(Offset(0), LeaderEpoch(0), -1), 0)
    leader.append(checked(), 0, all_replicas=True)
    leader.update_follower_fetch_state(OTHER, FetchPosition(Offset(3), LeaderEpoch(0), 0), 0)
    assert leader.require_leader().high_watermark == 3


def test_a_lagging_replica_leaves_the_isr_only_when_the_change_is_granted() -> None:
    leader, notary = a_leader((ME, OTHER), lag_ms_max=100)
    leader.append(checked(), 0, all_replicas=True)
    leader.maybe_shrink_isr(100)
    assert notary.asked == []
    leader.maybe_shrink_isr(101)
    assert leader.require_leader().high_watermark == 0
    notary.grant()
    assert (leader.require_leader().isr, leader.require_leader().high_watermark) == ((ME,), 3)


@pytest.mark.parametrize("refusal", list(IsrRefusal))
def test_a_refused_change_leaves_the_set_as_it_was_and_the_watermark_held_while_nothing_is_known(
    refusal: IsrRefusal,
) -> None:
    leader, notary = a_leader((ME,))
    leader.update_follower_fetch_state(OTHER, FetchPosition(Offset(0), LeaderEpoch(0), -1), 0)
    leader.append(checked(), 0, all_replicas=True)
    notary.answer(refusal)
    assert leader.require_leader().isr == (ME,)
    assert leader.require_leader().high_watermark == (3 if refusal is IsrRefusal.INELIGIBLE else 0)


def test_an_answer_to_a_former_terms_proposal_changes_nothing() -> None:
    leader, notary = a_leader((ME,))
    leader.update_follower_fetch_state(OTHER, FetchPosition(Offset(0), LeaderEpoch(0), -1), 0)
    leader.become_leader(ME, Term(LeaderEpoch(1), (ME, THIRD), ALL_REPLICAS, 7), 0)
    assert notary.withdrawn == [NAME]
    notary.grant()
    assert (leader.require_leader().isr, leader.require_leader().partition_epoch) == ((ME, THIRD), 7)


def test_a_grant_that_names_another_epoch_or_leaves_the_leader_out_is_not_believed() -> None:
    for grant in (IsrGrant(1, (ME, OTHER), 5), IsrGrant(0, (OTHER,), 5)):
        leader, notary = a_leader((ME,))
        leader.update_follower_fetch_state(OTHER, FetchPosition(Offset(0), LeaderEpoch(0), -1), 0)
        notary.answer(grant)
        assert (leader.require_leader().isr, leader.require_leader().partition_epoch) == ((ME,), 0)


def test_an_answer_from_another_term_or_for_another_offset_is_thrown_away() -> None:
    follower = a_follower()
    former = follower.follower
    assert former is not None
    sent = memoryview(a_batch(3, leader_epoch=0))
    follower.become_follower(OTHER, Term(LeaderEpoch(1), ALL_REPLICAS, ALL_REPLICAS))
    assert append_fetched_records(follower, former, 0, sent, 3, 0, 0) == 0
    assert follower.follower is not None
    assert append_fetched_records(follower, follower.follower, 2, sent, 3, 0, 0) == 0
    assert (follower.log.log_end_offset, follower.log.high_watermark) == (0, 0)
    assert truncate_to_divergence(follower, former, EpochEnd(0, 0), 0) is None
    restart_at(follower, former, FetchStart(Offset(50), truncate_fully=True), 0)
    assert follower.log.log_end_offset == 0


def test_a_followers_watermark_never_passes_its_log_and_never_falls() -> None:
    follower = a_follower()
    term = follower.follower
    assert term is not None
    append_fetched_records(follower, term, 0, memoryview(a_batch(3, leader_epoch=0)), 99, 0, 0)
    assert follower.log.high_watermark == 3
    append_fetched_records(follower, term, 3, memoryview(b""), 1, 0, 0)
    assert follower.log.high_watermark == 3


def test_the_leaders_log_start_is_taken_up_to_what_counts_here() -> None:
    follower = a_follower()
    term = follower.follower
    assert term is not None
    append_fetched_records(follower, term, 0, memoryview(a_batch(3, leader_epoch=0)), 2, 3, 0)
    assert follower.log.log_start_offset == 2


def test_an_empty_log_begins_where_the_leaders_first_batch_does() -> None:
    follower = a_follower()
    term = follower.follower
    assert term is not None
    restart_at(follower, term, FetchStart(Offset(11), truncate_fully=True), 0)
    append_fetched_records(follower, term, 11, memoryview(a_batch(5, base_offset=8, leader_epoch=0)), 13, 11, 0)
    assert (follower.log.log_start_offset, follower.log.log_end_offset) == (11, 13)


def test_delayed_produces_stay_in_purgatory_when_their_leader_is_reelected_and_are_answered_when_it_resigns() -> None:
    leader, _ = a_leader((ME, OTHER))
    follower, reported = a_follower(), []
    for _ in range(2):
        end = leader.append(checked(), 0, all_replicas=True).end_offset
        leader.pending_commits.add(Offset(end), lambda _, code: reported.append(code))
    leader.become_leader(ME, Term(LeaderEpoch(1), (ME, OTHER), ALL_REPLICAS), 0)
    assert reported == []
    follower.become_follower(ME, Term(LeaderEpoch(1), (ME, OTHER), ALL_REPLICAS))
    for _ in range(2):
        fetch(leader, follower, OTHER)
    assert reported == [ErrorCode.NONE] * 2
    end = leader.append(checked(), 0, all_replicas=True).end_offset
    leader.pending_commits.add(Offset(end), lambda _, code: reported.append(code))
    leader.become_follower(OTHER, Term(LeaderEpoch(2), (ME, OTHER), ALL_REPLICAS))
    assert reported[2:] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_what_waits_for_the_disk_belongs_to_the_epoch_before_and_has_to_be_fetched_to_join() -> None:
    leader, _ = a_leader((ME,))
    leader.log.config = leader.log.config._replace(flush_messages=100)
    leader.append(checked(), 0, all_replicas=False)
    leader.log.config = leader.log.config._replace(flush_messages=1)
    leader.append(checked(), 0, all_replicas=False)
    leader.become_leader(ME, Term(LeaderEpoch(1), (ME,), ALL_REPLICAS), 0)
    assert leader.require_leader().epoch_start_offset == 6


@pytest.mark.parametrize("start", [0, 4])
def test_a_log_that_ends_in_the_middle_of_the_leaders_batch_takes_it_whole(start: int) -> None:
    follower = a_follower()
    term = follower.follower
    assert term is not None
    append_fetched_records(follower, term, 0, memoryview(a_batch(5, leader_epoch=0)), 4, start, 0)
    follower.log.truncate_to(5)
    append_fetched_records(follower, term, 5, memoryview(a_batch(2, base_offset=5, leader_epoch=0)), 6, start, 0)
    whole = a_batch(5, leader_epoch=0) + a_batch(9, base_offset=5, leader_epoch=0, value=b"one batch there")
    append_fetched_records(follower, term, 7, memoryview(whole[len(a_batch(5)) :]), 14, start, 0)
    assert (stored(follower), follower.log.log_end_offset, follower.log.high_watermark) == (whole, 14, 14)
    assert follower.log.log_start_offset == start
