"""Every anomaly of transactions that is planted in a history or a log is found, and clean ones are clean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import pytest

from sordini.broker.transactions import records
from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.simulated_network import Address
from tests.sim.cluster.clients import Mark
from tests.sim.cluster.images import Batch, Image
from tests.sim.history import Seen
from tests.sim.transactions.checkers import ALWAYS_KNOWN, Coordinators, check_transactions
from tests.sim.transactions.history import (
    OFFSETS,
    STATE_TOPIC,
    CommittedOffset,
    CommittedPoll,
    CoordinatorState,
    ProducerEpoch,
    Transaction,
    TransactionHistory,
    UnknownId,
)

A, B, STATE = TopicPartition("a", 0), TopicPartition("b", 0), TopicPartition(STATE_TOPIC, 0)
LEADER = ("node1", 9092)


@dataclasses.dataclass
class World:
    """A history, and the logs of one broker."""

    history: TransactionHistory
    logs: dict[TopicPartition, list[bytes]]

    def end(self, partition: TopicPartition) -> int:
        return sum(read_header(batch).last_offset_delta + 1 for batch in self.logs.get(partition, []))

    def write(self, partition: TopicPartition, *values: str, epoch: int = 0, key: bytes = b"k") -> None:
        start = self.end(partition)
        lines = [Record(start + index, 0, key, value.encode()) for index, value in enumerate(values)]
        batch = build_batch(
            lines, base_offset=start, producer_id=7, producer_epoch=epoch, base_sequence=0, transactional=True
        )
        self.logs.setdefault(partition, []).append(batch)

    def mark(self, partition: TopicPartition, kind: int, epoch: int = 0) -> None:
        marker = build_marker(
            Marker(kind, 0), producer_id=7, producer_epoch=epoch, timestamp_ms=0, base_offset=self.end(partition)
        )
        self.logs[partition].append(marker)

    def state(self, status: int, epoch: int) -> None:
        value = records.transaction_value(records.TransactionValue(7, epoch, 1_000, status, (), 0))
        line = Record(self.end(STATE), 0, records.transaction_key("t"), value)
        self.logs.setdefault(STATE, []).append(build_batch([line], base_offset=self.end(STATE)))

    def findings(self, coordinators: Coordinators = ALWAYS_KNOWN) -> list[str]:
        images = []
        for partition, batches in self.logs.items():
            read = [(read_header(batch), batch) for batch in batches]
            whole = tuple(Batch(header.base_offset, header.last_offset, 0, batch) for header, batch in read)
            images.append(Image(1, 100.0, partition, whole, (), self.end(partition)))
        return check_transactions(self.history, images, coordinators)


def _transaction(number: int, at: float, epoch: int = 0, *, commits: bool | None) -> Transaction:
    """Of a value in each of both partitions, and an offset."""
    sent = {A: {f"a{number}": at}, B: {f"b{number}": at}, OFFSETS: {f"note:t-{number}": at}}
    outcome = "unknown" if commits is None else "committed" if commits else "aborted"
    end_sent = float("inf") if commits is None else at + 0.5
    values = {value for of_one in sent.values() for value in of_one}
    return Transaction("t", number, 7, epoch, at, sent, values, commits, end_sent, outcome, at + 0.8)  # type: ignore[arg-type]


def _poll(partition: TopicPartition, asked: int, end: int, *values: tuple[int, str], at: float) -> CommittedPoll:
    return CommittedPoll("r", partition, at, at, asked, end, tuple(Seen(*value) for value in values), end, end)


def a_world() -> World:
    """Transaction 1 is committed, 2 aborted, 3 left to its timeout; a successor commits transaction 4."""
    history = TransactionHistory(
        transactions=[
            _transaction(1, 1.0, commits=True),
            _transaction(2, 2.0, commits=False),
            _transaction(3, 3.0, commits=None),
            _transaction(4, 9.0, 2, commits=True),
        ],
        epochs=[ProducerEpoch("t", 7, 0, 0.5), ProducerEpoch("t", 7, 2, 8.0)],
        states=[CoordinatorState("t", "CompleteCommit", 7, 2)],
        marks=[Mark(A, LEADER, 0, True, 2, 2.0, 2.0), Mark(A, LEADER, 1, True, 8, 9.0, 9.0)],
        offsets=[
            CommittedOffset("group-t", "", 0.6, 0.7),
            CommittedOffset("group-t", "note:t-1", 1.9, 2.0),
            CommittedOffset("group-t", "note:t-4", 11.0, 11.1),
        ],
    )
    world = World(history, {})
    ends = ((1, COMMIT, 0, 0), (2, ABORT, 0, 0), (3, ABORT, 0, 1), (4, COMMIT, 2, 2))
    for number, kind, epoch, marker_epoch in ends:
        for partition, value in ((A, f"a{number}"), (B, f"b{number}"), (OFFSETS, f"..note:t-{number}")):
            world.write(partition, value, epoch=epoch)
            world.mark(partition, kind, marker_epoch)
    world.state(records.ONGOING, 2)
    world.state(records.COMPLETE_COMMIT, 2)
    history.polls = [_poll(A, 0, 2, (0, "a1"), at=1.7), _poll(A, 2, 8, (6, "a4"), at=9.7)]
    history.final = [_poll(A, 0, 8, (0, "a1"), (6, "a4"), at=20.0), _poll(B, 0, 8, (0, "b1"), (6, "b4"), at=20.0)]
    return world


def test_clean_transactions_are_clean():
    assert a_world().findings() == []


def _torn(world: World) -> None:
    world.logs[B][1] = build_marker(Marker(ABORT, 0), producer_id=7, producer_epoch=0, timestamp_ms=0, base_offset=1)


def _offsets_left_out(world: World) -> None:
    batch = build_batch([Record(6, 0, b"k", b"of another")], base_offset=6, producer_id=7, producer_epoch=2)
    world.logs[OFFSETS][6] = batch


def _committed_though_aborted(world: World) -> None:
    for partition in (A, B, OFFSETS):
        world.logs[partition][3] = build_marker(
            Marker(COMMIT, 0), producer_id=7, producer_epoch=0, timestamp_ms=0, base_offset=3
        )


def _committed_though_never_requested(world: World) -> None:
    for partition in (A, B, OFFSETS):
        world.logs[partition][5] = build_marker(
            Marker(COMMIT, 0), producer_id=7, producer_epoch=1, timestamp_ms=0, base_offset=5
        )


def _aborted_read(world: World) -> None:
    world.history.polls[1] = _poll(A, 2, 8, (2, "a2"), (6, "a4"), at=9.7)


def _early_read(world: World) -> None:
    world.history.polls[0] = _poll(A, 0, 2, (0, "a1"), at=1.2)


def _unknown_read(world: World) -> None:
    world.history.polls[0] = _poll(A, 0, 2, (0, "a1"), (1, "x"), at=1.7)


def _stable_above_watermark(world: World) -> None:
    world.history.polls[0] = world.history.polls[0]._replace(high_watermark=1)


def _served_beyond_stable(world: World) -> None:
    world.history.polls[0] = world.history.polls[0]._replace(last_stable_offset=1)


def _stable_falls_in_an_epoch(world: World) -> None:
    world.history.marks.append(Mark(A, LEADER, 1, False, 7, 10.0, 10.0))


def _stable_falls_to_the_next_leader(world: World) -> None:
    world.history.marks.append(Mark(A, LEADER, 2, True, 7, 10.0, 10.0))


def _left_out(world: World) -> None:
    world.history.final[1] = _poll(B, 0, 8, (0, "b1"), at=20.0)


def _no_marker(world: World) -> None:
    world.history.transactions.append(_transaction(5, 12.0, 2, commits=None))
    world.write(B, "b5", epoch=2)


def _not_idle(world: World) -> None:
    world.history.states[0] = CoordinatorState("t", "PrepareCommit", 7, 2)
    world.state(records.PREPARE_COMMIT, 2)


def _zombie(world: World) -> None:
    late = _transaction(5, 9.0, commits=None)
    world.history.transactions.append(late)
    world.write(TopicPartition("c", 0), "a5")
    world.mark(TopicPartition("c", 0), ABORT, 2)


def _epoch_falls(world: World) -> None:
    world.mark(A, ABORT, 1)


def _other_state(world: World) -> None:
    world.state(records.COMPLETE_ABORT, 3)


def _offset_of_an_aborted_transaction(world: World) -> None:
    world.history.offsets[1] = CommittedOffset("group-t", "note:t-2", 2.9, 3.0)


def _offset_before_its_commit(world: World) -> None:
    world.history.offsets[1] = CommittedOffset("group-t", "note:t-1", 1.1, 1.2)


def _offset_falls(world: World) -> None:
    world.history.offsets.append(CommittedOffset("group-t", "note:t-1", 12.0, 12.1))


def _offset_of_the_past(world: World) -> None:
    world.history.offsets[1] = CommittedOffset("group-t", "", 1.9, 2.0)


def _another_offset_in_the_log(world: World) -> None:
    del world.history.offsets[2]


def _strange(world: World) -> None:
    world.history.strange.append("t.1's EndTxn was answered UNKNOWN_SERVER_ERROR")


class _Superseded(NamedTuple):
    """One broker was superseded at one time."""

    address: Address
    at: float

    def is_superseded(self, at: float, address: Address) -> bool:
        return (address, at) == self

    def had_superseded(self, transactional_id: str, start: float, end: float) -> bool:
        return start <= self.at <= end


def test_only_a_superseded_coordinator_may_return_an_older_offset():
    world = a_world()
    old = CommittedOffset("group-t", "note:t-1", 10.5, 10.6, ("node2", 9092))
    world.history.offsets.insert(2, old._replace(began=12.0, at=12.1))
    world.history.offsets.append(CommittedOffset("group-t", "note:t-4", 13.0, 13.1))
    assert [finding[:2] for finding in world.findings()] == ["T8"]
    assert world.findings(_Superseded(("node2", 9092), 12.0)) == []


def test_a_superseded_coordinator_returns_committed_offsets_alone():
    world = a_world()
    world.history.offsets.append(CommittedOffset("group-t", "note:t-2", 12.0, 12.1))
    assert [finding[:2] for finding in world.findings(_Superseded(("", 0), 12.0))] == ["T8"]


def test_only_a_superseded_coordinator_may_not_know_a_transactional_id():
    world = a_world()
    world.history.unknown_ids.append(UnknownId("t.1's PRODUCE", "t", 12.0))
    assert world.findings() == ["T9 t.1's PRODUCE was answered INVALID_PRODUCER_ID_MAPPING at 12.000"]
    assert world.findings(_Superseded(("node2", 9092), 11.9)) == []


@pytest.mark.parametrize(
    ("law", "plant"),
    [
        ("T1", _torn),
        ("T1", _offsets_left_out),
        ("T1", _committed_though_aborted),
        ("T1", _committed_though_never_requested),
        ("T2", _aborted_read),
        ("T2", _early_read),
        ("T2", _unknown_read),
        ("T3", _stable_above_watermark),
        ("T3", _served_beyond_stable),
        ("T3", _stable_falls_in_an_epoch),
        ("T3", _stable_falls_to_the_next_leader),
        ("T4", _left_out),
        ("T5", _no_marker),
        ("T5", _not_idle),
        ("T6", _zombie),
        ("T6", _epoch_falls),
        ("T7", _other_state),
        ("T8", _offset_of_an_aborted_transaction),
        ("T8", _offset_before_its_commit),
        ("T8", _offset_falls),
        ("T8", _offset_of_the_past),
        ("T8", _another_offset_in_the_log),
        ("T9", _strange),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__.strip("_"),
)
def test_a_planted_anomaly_is_found(law: str, plant: Callable[[World], None]):
    world = a_world()
    plant(world)
    findings = world.findings()
    assert any(finding.startswith(law) for finding in findings), findings
