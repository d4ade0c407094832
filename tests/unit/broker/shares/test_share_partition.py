"""A share partition beside a dictionary of its records: who holds each, how often it was delivered, what became of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from sordini.broker.shares.machine.acknowledgement import Acknowledgement, acknowledge
from sordini.broker.shares.machine.acquisition import Acquired, Acquisition, AcquisitionRequest, Extent
from sordini.broker.shares.machine.in_flight import Part
from sordini.broker.shares.machine.record_states import AckType, RecordState
from sordini.broker.shares.machine.share_partition import Change, ShareLimits, SharePartition, StoredState
from sordini.protocol.errors import BrokerError, ErrorCode

LOCK_MS = 1_000
MEMBERS = ("a", "b")
LIMITS = ShareLimits(delivery_count_max=3, in_flight_max=20, lock_ms=LOCK_MS)


def a_partition(limits: ShareLimits = LIMITS, start: int = 0, *parts: Part) -> SharePartition:
    return SharePartition(StoredState(start, parts), limits)


def acquire(
    partition: SharePartition,
    read: list[Extent],
    member: str = "a",
    *,
    records_max: int = 500,
    batch_size: int = 500,
    is_by_records: bool = False,
    now_ms: int = 0,
) -> list[Acquired]:
    request = AcquisitionRequest(member, records_max, batch_size, is_by_records)
    return Acquisition(partition, request, now_ms).of(read)


def written(partition: SharePartition, change: Change | None) -> None:
    assert change is not None
    partition.commit(change)


def say(
    partition: SharePartition, kind: AckType, first: int, end: int, member: str = "a", now_ms: int = 0
) -> Change | None:
    return acknowledge(partition, member, [Acknowledgement(first, end, (kind,))], now_ms)


def test_records_are_acquired_by_whole_batches() -> None:
    partition = a_partition(ShareLimits(5, 2_000, LOCK_MS))
    read = [Extent(0, 3), Extent(3, 8), Extent(8, 10), Extent(10, 20)]
    assert acquire(partition, read, records_max=4) == [Acquired(0, 8, 1)]
    assert partition.next_offset() == 8
    assert acquire(partition, read[2:], records_max=4) == [Acquired(8, 20, 1)]


def test_records_before_a_stored_run_are_delivered_by_the_next_leader() -> None:
    """Acquiring is not stored, so what another member had acquired is in no run."""
    partition = a_partition(LIMITS, 0, Part(2, 3, RecordState.ACKNOWLEDGED, 1))
    assert partition.start == 0
    read = [Extent(0, 1), Extent(1, 2), Extent(2, 3), Extent(3, 4)]
    assert acquire(partition, read) == [Acquired(0, 2, 1), Acquired(3, 4, 1)]
    written(partition, say(partition, AckType.ACCEPT, 0, 2))
    assert partition.start == 3


def test_offsets_without_records_are_passed_when_what_is_behind_them_was_read() -> None:
    partition = a_partition(LIMITS, 0, Part(4, 5, RecordState.ACKNOWLEDGED, 1))
    assert acquire(partition, [Extent(2, 3), Extent(4, 5), Extent(7, 8)]) == [Acquired(2, 3, 1), Acquired(7, 8, 1)]
    assert partition.start == 2
    written(partition, say(partition, AckType.ACCEPT, 2, 3))
    assert partition.start == 7


def test_ranges_end_with_the_batch_that_fills_them() -> None:
    read = [Extent(0, 3), Extent(3, 8), Extent(8, 10), Extent(10, 20)]
    assert acquire(a_partition(), read, batch_size=4) == [Acquired(0, 8, 1), Acquired(8, 20, 1)]


def test_by_records_no_more_are_acquired_than_were_asked_for_and_the_rest_of_the_batch_is_next() -> None:
    partition, read = a_partition(), [Extent(0, 8)]
    assert acquire(partition, read, records_max=3, is_by_records=True) == [Acquired(0, 3, 1)]
    assert partition.end == 8
    assert acquire(partition, [*read, Extent(8, 9)], "b") == [Acquired(3, 8, 1), Acquired(8, 9, 1)]


def test_a_batch_with_records_that_failed_often_does_not_come_behind_another() -> None:
    partition, read = a_partition(ShareLimits(5, 2_000, LOCK_MS)), [Extent(0, 4), Extent(4, 8)]
    acquire(partition, read[:1], "b")
    for deliveries in range(1, 4):
        assert acquire(partition, read) == [Acquired(4, 8, deliveries)]
        written(partition, say(partition, AckType.RELEASE, 4, 8))
    written(partition, partition.release("b"))
    assert acquire(partition, read) == [Acquired(0, 4, 2)]
    assert acquire(partition, read) == [Acquired(4, 6, 4)], "half of it"


def test_a_record_comes_alone_for_the_last_time_though_others_of_its_batch_are_available() -> None:
    partition = a_partition(ShareLimits(3, 2_000, LOCK_MS))
    acquire(partition, [Extent(0, 4)])
    written(partition, say(partition, AckType.RELEASE, 2, 3))
    assert acquire(partition, [Extent(0, 4)]) == [Acquired(2, 3, 2)]
    written(partition, partition.release("a"))
    assert acquire(partition, [Extent(0, 4)]) == [Acquired(0, 2, 2)], (
        "not the third, which is delivered for the last time"
    )
    assert acquire(partition, [Extent(0, 4)]) == [Acquired(2, 3, 3)]


def test_no_more_records_are_in_flight_than_the_limit_but_for_the_rest_of_a_batch() -> None:
    partition = a_partition(ShareLimits(5, 100, LOCK_MS))
    read = [Extent(0, 60), Extent(60, 120), Extent(120, 180)]
    assert acquire(partition, read) == [Acquired(0, 120, 1)]
    assert acquire(partition, read[2:]) == []
    written(partition, say(partition, AckType.RELEASE, 30, 40))
    assert acquire(partition, read) == [Acquired(30, 40, 2)], "records that are in flight anyway"


def test_the_start_moves_behind_records_that_are_done() -> None:
    partition = a_partition()
    acquire(partition, [Extent(0, 10)])
    written(partition, say(partition, AckType.ACCEPT, 4, 6))
    assert (partition.start, partition.done) == (0, 2)
    written(partition, say(partition, AckType.REJECT, 0, 4))
    assert (partition.start, partition.done) == (6, 0)
    written(partition, say(partition, AckType.GAP, 6, 10))
    assert (partition.start, partition.end, len(partition.batches)) == (10, 10, 0)


def test_a_change_is_not_in_force_before_it_is_written() -> None:
    partition = a_partition()
    acquire(partition, [Extent(0, 4)])
    change = say(partition, AckType.RELEASE, 0, 2)
    assert change is not None
    assert acquire(partition, [Extent(0, 4)], "b") == []
    with pytest.raises(BrokerError, match="not acquired"):
        say(partition, AckType.ACCEPT, 0, 1)
    partition.roll_back(change)
    written(partition, say(partition, AckType.RELEASE, 0, 1))
    assert acquire(partition, [Extent(0, 4)], "b") == [Acquired(0, 1, 2)]


@pytest.mark.parametrize(
    ("member", "first", "end", "code"),
    [
        ("b", 0, 1, ErrorCode.INVALID_RECORD_STATE),
        ("a", 3, 5, ErrorCode.INVALID_REQUEST),
        ("a", 9, 10, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_a_member_does_not_hold_is_refused_and_nothing_of_the_request_is_in_force(
    member: str, first: int, end: int, code: ErrorCode
) -> None:
    partition = a_partition()
    acquire(partition, [Extent(0, 4)])
    said = [Acknowledgement(2, 3, (AckType.ACCEPT,)), Acknowledgement(first, end, (AckType.ACCEPT,))]
    with pytest.raises(BrokerError) as refused:
        acknowledge(partition, member if member == "a" else "b", said if member == "a" else said[1:], 0)
    assert refused.value.code is code
    written(partition, say(partition, AckType.ACCEPT, 0, 4))
    assert partition.start == 4


def test_without_records_in_flight_every_acknowledgement_is_refused() -> None:
    with pytest.raises(BrokerError) as refused:
        say(a_partition(), AckType.ACCEPT, 5, 6)
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_what_is_said_of_records_below_the_start_changes_nothing() -> None:
    partition = a_partition()
    acquire(partition, [Extent(0, 4)])
    written(partition, say(partition, AckType.ACCEPT, 0, 2))
    assert say(partition, AckType.RELEASE, 0, 2) is None


def test_a_lock_ends_and_its_records_are_available_again() -> None:
    partition = a_partition()
    acquire(partition, [Extent(0, 4)], now_ms=0)
    acquire(partition, [Extent(0, 8)], now_ms=10)
    assert partition.next_deadline_ms() == LOCK_MS
    assert partition.expire(LOCK_MS - 1) is None
    written(partition, partition.expire(LOCK_MS))
    assert acquire(partition, [Extent(0, 8)], "b") == [Acquired(0, 4, 2)]


def test_a_renewed_lock_has_its_whole_duration_again_and_nothing_is_written() -> None:
    partition = a_partition()
    acquire(partition, [Extent(0, 4)])
    assert say(partition, AckType.RENEW, 0, 2, now_ms=500) is None
    written(partition, partition.expire(LOCK_MS))
    assert acquire(partition, [Extent(0, 4)], "b", now_ms=LOCK_MS) == [Acquired(2, 4, 2)]
    written(partition, partition.expire(LOCK_MS + 500))
    assert partition.next_offset() == 0


def test_what_a_member_holds_is_released_with_its_session() -> None:
    partition = a_partition()
    acquire(partition, [Extent(0, 4)], "a", records_max=2, is_by_records=True)
    acquire(partition, [Extent(0, 4)], "b")
    written(partition, partition.release("a"))
    assert partition.release("a") is None
    assert acquire(partition, [Extent(0, 4)], "b") == [Acquired(0, 2, 2)]


def test_records_are_archived_after_their_last_delivery() -> None:
    partition = a_partition()
    for number in range(1, 3):
        assert acquire(partition, [Extent(0, 1)]) == [Acquired(0, 1, number)]
        written(partition, say(partition, AckType.RELEASE, 0, 1))
    assert acquire(partition, [Extent(0, 1)]) == [Acquired(0, 1, 3)]
    written(partition, say(partition, AckType.RELEASE, 0, 1))
    assert (partition.start, acquire(partition, [Extent(0, 1)])) == (1, [])


def test_records_that_failed_often_come_in_smaller_portions_and_in_the_end_alone() -> None:
    """As Apache Kafka 4.4.0 delivers a batch of eight that is released again and again, with five deliveries at most."""
    partition, read, seen = a_partition(ShareLimits(5, 2_000, LOCK_MS)), [Extent(0, 8)], []
    for _ in range(12):
        (acquired,) = acquire(partition, read)
        seen.append(tuple(acquired))
        written(partition, say(partition, AckType.RELEASE, acquired.first, acquired.end))
    halves = [(0, 8, 1), (0, 8, 2), (0, 8, 3), (0, 4, 4), *((number, number + 1, 5) for number in range(4)), (4, 8, 4)]
    assert seen == [*halves, *((number, number + 1, 5) for number in range(4, 7))]


def test_a_stored_state_is_continued() -> None:
    parts = (
        Part(3, 5, RecordState.ACKNOWLEDGED, 1),
        Part(5, 6, RecordState.AVAILABLE, 2),
        Part(7, 8, RecordState.ARCHIVED, 3),
    )
    partition = a_partition(LIMITS, 3, *parts)
    assert (partition.start, partition.end, partition.done) == (5, 8, 1)
    assert acquire(partition, [Extent(0, 10)]) == [Acquired(5, 6, 3)], "it comes alone"
    assert acquire(partition, [Extent(0, 10)]) == [Acquired(6, 7, 1), Acquired(8, 10, 1)]


class Beside(RuleBasedStateMachine):
    """Random calls; each record's place is known to a dictionary, too."""

    @initialize(batches=st.lists(st.integers(1, 6), min_size=1, max_size=12))
    def begin(self, batches: list[int]) -> None:
        self.partition = a_partition()
        self.read: list[Extent] = []
        for size in batches:
            first = self.read[-1].end if self.read else 0
            self.read.append(Extent(first, first + size))
        self.records: dict[int, tuple[RecordState, int, str]] = {}
        self.deadlines: dict[int, int] = {}
        self.now_ms = 0

    def rest(self) -> list[Extent]:
        return [extent for extent in self.read if extent.end > self.partition.next_offset()]

    @rule(
        member=st.sampled_from(MEMBERS),
        records_max=st.sampled_from([1, 2, 5, 100]),
        batch_size=st.sampled_from([1, 4, 100]),
        is_by_records=st.booleans(),
    )
    def acquire(self, member: str, records_max: int, batch_size: int, is_by_records: bool) -> None:
        was_room = LIMITS.in_flight_max - self.partition.in_flight
        found = acquire(
            self.partition,
            self.rest(),
            member,
            records_max=records_max,
            batch_size=batch_size,
            is_by_records=is_by_records,
            now_ms=self.now_ms,
        )
        for first, end, deliveries in found:
            for offset in range(first, end):
                state, before, _ = self.records.get(offset, (RecordState.AVAILABLE, 0, ""))
                assert (state, before + 1) == (RecordState.AVAILABLE, deliveries)
                self.records[offset] = RecordState.ACQUIRED, deliveries, member
                self.deadlines[offset] = self.now_ms + LOCK_MS
        if is_by_records:
            assert sum(end - first for first, end, _ in found) <= records_max
        if was_room <= 0:
            assert all(deliveries > 1 or end <= self.partition.end for _, end, deliveries in found)

    @rule(data=st.data(), kind=st.sampled_from(list(AckType)), member=st.sampled_from(MEMBERS), works=st.booleans())
    def acknowledge(self, data: st.DataObject, kind: AckType, member: str, works: bool) -> None:
        held = [offset for offset, (state, _, who) in self.records.items() if state == 1 and who == member]
        if not held:
            return
        first = data.draw(st.sampled_from(held))
        end = first + 1
        while end in held and data.draw(st.booleans()):
            end += 1
        change = say(self.partition, kind, first, end, member, self.now_ms)
        if kind is AckType.RENEW:
            assert change is None
            self.deadlines.update(dict.fromkeys(range(first, end), self.now_ms + LOCK_MS))
            return
        assert change is not None
        if not works:
            self.partition.roll_back(change)
            return
        self.partition.commit(change)
        for offset in range(first, end):
            self.becomes(offset, kind)

    def becomes(self, offset: int, kind: AckType) -> None:
        deliveries = self.records[offset][1]
        state = RecordState.ACKNOWLEDGED if kind is AckType.ACCEPT else RecordState.ARCHIVED
        if kind is AckType.RELEASE and deliveries < LIMITS.delivery_count_max:
            state = RecordState.AVAILABLE
        self.records[offset] = state, deliveries, ""

    @rule(member=st.sampled_from(MEMBERS))
    def close(self, member: str) -> None:
        held = [offset for offset, (state, _, who) in self.records.items() if state == 1 and who == member]
        change = self.partition.release(member)
        assert (change is None) == (not held)
        if change is not None:
            self.partition.commit(change)
        for offset in held:
            self.becomes(offset, AckType.RELEASE)

    @rule(passed_ms=st.sampled_from([1, 400, 700]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        ended = [
            offset
            for offset, (state, _, _) in self.records.items()
            if state == 1 and self.deadlines[offset] <= self.now_ms
        ]
        change = self.partition.expire(self.now_ms)
        assert (change is None) == (not ended)
        if change is not None:
            self.partition.commit(change)
        for offset in ended:
            self.becomes(offset, AckType.RELEASE)

    @precondition(lambda self: hasattr(self, "partition"))
    @invariant()
    def agrees(self) -> None:
        partition = self.partition
        for batch in partition.batches:
            for part in batch.parts:
                for offset in range(part.first, part.end):
                    known = self.records.get(offset, (RecordState.AVAILABLE, 0, ""))
                    assert known == (part.state, part.deliveries, part.member)
        done = {offset for offset, (state, _, _) in self.records.items() if state in (2, 4)}
        start = next((offset for offset in range(partition.end) if offset not in done), partition.end)
        assert partition.start == start
        assert partition.done == len([offset for offset in done if offset >= start])
        available = [
            offset
            for offset in range(start, partition.end)
            if self.records.get(offset, (RecordState.AVAILABLE, 0, ""))[0] is RecordState.AVAILABLE
        ]
        assert partition.next_offset() == (available[0] if available else partition.end)


TestBeside = Beside.TestCase
TestBeside.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


@given(st.integers(1, 40), st.integers(2, 10))
def test_every_record_is_delivered_until_it_is_archived_and_no_more(size: int, limit: int) -> None:
    partition = a_partition(ShareLimits(limit, 2_000, LOCK_MS))
    deliveries = dict.fromkeys(range(size), 0)
    for _ in range(size * limit + 1):
        acquired = acquire(partition, [Extent(0, size)])
        for first, end, _ in acquired:
            for offset in range(first, end):
                deliveries[offset] += 1
        change = partition.release("a")
        if change is None:
            break
        partition.commit(change)
    assert partition.start == size
    assert set(deliveries.values()) == {limit}
