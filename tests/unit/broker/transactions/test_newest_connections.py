"""Requests of transactional producers that come too late, on a connection that their client has given up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.messages.end_txn import EndTxnRequest
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from sordini.protocol.types import TopicPartition
from tests.support.unit_broker import UnitBroker, a_broker, a_peer

NONE = ErrorCode.NONE
SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "inter.broker.protocol.version": "2.8",
}


@asynccontextmanager
async def a_coordinator(accepted: int, entries: Mapping[str, str] | None = None) -> AsyncIterator[UnitBroker]:
    """A broker that had accepted so many connections when it became the coordinator."""
    async with a_broker({**SETTINGS, **(entries or {})}) as broker:
        broker.parts.transactions.accepted_connections = lambda: accepted
        broker.parts.groups.accepted_connections = lambda: accepted
        for topic in ("orders", OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            await broker.lead(topic)
        await broker.settled()
        await broker.parts.inter_broker.producer_ids.next()
        yield broker


def init(broker: UnitBroker, connection: int, *, epoch: int = -1) -> tuple[ErrorCode, int]:
    """The error code and the new epoch; producer id 1 with the given epoch, if any."""
    broker.peer = a_peer(number=connection)
    producer_id = -1 if epoch < 0 else 1
    request = InitProducerIdRequest(
        transactional_id="t", transaction_timeout_ms=60_000, producer_id=producer_id, producer_epoch=epoch
    )
    answer = broker.ask(ApiKey.INIT_PRODUCER_ID, 4, request)
    return ErrorCode(answer.error_code), answer.producer_epoch


def add(broker: UnitBroker, connection: int, epoch: int = 0) -> ErrorCode:
    broker.peer = a_peer(number=connection)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    answer = broker.ask(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)
    return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def add_offsets(broker: UnitBroker, connection: int, epoch: int = 0) -> ErrorCode:
    broker.peer = a_peer(number=connection)
    request = AddOffsetsToTxnRequest(transactional_id="t", producer_id=1, producer_epoch=epoch, group_id="g")
    return ErrorCode(broker.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, request).error_code)


def commit_offsets(broker: UnitBroker, connection: int, epoch: int = 0, offset: int = 7) -> ErrorCode:
    broker.peer = a_peer(number=connection)
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=1,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[row])],
    )
    answer = broker.ask(ApiKey.TXN_OFFSET_COMMIT, 3, request)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed(broker: UnitBroker) -> dict[TopicPartition, int]:
    table = broker.parts.groups.offsets("g")
    return {partition: one.offset for partition, one in table.items()}


def end(broker: UnitBroker, connection: int, epoch: int = 0, *, commits: bool = True) -> ErrorCode:
    broker.peer = a_peer(number=connection)
    request = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=epoch, committed=commits)
    return ErrorCode(broker.ask(ApiKey.END_TXN, 3, request).error_code)


@pytest.mark.parametrize("late", [add, add_offsets, end])
async def test_a_request_on_an_older_connection_than_the_newest_is_not_answered_and_changes_nothing(late) -> None:
    async with a_coordinator(5) as broker:
        assert init(broker, 3) == (NONE, 0)
        assert add(broker, 4) is NONE
        assert end(broker, 7) is NONE
        with pytest.raises(WireError):
            late(broker, 4)
        transaction = broker.parts.transactions.transaction("t")
        assert transaction is not None
        assert transaction.state_name == "CompleteCommit"
        assert add(broker, 7) is NONE


@pytest.mark.parametrize("connection", [0, 3, 9])
async def test_after_a_new_epoch_a_producer_goes_on_with_any_connection(connection: int) -> None:
    """No request with this epoch was sent before, so none can be late."""
    async with a_coordinator(5) as broker:
        assert init(broker, 3) == (NONE, 0)
        assert add(broker, connection) is NONE
        assert end(broker, connection) is NONE


async def test_a_producer_that_was_here_before_the_loading_needs_a_new_connection() -> None:
    async with a_coordinator(5) as broker:
        init(broker, 3)
        broker.parts.replicas.resign_all()
        for topic in ("orders", TRANSACTIONS_TOPIC):
            await broker.lead(topic, epoch=1)
        await broker.settled()
        with pytest.raises(WireError):
            add(broker, 3)
        assert add(broker, 5) is NONE


async def test_a_late_init_producer_id_does_not_fence_the_producer_that_repeated_it() -> None:
    async with a_coordinator(0) as broker:
        assert init(broker, 2) == (NONE, 0)
        with pytest.raises(WireError):
            init(broker, 1)
        assert init(broker, 2) == (NONE, 1)
        assert init(broker, 3, epoch=1) == (NONE, 2)
        with pytest.raises(WireError):
            init(broker, 2, epoch=1)


async def test_a_fenced_producer_learns_that_on_any_connection() -> None:
    async with a_coordinator(0) as broker:
        init(broker, 1)
        init(broker, 5)
        assert add(broker, 1) is ErrorCode.PRODUCER_FENCED
        assert end(broker, 1) is ErrorCode.PRODUCER_FENCED


async def test_after_a_transaction_was_aborted_against_its_producer_any_connection_may_begin() -> None:
    async with a_coordinator(0) as broker:
        init(broker, 5)
        add(broker, 5)
        assert init(broker, 6) == (ErrorCode.CONCURRENT_TRANSACTIONS, -1)
        assert init(broker, 2) == (NONE, 2)
        assert add(broker, 2, epoch=2) is NONE


@pytest.mark.parametrize("is_raised", [True, False])
async def test_a_producer_with_an_epoch_for_each_transaction_raises_it_on_a_connection_from_before_the_loading(
    is_raised: bool,
) -> None:
    async with a_coordinator(5, {"sordini.cluster.exclusive": "true"}) as broker:
        assert init(broker, 3) == (NONE, 0)
        request = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=0, committed=False)
        if is_raised:
            assert broker.ask(ApiKey.END_TXN, 5, request).producer_epoch == 1
        else:
            assert add(broker, 3) is NONE
            assert end(broker, 3) is NONE
        partition = broker.parts.replicas.partition(TRANSACTIONS_TOPIC, 0)
        partition.resign()
        broker.parts.transactions.runtime.resigned(partition)
        await broker.lead(TRANSACTIONS_TOPIC, epoch=1)
        await broker.settled()
        if is_raised:
            assert init(broker, 3, epoch=1) == (NONE, 2)
        else:
            with pytest.raises(WireError):
                init(broker, 3, epoch=0)


async def test_the_rule_can_be_switched_off() -> None:
    async with a_coordinator(5, {"sordini.transactional.stale.connection.fencing.enable": "false"}) as broker:
        init(broker, 9)
        assert add(broker, 1) is NONE
        assert end(broker, 0) is NONE


async def test_offsets_of_a_request_that_was_sent_again_are_not_committed_by_the_next_transaction() -> None:
    async with a_coordinator(0) as broker:
        init(broker, 1)
        add_offsets(broker, 1)
        assert commit_offsets(broker, 4, offset=7) is NONE
        end(broker, 1)
        await broker.settled()
        add_offsets(broker, 1)
        assert commit_offsets(broker, 4, offset=9) is NONE
        with pytest.raises(WireError):
            commit_offsets(broker, 3, offset=7)
        end(broker, 1)
        await broker.settled()
        assert committed(broker) == {TopicPartition("orders", 0): 9}


async def test_offsets_that_were_given_up_with_their_transaction_are_not_committed_by_the_next_one() -> None:
    """The client aborted without another request to the group's coordinator: nothing newer is known but the count."""
    async with a_coordinator(0) as broker:
        init(broker, 1)
        add_offsets(broker, 1)
        assert commit_offsets(broker, 4, offset=5) is NONE
        broker.parts.groups.accepted_connections = lambda: 6
        end(broker, 1, commits=False)
        await broker.settled()
        add_offsets(broker, 1)
        with pytest.raises(WireError):
            commit_offsets(broker, 5, offset=7)
        assert commit_offsets(broker, 6, offset=9) is NONE
        end(broker, 1)
        await broker.settled()
        assert committed(broker) == {TopicPartition("orders", 0): 9}


async def test_offsets_of_a_client_that_was_here_before_the_loading_need_a_new_connection() -> None:
    async with a_coordinator(5) as broker:
        init(broker, 5)
        add_offsets(broker, 5)
        with pytest.raises(WireError):
            commit_offsets(broker, 4)
        assert commit_offsets(broker, 5) is NONE


async def test_a_fenced_producers_offsets_do_not_close_the_connection_of_its_successor() -> None:
    async with a_coordinator(0) as broker:
        init(broker, 1)
        assert init(broker, 2) == (NONE, 1)
        add_offsets(broker, 2, epoch=1)
        assert commit_offsets(broker, 9, epoch=0) is not NONE
        assert commit_offsets(broker, 3, epoch=1) is NONE


async def test_offsets_may_come_on_any_connection_where_the_rule_is_switched_off() -> None:
    async with a_coordinator(5, {"sordini.transactional.stale.connection.fencing.enable": "false"}) as broker:
        init(broker, 9)
        add_offsets(broker, 9)
        assert commit_offsets(broker, 3) is NONE
        assert commit_offsets(broker, 1) is NONE
