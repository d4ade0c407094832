"""The stored state of one share partition: what a request may do with it, and the record that says so. Pure.

A snapshot has the whole state, an update what a leader has changed since; a key without a snapshot has no state. State
changes by records alone (`applied`), so the state after a load is the state that was answered for.

Two epochs fence writers: the leader epoch of the topic's partition, which a read raises, and the state epoch, which the
group raises when it begins to read the partition again. The highest of both that were ever seen stay in force.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from sordini.broker.share_state.machine.state_runs import StateRun, with_written
from sordini.broker.share_state.ports import StateWrite
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.types import Offset
from sordini.system.named_tuple import NamedTuple

FIRST_LEADER_EPOCH: Final = 0
"""Of a state that no leader has read."""
STATE_RUNS_MAX: Final = 20_000
"""Runs of one share partition: twice the records that Apache Kafka lets be in flight; a snapshot has room for them."""


class Snapshot(NamedTuple):
    """A record with the whole state."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start: Offset | None
    done: int | None
    created_ms: int
    written_ms: int
    runs: tuple[StateRun, ...]


class Update(NamedTuple):
    """A record with what has changed since the snapshot of its epoch."""

    snapshot_epoch: int
    leader_epoch: int
    start: Offset | None
    done: int | None
    runs: tuple[StateRun, ...]


class Tombstone(NamedTuple):
    """A record that ends the state."""


StateRecord: TypeAlias = Snapshot | Update | Tombstone


class StoredState(NamedTuple):
    """The state that the records of a key make."""

    whole: Snapshot
    """As a snapshot of now would be, but for its times, which are those of the last one."""
    leader_epoch: int
    """The highest ever seen, as the next."""
    state_epoch: int
    updates: int
    """Since a snapshot was last due."""


class SnapshotRule(NamedTuple):
    """When a snapshot is due."""

    updates_max: int
    """`share.coordinator.snapshot.update.records.per.snapshot`."""
    cold_ms: int
    """`share.coordinator.cold.partition.snapshot.interval.ms`."""


def applied(state: StoredState | None, record: StateRecord, rule: SnapshotRule) -> StoredState | None:
    """The state after a record. An update of a key without a snapshot changes nothing: its snapshot was deleted."""
    if isinstance(record, Tombstone):
        return None
    if isinstance(record, Snapshot):
        if state is None:
            return StoredState(record, record.leader_epoch, record.state_epoch, 0)
        return StoredState(
            record,
            max(state.leader_epoch, record.leader_epoch),
            max(state.state_epoch, record.state_epoch),
            0 if state.updates >= rule.updates_max else state.updates,
        )
    if state is None:
        return None
    start = state.whole.start if record.start is None else record.start
    whole = state.whole._replace(
        start=start,
        done=record.done,
        leader_epoch=state.whole.leader_epoch if record.leader_epoch < 0 else record.leader_epoch,
        runs=with_written(state.whole.runs, record.runs, _number(start)),
    )
    return StoredState(whole, max(state.leader_epoch, record.leader_epoch), state.state_epoch, state.updates + 1)


def initialize(state: StoredState | None, state_epoch: int, start: Offset | None, now_ms: int) -> Snapshot:
    """A group begins to read the partition. Raises BrokerError."""
    if state_epoch < 0:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the state epoch is negative")
    if state is not None and state.state_epoch > state_epoch:
        raise BrokerError(ErrorCode.FENCED_STATE_EPOCH, f"the state epoch is {state.state_epoch}")
    snapshot_epoch = 0 if state is None else state.whole.snapshot_epoch + 1
    done = None if start is None else 0
    return Snapshot(snapshot_epoch, state_epoch, FIRST_LEADER_EPOCH, start, done, now_ms, now_ms, ())


def read(state: StoredState | None, leader_epoch: int, now_ms: int, rule: SnapshotRule) -> StateRecord | None:
    """A leader reads the state: the record that raises the leader epoch, if it does. Raises BrokerError."""
    _check_leader_epoch(leader_epoch)
    if state is None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the share partition has no state to read: it is not initialized")
    if state.leader_epoch > leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {state.leader_epoch}")
    if state.leader_epoch == leader_epoch:
        return None
    return _changed(state, leader_epoch, state.whole.start, state.whole.done, (), now_ms, rule)


def write(state: StoredState | None, change: StateWrite, now_ms: int, rule: SnapshotRule) -> StateRecord:
    """A leader writes what has changed. Raises BrokerError."""
    _check_leader_epoch(change.leader_epoch)
    if change.state_epoch < 0:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the state epoch is negative")
    if state is None:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the share partition has no state to write: it is not initialized")
    if state.leader_epoch > change.leader_epoch:
        raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH, f"the leader epoch is {state.leader_epoch}")
    if state.state_epoch > change.state_epoch:
        raise BrokerError(ErrorCode.FENCED_STATE_EPOCH, f"the state epoch is {state.state_epoch}")
    if len(state.whole.runs) + len(change.runs) > STATE_RUNS_MAX:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"the state may have {STATE_RUNS_MAX} runs of records")
    former, now = _number(state.whole.start), _number(change.start)
    if now < former:
        start, done = state.whole.start, state.whole.done
    else:
        start, done = change.start, change.done
        if now == former and _number(state.whole.done) > _number(done):
            done = state.whole.done
    return _changed(state, state.whole.leader_epoch, start, done, change.runs, now_ms, rule)


def cold_snapshot(state: StoredState, now_ms: int, rule: SnapshotRule) -> Snapshot | None:
    """A snapshot of a state whose last one is old: it keeps records of other keys from being deleted."""
    whole = state.whole
    if now_ms - whole.written_ms < rule.cold_ms:
        return None
    return whole._replace(snapshot_epoch=whole.snapshot_epoch + 1, written_ms=now_ms)


def is_cold(state: StoredState) -> bool:
    """Whether the last snapshot was written because the one before was old."""
    return state.whole.created_ms != state.whole.written_ms


def _changed(
    state: StoredState,
    leader_epoch: int,
    start: Offset | None,
    done: int | None,
    runs: tuple[StateRun, ...],
    now_ms: int,
    rule: SnapshotRule,
) -> StateRecord:
    """An update, or a snapshot where one is due."""
    whole = state.whole
    written = with_written((), runs, _number(start))
    if state.updates < rule.updates_max:
        return Update(whole.snapshot_epoch, leader_epoch, start, done, written)
    merged = with_written(whole.runs, written, _number(start))
    return Snapshot(whole.snapshot_epoch + 1, whole.state_epoch, leader_epoch, start, done, now_ms, now_ms, merged)


def _check_leader_epoch(leader_epoch: int) -> None:
    if leader_epoch < 0:
        raise BrokerError(ErrorCode.INVALID_REQUEST, "the leader epoch is negative")


def _number(value: int | None) -> int:
    """None is lower than any number."""
    return -1 if value is None else value
