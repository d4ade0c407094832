"""WriteTxnMarkers: how a transaction ended, written by the leader of each of its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.transactions.txn_markers_handler import TIMEOUT_MS
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from sordini.protocol.records.batch import read_header, read_records
from sordini.protocol.records.control import ABORT, COMMIT, Marker, read_marker
from sordini.protocol.types import LeaderEpoch, Offset
from sordini.replication.follower_truncation import FetchPosition
from sordini.replication.leader import Term
from sordini.replication.partition import Partition
from tests.support.builders import an_idempotent_batch
from tests.support.partitions import checked
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_broker, a_peer, answer_of

KEY = ApiKey.WRITE_TXN_MARKERS
PRODUCER = 7
ROUNDS_MAX = 1000
ROWS = 3
"""Records in the transaction that each test has open."""


def marker(
    *, commit: bool = True, epoch: int = 0, coordinator: int = 4, topics: dict[str, list[int]] | None = None
) -> WritableTxnMarker:
    wanted = topics or {"orders": [0]}
    return WritableTxnMarker(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=rows) for name, rows in wanted.items()],
    )


def codes(answer: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.name, row.partition_index, row.error_code)
        for result in answer.markers
        for topic in result.topics
        for row in topic.partitions
    ]


def end(broker: UnitBroker, *markers: WritableTxnMarker, version: int = 1) -> list[tuple[str, int, int]]:
    return codes(broker.ask(KEY, version, WriteTxnMarkersRequest(markers=list(markers))))


def begun(broker: UnitBroker, index: int = 0) -> Partition:
    """A partition in which the producer has a transaction open."""
    partition = broker.parts.replicas.partition("orders", index)
    batch = an_idempotent_batch(ROWS, producer_id=PRODUCER, transactional=True)
    partition.append(checked(batch), 0, all_replicas=False)
    return partition


def last_marker(partition: Partition) -> tuple[Any, Marker]:
    piece = partition.log.read(partition.log.log_end_offset - 1, 1000, partition.log.log_end_offset, whole_first=True)
    assert piece is not None
    batch = bytes(piece.read())
    piece.release()
    header = read_header(batch)
    return header, read_marker(next(read_records(batch, header)))


@pytest.mark.parametrize("version", [0, 1])
async def test_a_commit_advances_the_last_stable_offset_for_read_committed_readers(version: int) -> None:
    async with a_broker() as broker:
        await broker.lead("orders", epoch=2)
        partition = begun(broker)
        assert partition.readable_end(committed_only=True) == 0
        assert end(broker, marker(), version=version) == [("orders", 0, 0)]
        assert partition.readable_end(committed_only=True) == ROWS + 1
        assert partition.log.aborted_transactions(0, ROWS + 1) == []
        header, written = last_marker(partition)
        assert written == Marker(COMMIT, 4)
        assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
        assert (header.producer_id, header.producer_epoch, header.partition_leader_epoch) == (PRODUCER, 0, 2)
        assert header.max_timestamp == broker.clock.now_ms()


async def test_a_marker_on_an_older_connection_than_the_newest_of_its_producer_is_not_written() -> None:
    """It was sent again on a newer one, and its transaction is over."""
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = begun(broker)
        broker.peer = a_peer(number=5)
        assert end(broker, marker()) == [("orders", 0, 0)]
        broker.peer = a_peer(number=4)
        with pytest.raises(WireError):
            end(broker, marker())
        assert partition.log.log_end_offset == ROWS + 1
        assert end(broker, marker(coordinator=5)) == [("orders", 0, 0)], (
            "another coordinator has connections of its own"
        )
        broker.peer = a_peer(number=5)
        assert end(broker, marker()) == [("orders", 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)]


async def test_markers_may_come_on_any_connection_where_the_rule_is_switched_off() -> None:
    async with a_broker({"sordini.transactional.stale.connection.fencing.enable": "false"}) as broker:
        await broker.lead("orders")
        begun(broker)
        for number in (5, 4):
            broker.peer = a_peer(number=number)
            assert end(broker, marker()) == [("orders", 0, 0)]


async def test_an_abort_is_found_in_the_index_of_aborted_transactions() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = begun(broker)
        assert end(broker, marker(commit=False)) == [("orders", 0, 0)]
        assert last_marker(partition)[1] == Marker(ABORT, 4)
        (aborted,) = partition.log.aborted_transactions(0, ROWS + 1)
        assert aborted == (PRODUCER, 0, ROWS, ROWS + 1)


async def test_each_partition_of_each_marker_has_a_code_of_its_own() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", 2)
        other = marker(topics={"orders": [1, 9], "bills": [0]})
        other.producer_id = 8
        assert end(broker, marker(), other) == [("orders", 0, 0), ("orders", 1, 0), ("orders", 9, 3), ("bills", 0, 3)]


async def test_a_marker_that_comes_again_is_written_again_and_ends_nothing() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = begun(broker)
        for expected_end in (ROWS + 1, ROWS + 2):
            assert end(broker, marker(commit=False)) == [("orders", 0, 0)]
            assert partition.log.log_end_offset == expected_end
        assert len(partition.log.aborted_transactions(0, ROWS + 2)) == 1


async def test_a_producer_of_an_earlier_epoch_is_fenced() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = begun(broker)
        assert end(broker, marker(epoch=1)) == [("orders", 0, 0)]
        assert end(broker, marker(epoch=0)) == [("orders", 0, ErrorCode.INVALID_PRODUCER_EPOCH)]
        assert partition.log.log_end_offset == ROWS + 1


async def test_a_coordinator_whose_place_another_took_is_fenced() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = begun(broker)
        assert end(broker, marker(coordinator=4)) == [("orders", 0, 0)]
        assert end(broker, marker(coordinator=3)) == [("orders", 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED)]
        assert partition.log.log_end_offset == ROWS + 1
        assert end(broker, marker(coordinator=4)) == [("orders", 0, 0)]


async def test_a_follower_refuses_and_writes_nothing() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = begun(broker)
        partition.become_follower(OTHER, Term(LeaderEpoch(1), (ME, OTHER), (ME, OTHER)))
        assert end(broker, marker()) == [("orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]
        assert partition.log.log_end_offset == ROWS


async def test_too_few_in_sync_replicas_refuse_it() -> None:
    async with a_broker({"min.insync.replicas": "2"}) as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        partition = begun(broker)
        assert partition.leader is not None
        partition.leader.isr = (ME,)
        assert end(broker, marker()) == [("orders", 0, ErrorCode.NOT_ENOUGH_REPLICAS)]
        assert partition.log.log_end_offset == ROWS


async def test_a_topic_of_an_old_format_has_no_transactions() -> None:
    async with a_broker() as broker:
        await broker.lead("orders")
        partition = broker.parts.replicas.partition("orders", 0)
        rules = partition.settings.rules._replace(magic=1)
        partition.settings = partition.settings._replace(rules=rules)
        assert end(broker, marker()) == [("orders", 0, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)]


# With another replica in sync, the answer waits.


def waits(broker: UnitBroker) -> DelayedResponse:
    pending = broker.serve(KEY, 1, WriteTxnMarkersRequest(markers=[marker()]))
    assert isinstance(pending, DelayedResponse)
    assert not pending.is_answered
    return pending


def fetched(partition: Partition, offset: int) -> None:
    partition.update_follower_fetch_state(OTHER, FetchPosition(Offset(offset), LeaderEpoch(0), -1), 0)


async def test_the_answer_waits_until_every_in_sync_replica_has_the_marker() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        partition = begun(broker)
        pending = waits(broker)
        fetched(partition, ROWS)
        assert not pending.is_answered
        fetched(partition, ROWS + 1)
        assert codes(answer_of(pending, KEY, 1)) == [("orders", 0, 0)]
        assert not broker.timers.waiting
        assert not broker.tasks


async def test_a_marker_that_is_late_gets_a_retriable_error() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        begun(broker)
        pending = waits(broker)
        (timer,) = broker.timers.waiting
        assert timer.seconds == TIMEOUT_MS / 1000
        broker.timers.fire()
        assert codes(answer_of(pending, KEY, 1)) == [("orders", 0, ErrorCode.REQUEST_TIMED_OUT)]


async def test_a_leader_that_is_replaced_meanwhile_says_so() -> None:
    async with a_broker() as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        partition = begun(broker)
        pending = waits(broker)
        partition.become_follower(OTHER, Term(LeaderEpoch(1), (ME, OTHER), (ME, OTHER)))
        assert codes(answer_of(pending, KEY, 1)) == [("orders", 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


async def rounds(enough: Callable[[], bool]) -> None:
    """Let others run until something is so, or they certainly had time for it."""
    for _ in range(ROUNDS_MAX):
        if enough():
            return
        await asyncio.sleep(0)


async def test_with_a_bound_on_unsynced_records_the_marker_is_on_the_disk_before_the_answer() -> None:
    async with a_broker({"log.flush.interval.messages": "1"}) as broker:
        await broker.lead("orders")
        partition = begun(broker)
        pending = waits(broker)
        await rounds(lambda: pending.is_answered)
        assert codes(answer_of(pending, KEY, 1)) == [("orders", 0, 0)]
        assert partition.log.recovery_point == ROWS + 1


async def test_and_it_is_on_every_in_sync_replica_too() -> None:
    async with a_broker({"log.flush.interval.messages": "1"}) as broker:
        await broker.lead("orders", isr=(ME, OTHER))
        partition = begun(broker)
        pending = waits(broker)
        await rounds(lambda: bool(broker.timers.waiting))
        assert partition.log.recovery_point == ROWS + 1
        assert not pending.is_answered
        fetched(partition, ROWS + 1)
        await rounds(lambda: pending.is_answered)
        assert codes(answer_of(pending, KEY, 1)) == [("orders", 0, 0)]
