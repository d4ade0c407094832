"""Idempotent producers: new, duplicate, out of order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.storage.producer_snapshots import decode_snapshot, encode_snapshot
from sordini.storage.producer_state import EPOCH_MAX, SEQUENCE_MAX, SILENT_MS, ProducerState, SentBatch

PRODUCER = 7


def sent(sequence: int, count: int = 1, offset: int | None = None, timestamp: int = 0) -> SentBatch:
    first = sequence if offset is None else offset
    last_sequence = (sequence + count - 1) & SEQUENCE_MAX
    return SentBatch(sequence, last_sequence, first, first + count - 1, timestamp)


def with_batches(*batches: SentBatch, epoch: int = 0) -> ProducerState:
    state = ProducerState()
    for batch in batches:
        state.apply(PRODUCER, epoch, batch, is_transactional=False)
    return state


def refusal(state: ProducerState, epoch: int, first: int, last: int) -> ErrorCode:
    with pytest.raises(BrokerError) as raised:
        state.check(PRODUCER, epoch, first, last)
    return raised.value.code


def test_an_unknown_producer_may_start_at_any_sequence() -> None:
    assert ProducerState().check(PRODUCER, 3, 55, 57) is None


def test_the_next_sequence_is_new_and_a_gap_is_out_of_order() -> None:
    state = with_batches(sent(0, 3))
    assert state.check(PRODUCER, 0, 3, 4) is None
    assert refusal(state, 0, 4, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_answered_as_a_duplicate_and_the_sixth_is_not() -> None:
    batches = [sent(2 * number, 2, offset=100 + 2 * number) for number in range(6)]
    state = with_batches(*batches)
    for batch in batches[1:]:
        assert state.check(PRODUCER, 0, batch.first_sequence, batch.last_sequence) == batch
    assert refusal(state, 0, 0, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_resent_range_that_differs_is_not_a_duplicate() -> None:
    assert refusal(with_batches(sent(0, 3)), 0, 0, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced() -> None:
    assert refusal(with_batches(sent(0), epoch=2), 1, 1, 1) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_starts_at_sequence_zero() -> None:
    state = with_batches(sent(0, 3))
    assert refusal(state, 1, 3, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert state.check(PRODUCER, 1, 0, 0) is None
    state.apply(PRODUCER, 1, sent(0, offset=3), is_transactional=False)
    assert refusal(state, 0, 0, 2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequences_go_on_at_zero_after_the_largest() -> None:
    state = with_batches(sent(SEQUENCE_MAX - 1, 2, offset=10))
    assert state.check(PRODUCER, 0, 0, 4) is None
    wrapped = sent(SEQUENCE_MAX, 3, offset=11)
    assert wrapped.last_sequence == 1
    state = with_batches(sent(SEQUENCE_MAX - 1, 1, offset=10), wrapped)
    assert state.check(PRODUCER, 0, SEQUENCE_MAX, 1) == wrapped
    assert state.check(PRODUCER, 0, 2, 2) is None


def test_a_check_changes_nothing() -> None:
    state = with_batches(sent(0))
    before = list(state.entries())
    state.check(PRODUCER, 0, 1, 9)
    state.check(8, 0, 1, 9)
    assert list(state.entries()) == before


def test_a_silent_producer_expires_unless_its_transaction_is_open() -> None:
    state = with_batches(sent(0, timestamp=1_000))
    assert state.expire(1_999, 1_000) == 0
    assert state.expire(2_000, 1_000) == 1
    assert state.check(PRODUCER, 0, 44, 44) is None
    state.apply(PRODUCER, 0, sent(0, timestamp=1_000), is_transactional=True)
    assert state.expire(9_000, 1_000) == 0


def test_an_open_transaction_bounds_the_stable_offset_until_its_marker_is_below_the_high_watermark() -> None:
    state = ProducerState()
    state.apply(1, 0, sent(0, offset=10), is_transactional=True)
    state.apply(2, 0, sent(0, offset=11), is_transactional=True)
    assert state.unstable.first_unstable_offset(12) == 10
    assert state.apply_marker(1, 0, 12, 0, 5, commit=True) is None
    assert state.unstable.first_unstable_offset(12) == 10
    assert state.unstable.first_unstable_offset(13) == 11
    aborted = state.apply_marker(2, 0, 13, 0, 5, commit=False)
    assert aborted is not None
    assert tuple(aborted) == (2, 11, 13, 14)
    assert state.unstable.first_unstable_offset(14) is None


def test_an_aborted_transaction_names_the_first_open_one_as_stable_offset() -> None:
    state = ProducerState()
    state.apply(1, 0, sent(0, offset=10), is_transactional=True)
    state.apply(2, 0, sent(0, offset=11), is_transactional=True)
    aborted = state.apply_marker(2, 0, 12, 0, 5, commit=False)
    assert aborted is not None
    assert aborted.last_stable_offset == 10


def test_a_batch_outside_its_producers_open_transaction_is_refused() -> None:
    state = ProducerState()
    state.apply(1, 0, sent(0), is_transactional=True)
    state.check_transaction(1, is_transactional=True)
    with pytest.raises(BrokerError) as raised:
        state.check_transaction(1, is_transactional=False)
    assert raised.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_snapshot_has_apache_kafkas_bytes() -> None:
    state = with_batches(sent(4, 3, offset=20, timestamp=99), epoch=1)
    data = encode_snapshot(state)
    assert data[:2] == b"\0\1"
    assert data[6:].hex() == (
        "0000000100000000000000070001000000060000000000000016000000020000000000000063ffffffffffffffffffffffff"
    )
    assert encode_snapshot(ProducerState())[6:] == bytes(4)


@given(position=st.integers(0, 55), bit=st.integers(0, 7))
def test_any_flipped_bit_of_a_snapshot_is_noticed(position: int, bit: int) -> None:
    data = bytearray(encode_snapshot(with_batches(sent(4, 3))))
    data[position] ^= 1 << bit
    assert decode_snapshot(bytes(data)) is None


@given(st.integers(0, 55))
def test_a_short_snapshot_is_noticed(size: int) -> None:
    assert decode_snapshot(encode_snapshot(with_batches(sent(4, 3)))[:size]) is None


@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=30),
    st.integers(0, 30),
)
def test_a_snapshot_and_the_batches_after_it_give_the_state_again(
    script: list[tuple[int, int, bool]], cut: int
) -> None:
    def play(state: ProducerState, first: int, last: int) -> None:
        for number, (producer, count, marker) in enumerate(script):
            if not first <= number < last:
                continue
            if marker:
                state.apply_marker(producer, 0, 10 * number, number, 1, commit=True)
            else:
                batch = SentBatch(10 * number, 10 * number + count - 1, 10 * number, 10 * number + count - 1, number)
                state.apply(producer, 0, batch, is_transactional=True)

    live = ProducerState()
    play(live, 0, len(script))
    early = ProducerState()
    play(early, 0, cut)
    restored = decode_snapshot(encode_snapshot(early))
    assert restored is not None
    play(restored, cut, len(script))
    assert sorted(restored.entries()) == sorted(live.entries())
    assert restored.unstable.first_unstable_offset(10_000) == live.unstable.first_unstable_offset(10_000)


def test_the_end_of_a_transaction_is_judged_by_the_epochs_of_its_producer_and_of_its_coordinator() -> None:
    state = ProducerState()
    state.check_marker(1, 0, 0)
    state.apply(1, 3, SentBatch(0, 2, 10, 12, 0), is_transactional=True)
    state.check_marker(1, 3, -1)
    state.check_marker(1, 4, 0)
    with pytest.raises(BrokerError, match="producer 1 has epoch 3") as refused:
        state.check_marker(1, 2, 9)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    state.apply_marker(1, 3, 13, 0, 5, commit=True)
    state.check_marker(1, 3, 5)
    state.check_marker(2, 0, 0)
    with pytest.raises(BrokerError, match="coordinator of epoch 5, not 4") as refused:
        state.check_marker(1, 3, 4)
    assert refused.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED


@pytest.mark.parametrize("epoch", [3, EPOCH_MAX - 1, EPOCH_MAX])
def test_where_each_end_raises_the_epoch_a_marker_with_that_of_the_open_transaction_is_refused(epoch: int) -> None:
    state = ProducerState()
    state.apply(1, epoch, SentBatch(0, 2, 10, 12, 0), is_transactional=True)
    assert state.has_open(1, epoch)
    assert not state.has_open(1, epoch - 1)
    assert not state.has_open(1, epoch + 1)
    if epoch == EPOCH_MAX:  # There is no higher one.
        state.check_marker(1, epoch, 0, is_epoch_raised=True)
        return
    with pytest.raises(BrokerError, match="the marker was sent with") as refused:
        state.check_marker(1, epoch, 0, is_epoch_raised=True)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    state.check_marker(1, epoch + 1, 0, is_epoch_raised=True)
    state.apply_marker(1, epoch + 1, 13, 0, 0, commit=True)
    state.check_marker(1, epoch + 1, 0, is_epoch_raised=True)  # Sent again.
    with pytest.raises(BrokerError, match="the marker was sent with"):
        state.check_marker(1, epoch, 0, is_epoch_raised=True)


# How many are remembered.

MAX = 100
LATER_MS = SILENT_MS + 1


def a_leader_appends(state: ProducerState, producer_id: int, offset: int, now_ms: int, sequence: int = 0) -> bool:
    """As a leader does with a batch of one record; whether it was new."""
    batch = sent(sequence, offset=offset)
    if state.check(producer_id, 0, batch.first_sequence, batch.last_sequence) is not None:
        return False
    if len(state) >= MAX and not state.knows(producer_id):
        state.mark(now_ms, offset)
        state.make_room(now_ms, MAX)
    state.apply(producer_id, 0, batch, is_transactional=False)
    state.trim(MAX)
    return True


def a_full_state(start_ms: int) -> ProducerState:
    state = ProducerState()
    state.mark(start_ms, 0)
    for producer_id in range(MAX):
        a_leader_appends(state, producer_id, producer_id, start_ms)
    return state


def test_past_the_bound_a_new_producer_is_refused_while_none_is_silent_and_those_there_are_go_on() -> None:
    state = a_full_state(LATER_MS)
    for now_ms in (LATER_MS, LATER_MS + SILENT_MS // 2):
        with pytest.raises(BrokerError) as raised:
            a_leader_appends(state, 1000, 500, now_ms)
        assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(state) == MAX
    assert a_leader_appends(state, 3, 500, LATER_MS + SILENT_MS // 2, sequence=1)
    assert not a_leader_appends(state, 3, 501, LATER_MS + SILENT_MS // 2, sequence=1), "a retry is known"


def test_past_the_bound_those_that_are_silent_for_longest_are_forgotten_for_a_new_one() -> None:
    state = a_full_state(LATER_MS)
    state.mark(3 * LATER_MS, MAX)
    for producer_id in range(50, MAX):
        a_leader_appends(state, producer_id, MAX + producer_id, 3 * LATER_MS, sequence=1)
    state.mark(4 * LATER_MS, 2 * MAX)
    assert a_leader_appends(state, 1000, 3 * MAX, 4 * LATER_MS)
    assert state.knows(1000)
    assert not state.knows(0)
    assert all(state.knows(producer_id) for producer_id in range(50, MAX)), "these are younger"


def test_a_producer_with_a_transaction_open_is_never_forgotten_for_another() -> None:
    state = ProducerState()
    for producer_id in range(MAX):
        state.apply(producer_id, 0, sent(0, offset=producer_id), is_transactional=True)
    state.mark(LATER_MS, MAX)
    state.mark(3 * LATER_MS, MAX)
    with pytest.raises(BrokerError):
        a_leader_appends(state, 1000, 500, 3 * LATER_MS)
    state.apply(1001, 0, sent(0, offset=501), is_transactional=False)
    state.trim(50)
    assert {producer_id for producer_id in range(MAX) if state.knows(producer_id)} == set(range(MAX))


def test_no_timestamp_of_a_client_keeps_its_producer_from_being_forgotten() -> None:
    state = ProducerState()
    for producer_id in range(MAX):
        state.apply(producer_id, 0, sent(0, offset=producer_id, timestamp=2**62), is_transactional=False)
    state.mark(LATER_MS, MAX)
    state.mark(3 * LATER_MS, MAX)
    assert a_leader_appends(state, 1000, 500, 3 * LATER_MS)


@pytest.mark.parametrize("seed", range(5))
def test_followers_and_recovery_know_every_producer_that_the_leader_knows(seed: int) -> None:
    chance = random.Random(seed)
    leader, follower = ProducerState(), ProducerState()
    sequences: dict[int, int] = {}
    now_ms, end = LATER_MS, 0
    for _ in range(4000):
        now_ms += chance.randrange(20_000)
        leader.mark(now_ms, end)
        producer_id = chance.choice([chance.randrange(30), chance.randrange(1000)])
        sequence = sequences.get(producer_id, 0)
        try:
            assert a_leader_appends(leader, producer_id, end, now_ms, sequence)
        except BrokerError:
            continue  # Refused by the leader: the follower never sees it.
        sequences[producer_id] = sequence + 1
        follower.apply(producer_id, 0, sent(sequence, offset=end), is_transactional=False)
        follower.trim(MAX)
        end += 1
        assert len(leader) <= MAX
        assert len(follower) <= MAX + MAX // 4
    assert leader.known().keys() <= follower.known().keys()
    assert len(leader) > MAX // 2


def test_a_producer_that_wrote_a_moment_ago_is_not_forgotten_however_the_marks_lie() -> None:
    state = ProducerState()
    state.mark(LATER_MS, 0)
    just_before_ms = LATER_MS + SILENT_MS - 1
    for producer_id in range(MAX):
        a_leader_appends(state, producer_id, producer_id, just_before_ms)
    with pytest.raises(BrokerError):
        a_leader_appends(state, 1000, MAX, just_before_ms + 1)
    assert len(state) == MAX
