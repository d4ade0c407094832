"""Records on their way to the dead letters: none is lost when the leader changes, and none is archived before."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sordini.broker.share_state.machine.state_runs import StateRun, with_written
from sordini.broker.shares.machine.acknowledgement import Acknowledgement, acknowledge
from sordini.broker.shares.machine.acquisition import Acquisition, AcquisitionRequest, Extent
from sordini.broker.shares.machine.in_flight import Part
from sordini.broker.shares.machine.record_states import AckType, DeathReason, RecordState
from sordini.broker.shares.machine.share_partition import (
    Change,
    DeadLetters,
    ShareLimits,
    SharePartition,
    StoredState,
)

LIMITS = ShareLimits(delivery_count_max=2, in_flight_max=30, lock_ms=1_000, has_dead_letters=True)
SIZE = 12


def a_partition(*stored: Part, limits: ShareLimits = LIMITS) -> SharePartition:
    return SharePartition(StoredState(0, stored), limits)


def acquire(partition: SharePartition, first: int = 0, end: int = SIZE, now_ms: int = 0) -> None:
    Acquisition(partition, AcquisitionRequest("a", 500, 500, is_by_records=False), now_ms).of([Extent(first, end)])


def say(partition: SharePartition, kind: AckType, first: int, end: int) -> Change:
    change = acknowledge(partition, "a", [Acknowledgement(first, end, (kind,))], 0)
    assert change is not None
    return change


def states(partition: SharePartition) -> list[tuple[int, int, RecordState]]:
    return [(part.first, part.end, part.state) for batch in partition.batches for part in batch.parts]


def test_a_rejected_record_is_archiving_until_its_dead_letter_is_written() -> None:
    partition = a_partition()
    acquire(partition, end=4)
    change = say(partition, AckType.REJECT, 0, 2)
    assert partition.take_dead_letters() == [], "before the change is written"
    partition.commit(change)
    assert partition.take_dead_letters() == [DeadLetters(0, 2, 1, DeathReason.REJECTED)]
    assert (partition.start, partition.take_dead_letters()) == (0, [])
    archived = partition.archive(0, 2)
    assert archived is not None
    assert [(part.first, part.end, part.after) for part in archived.parts] == [(0, 2, RecordState.ARCHIVED)]
    partition.commit(archived)
    assert (partition.start, partition.archive(0, 2)) == (2, None)


def test_a_record_that_comes_back_from_its_last_delivery_becomes_a_dead_letter() -> None:
    partition = a_partition()
    for now_ms in (0, 2_000):
        acquire(partition, end=1, now_ms=now_ms)
        acquire(partition, 1, 2, now_ms=now_ms)
        acquire(partition, 2, 3, now_ms=now_ms)
        partition.commit(say(partition, AckType.RELEASE, 0, 1))
        change = partition.release("a") if now_ms else partition.expire(1_000)
        assert change is not None
        partition.commit(change)
    exceeded = DeathReason.DELIVERIES_EXCEEDED
    found = partition.take_dead_letters()
    assert {letters.reason for letters in found} == {exceeded}
    assert {letters.deliveries for letters in found} == {2}
    assert sorted(offset for letters in found for offset in range(letters.first, letters.end)) == [0, 1, 2]


def test_a_gap_and_an_accepted_record_are_no_dead_letters() -> None:
    partition = a_partition()
    acquire(partition)
    partition.commit(say(partition, AckType.GAP, 0, 2))
    partition.commit(say(partition, AckType.ACCEPT, 2, 4))
    assert (partition.take_dead_letters(), partition.start) == ([], 4)


def test_without_a_topic_for_dead_letters_records_are_archived_at_once() -> None:
    partition = a_partition(limits=LIMITS._replace(has_dead_letters=False))
    acquire(partition)
    partition.commit(say(partition, AckType.REJECT, 0, 2))
    assert (partition.take_dead_letters(), partition.start) == ([], 2)


def test_records_that_a_former_leader_left_archiving_are_written_first() -> None:
    partition = a_partition(
        Part(0, 2, RecordState.ARCHIVING, 1),
        Part(2, 3, RecordState.ACKNOWLEDGED, 1),
        Part(3, 4, RecordState.ARCHIVING, 2),
    )
    assert partition.take_dead_letters() == [
        DeadLetters(0, 2, 1, DeathReason.REJECTED),
        DeadLetters(3, 4, 2, DeathReason.DELIVERIES_EXCEEDED),
    ]
    acquire(partition)
    assert states(partition)[0] == (0, 2, RecordState.ARCHIVING), "they are not delivered"


def test_an_archiving_that_could_not_be_written_is_tried_again() -> None:
    partition = a_partition()
    acquire(partition, end=2)
    partition.commit(say(partition, AckType.REJECT, 0, 2))
    change = partition.archive(0, 2)
    assert change is not None
    assert partition.archive(0, 2) is None, "it is being written"
    partition.roll_back(change)
    assert partition.next_deadline_ms() == LIMITS.lock_ms, "no further lock is noted"
    again = partition.archive(0, 2)
    assert again is not None
    partition.commit(again)
    assert partition.start == 2


class LettersAndLeaders(RuleBasedStateMachine):
    """Leaders fail at any time; what is stored, and what was written as dead letters, outlives them."""

    @initialize()
    def begin(self) -> None:
        self.stored: tuple[StateRun, ...] = ()
        self.start = 0
        self.died: dict[int, DeathReason] = {}
        self.written: dict[int, int] = {}
        """Offsets of dead letters in the topic, with how often they are there."""
        self.leads()

    def leads(self) -> None:
        parts = [Part(run.first, run.end, RecordState(run.state), run.deliveries) for run in self.stored]
        self.partition = SharePartition(StoredState(self.start, tuple(parts)), LIMITS)
        self.letters = self.partition.take_dead_letters()
        self.unarchived: list[DeadLetters] = []
        self.changes: list[Change] = []

    @rule()
    def acquire(self) -> None:
        acquire(self.partition, self.partition.start)

    @rule(data=st.data(), kind=st.sampled_from([AckType.ACCEPT, AckType.REJECT, AckType.RELEASE]))
    def acknowledge(self, data: st.DataObject, kind: AckType) -> None:
        held = [
            offset
            for batch in self.partition.batches
            for part in batch.parts
            if part.state is RecordState.ACQUIRED and part.after is None
            for offset in range(part.first, part.end)
        ]
        if held:
            first = data.draw(st.sampled_from(held))
            self.changes.append(say(self.partition, kind, first, first + 1))

    @rule(is_stored=st.booleans(), is_answered=st.booleans())
    def write_a_change(self, is_stored: bool, is_answered: bool) -> None:
        """A change that was stored without an answer ends the leader."""
        if not self.changes:
            return
        change = self.changes.pop(0)
        if is_stored:
            self._store(change)
        if is_answered:
            self.partition.commit(change) if is_stored else self.partition.roll_back(change)
            self.letters += self.partition.take_dead_letters()
            if not is_stored:
                self.unarchived += [
                    DeadLetters(part.first, part.end, part.deliveries, part.reason)
                    for part in change.parts
                    if part.state is RecordState.ARCHIVING and part.reason is not None
                ]
        else:
            self.leads()

    def _store(self, change: Change) -> None:
        runs = [StateRun(part.first, part.end, part.after or 0, part.deliveries) for part in change.parts]
        for part in change.parts:
            offsets = range(part.first, part.end)
            if part.after is RecordState.ARCHIVING:
                assert part.reason is not None
                self.died |= dict.fromkeys(offsets, part.reason)
            if part.after is RecordState.ARCHIVED:
                assert all(self.written.get(offset) for offset in offsets), "archived without its dead letter"
        self.start = change.start
        self.stored = with_written(self.stored, runs, change.start)

    @rule(works=st.booleans(), is_answered=st.booleans())
    def write_dead_letters(self, works: bool, is_answered: bool) -> None:
        if not self.letters:
            return
        letters = self.letters.pop(0)
        if works:
            for offset in range(letters.first, letters.end):
                self.written[offset] = self.written.get(offset, 0) + 1
        if works and is_answered:
            self.unarchived.append(letters)
        else:
            self.letters.append(letters)

    @rule()
    def archive(self) -> None:
        if self.unarchived:
            letters = self.unarchived.pop(0)
            change = self.partition.archive(letters.first, letters.end)
            if change is not None:
                self.changes.append(change)

    @rule()
    def fail(self) -> None:
        self.leads()

    @invariant()
    def no_dead_letter_is_lost(self) -> None:
        due = {offset for letters in self.letters for offset in range(letters.first, letters.end)}
        for offset in self.died:
            assert self.written.get(offset) or offset in due or not self._is_committed(offset)

    def _is_committed(self, offset: int) -> bool:
        """Whether this leader knows that the record is archiving: the answer may be under way."""
        under_way = {at for change in self.changes for part in change.parts for at in range(part.first, part.end)}
        return offset not in under_way


TestLettersAndLeaders = LettersAndLeaders.TestCase
TestLettersAndLeaders.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
