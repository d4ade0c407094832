"""Laws of the stored state: what its records make is what was answered for, and epochs do not go back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.broker.share_state.machine import stored_state
from sordini.broker.share_state.machine.state_runs import StateRun
from sordini.broker.share_state.machine.stored_state import (
    Snapshot,
    SnapshotRule,
    StateRecord,
    StoredState,
    Tombstone,
    Update,
    applied,
)
from sordini.broker.share_state.ports import SharePartitionKey, StateWrite
from sordini.broker.share_state.records import SNAPSHOT, UPDATE, StateKey, read_key, read_value, state_record
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.versioned import Damaged
from sordini.protocol.types import Offset, TopicId

RULE = SnapshotRule(3, 1_000)
KEY = SharePartitionKey("workers", TopicId(bytes(range(16))), 7)
EPOCHS = st.integers(0, 3)
STARTS = st.none() | st.integers(0, 12).map(Offset)
RUNS = st.builds(
    lambda first, size, state, deliveries: StateRun(first, first + size, state, deliveries),
    st.integers(0, 15),
    st.integers(1, 6),
    st.sampled_from([0, 2, 3, 4]),
    st.integers(1, 3),
)
WRITES = st.builds(
    StateWrite, EPOCHS, EPOCHS, STARTS, st.none() | st.integers(0, 9), st.lists(RUNS, max_size=3).map(tuple)
)
STEPS = st.one_of(
    st.tuples(st.just("initialize"), EPOCHS, STARTS),
    st.tuples(st.just("read"), EPOCHS),
    st.tuples(st.just("write"), WRITES),
    st.tuples(st.just("write"), WRITES),
    st.tuples(st.just("cold"), st.just(None)),
    st.tuples(st.just("delete"), st.just(None)),
)


def record_of(state: StoredState | None, step: tuple[Any, ...], now_ms: int) -> StateRecord | None:
    """The record that a step makes. Raises BrokerError."""
    match step:
        case "initialize", epoch, start:
            return stored_state.initialize(state, epoch, start, now_ms)
        case "read", epoch:
            return stored_state.read(state, epoch, now_ms, RULE)
        case "write", write:
            return stored_state.write(state, write, now_ms, RULE)
        case "cold", _:
            return None if state is None else stored_state.cold_snapshot(state, now_ms, RULE)
    return None if state is None else Tombstone()


def through_bytes(record: StateRecord) -> StateRecord:
    key, value = state_record(KEY, record)
    kind = UPDATE if isinstance(record, Update) else SNAPSHOT
    assert read_key(key) == StateKey(kind, KEY)
    read = read_value(kind, value)
    assert not isinstance(read, Damaged)
    return read


def played(steps: list[tuple[Any, ...]]) -> list[tuple[StoredState | None, StateRecord | None, StoredState | None]]:
    """The state before each step that was not refused, its record, and the state after it."""
    state: StoredState | None = None
    found = []
    for number, step in enumerate(steps):
        try:
            record = record_of(state, step, 600 * number)
        except BrokerError as error:
            assert error.code in {  # noqa: PT017 - which error it is depends on the step.
                ErrorCode.INVALID_REQUEST,
                ErrorCode.FENCED_LEADER_EPOCH,
                ErrorCode.FENCED_STATE_EPOCH,
            }
            continue
        after = state if record is None else applied(state, record, RULE)
        found.append((state, record, after))
        state = after
    return found


@given(st.lists(STEPS, max_size=25))
def test_the_records_of_a_key_make_the_state_that_was_answered_for(steps: list[tuple[Any, ...]]) -> None:
    live = played(steps)
    folded: StoredState | None = None
    for _, record, after in live:
        if record is not None:
            folded = applied(folded, through_bytes(record), RULE)
        assert folded == after


@given(st.lists(STEPS, max_size=25))
def test_a_snapshot_alone_makes_the_state_of_all_records_before_it(steps: list[tuple[Any, ...]]) -> None:
    for _, record, after in played(steps):
        if isinstance(record, Snapshot):
            assert after is not None
            alone = applied(None, record, RULE)
            assert alone is not None
            assert alone.whole == after.whole


@given(st.lists(STEPS, max_size=25))
def test_no_more_updates_follow_each_other_than_the_rule_allows(steps: list[tuple[Any, ...]]) -> None:
    updates = 0
    for _, record, _ in played(steps):
        if isinstance(record, Update):
            updates += 1
            assert updates <= RULE.updates_max
        elif record is not None:
            updates = 0


@given(st.lists(STEPS, max_size=25))
def test_epochs_and_the_start_of_one_state_epoch_do_not_go_back(steps: list[tuple[Any, ...]]) -> None:
    for before, record, after in played(steps):
        if before is None or after is None:
            continue
        assert after.leader_epoch >= before.leader_epoch
        assert after.state_epoch >= before.state_epoch
        if isinstance(record, Update) and before.whole.start is not None:
            assert after.whole.start is not None
            assert after.whole.start >= before.whole.start


@given(st.lists(STEPS, max_size=25), WRITES)
def test_a_write_that_is_carried_out_twice_is_carried_out_once(steps: list[tuple[Any, ...]], write: StateWrite) -> None:
    state = played(steps)[-1][2] if played(steps) else None
    try:
        once = applied(state, stored_state.write(state, write, 0, RULE), RULE)
        twice = applied(once, stored_state.write(once, write, 0, RULE), RULE)
    except BrokerError:
        return
    assert once is not None
    assert twice is not None
    assert (twice.whole.start, twice.whole.done, twice.whole.runs) == (
        once.whole.start,
        once.whole.done,
        once.whole.runs,
    )


def test_a_leader_of_a_former_epoch_is_refused_from_the_next_ones_read_on() -> None:
    state = applied(None, stored_state.initialize(None, 2, Offset(0), 0), RULE)
    record = stored_state.read(state, 5, 0, RULE)
    assert record == Update(0, 5, Offset(0), 0, ())
    state = applied(state, record, RULE)
    with pytest.raises(BrokerError) as refused:
        stored_state.write(state, StateWrite(2, 4, Offset(1), 0, ()), 0, RULE)
    assert refused.value.code == ErrorCode.FENCED_LEADER_EPOCH
    assert stored_state.read(state, 5, 0, RULE) is None


def test_a_write_of_a_former_state_epoch_is_refused() -> None:
    state = applied(None, stored_state.initialize(None, 2, Offset(0), 0), RULE)
    with pytest.raises(BrokerError) as refused:
        stored_state.write(state, StateWrite(1, 0, Offset(1), 0, ()), 0, RULE)
    assert refused.value.code == ErrorCode.FENCED_STATE_EPOCH


def test_a_write_with_a_lower_start_leaves_the_start_and_the_count_of_done_records() -> None:
    state = applied(None, stored_state.initialize(None, 2, Offset(5), 0), RULE)
    state = applied(state, stored_state.write(state, StateWrite(2, 0, Offset(7), 3, ()), 0, RULE), RULE)
    for start in (None, Offset(6)):
        assert stored_state.write(state, StateWrite(2, 0, start, 9, ()), 0, RULE) == Update(0, 0, Offset(7), 3, ())


def test_the_snapshot_that_is_due_has_the_records_of_all_writes_before_it() -> None:
    state = applied(None, stored_state.initialize(None, 2, Offset(0), 0), RULE)
    for number in range(RULE.updates_max + 1):
        write = StateWrite(2, 0, Offset(0), 0, (StateRun(2 * number, 2 * number + 1, 2, 1),))
        record = stored_state.write(state, write, 0, RULE)
        state = applied(state, record, RULE)
    assert isinstance(record, Snapshot)
    assert [run.first for run in record.runs] == [0, 2, 4, 6]


def test_a_state_that_is_initialized_again_refuses_the_leaders_that_were_refused_before() -> None:
    state = applied(None, stored_state.initialize(None, 2, Offset(0), 0), RULE)
    record = stored_state.read(state, 5, 0, RULE)
    assert record is not None
    state = applied(applied(state, record, RULE), stored_state.initialize(state, 3, Offset(9), 0), RULE)
    with pytest.raises(BrokerError) as refused:
        stored_state.read(state, 4, 0, RULE)
    assert refused.value.code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_snapshot_of_a_set_offset_has_no_runs_and_the_next_epoch() -> None:
    state = applied(None, stored_state.initialize(None, 2, None, 0), RULE)
    state = applied(
        state, stored_state.write(state, StateWrite(2, 0, Offset(3), 1, (StateRun(4, 5, 2, 1),)), 0, RULE), RULE
    )
    again = stored_state.initialize(state, 3, Offset(9), 7)
    assert again == Snapshot(1, 3, 0, Offset(9), 0, 7, 7, ())


def test_an_update_without_a_snapshot_is_of_a_state_that_was_deleted_from_the_log() -> None:
    assert applied(None, Update(4, 1, Offset(3), 0, ()), RULE) is None


def test_a_state_may_not_have_more_runs_than_a_snapshot_has_room_for() -> None:
    state = applied(None, stored_state.initialize(None, 2, Offset(0), 0), RULE)
    half = stored_state.STATE_RUNS_MAX // 2
    runs = tuple(StateRun(2 * number, 2 * number + 1, 2, 1) for number in range(half))
    state = applied(state, stored_state.write(state, StateWrite(2, 0, Offset(0), 0, runs), 0, RULE), RULE)
    stored_state.write(state, StateWrite(2, 0, Offset(0), 0, runs), 0, RULE)
    with pytest.raises(BrokerError) as refused:
        stored_state.write(state, StateWrite(2, 0, Offset(0), 0, (*runs, StateRun(1, 2, 2, 1))), 0, RULE)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


@given(st.binary(max_size=60), st.binary(max_size=80) | st.none())
def test_damaged_keys_and_values_are_named_and_raise_nothing(key: bytes, value: bytes | None) -> None:
    read_key(key)
    for kind in (SNAPSHOT, UPDATE):
        record = read_value(kind, value)
        assert isinstance(record, Damaged | Snapshot | Update | Tombstone)


def test_the_bytes_are_those_of_apache_kafka() -> None:
    """As kafka-share-coordinator 4.4.0 writes them: `tests/compat/test_share_states.py` reads them from its log."""
    key, value = state_record(KEY, Update(1, 2, Offset(3), 4, (StateRun(5, 7, 2, 1),)))
    assert key == b"\0\1\0\7workers" + bytes(range(16)) + b"\0\0\0\7"
    run = (5).to_bytes(8, "big") + (6).to_bytes(8, "big") + b"\2" + b"\0\1" + b"\0"
    body = b"\0\0" + b"\0\0\0\1" + b"\0\0\0\2" + (3).to_bytes(8, "big") + b"\2" + run
    assert value == body + b"\1\0\4" + b"\0\0\0\4"
