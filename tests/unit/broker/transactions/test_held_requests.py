"""The next transaction of a producer, requested while the one before is being completed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse
from sordini.broker.topics.metadata_cache import PartitionMetadata
from sordini.broker.transactions import held_requests
from sordini.broker.transactions.held_requests import HELD_MS_MAX
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from sordini.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from sordini.protocol.types import BrokerId, LeaderEpoch
from tests.support.transaction_requests import Producer, a_cluster_of_one, add_partitions, end, init
from tests.support.unit_broker import ME, OTHER, UnitBroker, a_peer, answer_of, topic_id_of

ID = "t"


@asynccontextmanager
async def a_committing_producer() -> AsyncIterator[tuple[UnitBroker, Producer]]:
    """A producer whose commit is decided, while one of its partitions has no leader that could write the marker."""
    async with a_cluster_of_one() as broker:
        broker.parts.transactions.accepted_connections = lambda: 0
        producer = await init(broker, ID)
        assert add_partitions(broker, producer, 0, 1) == [0, 0]
        broker.parts.replicas.partition("orders", 1).resign()
        metadata = PartitionMetadata(BrokerId(-1), LeaderEpoch(1), (ME, OTHER), (ME,), ())
        broker.parts.metadata.set_partition("orders", topic_id_of("orders"), 1, metadata)
        assert end(broker, producer, commit=True) == 0
        assert state(broker) == "PrepareCommit"
        yield broker, producer


def state(broker: UnitBroker) -> str:
    transaction = broker.parts.transactions.transaction(ID)
    assert transaction is not None
    return transaction.state_name


class Held:
    """A request that is not answered yet, and the timer of its limit."""

    def __init__(self, broker: UnitBroker, key: ApiKey, request: Any, *, connection: int = 0) -> None:
        before = list(broker.timers.waiting)
        broker.peer = a_peer(number=connection)
        self.key = key
        pending = broker.serve(key, 3, request)
        assert isinstance(pending, DelayedResponse)
        assert not pending.is_answered
        self.pending = pending
        [self.timer] = [timer for timer in broker.timers.waiting if timer not in before]
        assert self.timer.seconds * 1_000 == HELD_MS_MAX

    def expire(self) -> None:
        self.timer.cancel()
        self.timer.action()

    @property
    def code(self) -> int:
        answer = answer_of(self.pending, self.key, 3)
        if self.key == ApiKey.ADD_OFFSETS_TO_TXN:
            return int(answer.error_code)
        return int(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def held_partitions(broker: UnitBroker, producer: Producer, *, connection: int = 0) -> Held:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    return Held(broker, ApiKey.ADD_PARTITIONS_TO_TXN, request, connection=connection)


def held_offsets(broker: UnitBroker, producer: Producer) -> Held:
    request = AddOffsetsToTxnRequest(
        transactional_id=ID, producer_id=producer.producer_id, producer_epoch=producer.epoch, group_id="g"
    )
    return Held(broker, ApiKey.ADD_OFFSETS_TO_TXN, request)


async def complete(broker: UnitBroker, held: Held) -> None:
    """The partition has a leader again, and gets its marker when that is tried again."""
    await broker.lead("orders", 3, epoch=2)
    broker.clock.ms += 1_000
    for _ in range(2):  # An overdue timer first lets the loop read its sockets.
        for timer in [timer for timer in broker.timers.waiting if timer is not held.timer]:
            timer.cancel()
            timer.action()
    await broker.settled()


@pytest.mark.parametrize("hold", [held_partitions, held_offsets])
async def test_a_request_is_held_until_the_transaction_before_is_complete_and_begins_the_next_one(
    hold: Callable[[UnitBroker, Producer], Held],
) -> None:
    async with a_committing_producer() as (broker, producer):
        held = hold(broker, producer)
        await complete(broker, held)
        assert held.code == 0
        assert state(broker) == "Ongoing"
        assert held.timer not in broker.timers.waiting
        assert end(broker, producer, commit=False) == 0
        assert state(broker) == "CompleteAbort"


async def test_a_held_request_is_refused_when_the_completion_takes_too_long() -> None:
    async with a_committing_producer() as (broker, producer):
        held = held_partitions(broker, producer)
        held.expire()
        assert held.code == ErrorCode.CONCURRENT_TRANSACTIONS
        await complete(broker, held)
        assert state(broker) == "CompleteCommit", "and it is not served later"


async def test_one_request_of_a_producer_is_held_and_the_next_one_refused() -> None:
    async with a_committing_producer() as (broker, producer):
        held = held_partitions(broker, producer)
        assert add_partitions(broker, producer, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert not held.pending.is_answered


async def test_only_so_many_requests_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_requests, "HELD_MAX", 0)
    async with a_committing_producer() as (broker, producer):
        assert add_partitions(broker, producer, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        monkeypatch.setattr(held_requests, "HELD_MAX", 1)
        assert not held_partitions(broker, producer).pending.is_answered


async def test_a_request_of_a_fenced_producer_is_answered_at_once() -> None:
    async with a_committing_producer() as (broker, producer):
        assert add_partitions(broker, producer._replace(epoch=7), 0) == [ErrorCode.PRODUCER_FENCED]


async def test_a_repeated_end_is_answered_at_once() -> None:
    async with a_committing_producer() as (broker, producer):
        assert end(broker, producer, commit=True) == ErrorCode.CONCURRENT_TRANSACTIONS


async def test_the_end_of_the_leadership_answers_what_is_held() -> None:
    async with a_committing_producer() as (broker, producer):
        held = held_partitions(broker, producer)
        partition = broker.parts.replicas.partition(TRANSACTIONS_TOPIC, 0)
        broker.parts.transactions.runtime.resigned(partition)
        assert held.code == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("newer", [True, False])
async def test_a_held_request_is_not_served_once_its_producer_has_a_newer_connection(newer: bool) -> None:
    async with a_committing_producer() as (broker, producer):
        held = held_partitions(broker, producer, connection=3)
        broker.peer = a_peer(number=4 if newer else 3)
        assert add_partitions(broker, producer, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        await complete(broker, held)
        assert held.code == (ErrorCode.CONCURRENT_TRANSACTIONS if newer else 0)
        assert state(broker) == ("CompleteCommit" if newer else "Ongoing")
