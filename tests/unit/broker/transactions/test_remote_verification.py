"""Verifications by a coordinator on another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any

import pytest

from sordini.broker.coordinators.journal import TransactionalProducer
from sordini.broker.topics.metadata_cache import MetadataCache, TopicMetadata
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.broker.transactions.remote_verification import RemoteVerifications
from sordini.broker.transactions.verification import PartitionsQuestion
from sordini.broker.transactions.verifier import CoordinatorVerifier
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from sordini.protocol.types import TopicPartition
from sordini.testing.simulation.virtual_loop import SimLoop
from tests.support.fake_peers import FakeLinks, Sent, in_virtual_time, refused
from tests.support.fake_ports import ListLog
from tests.support.unit_broker import ME, OTHER, known_broker, led, topic_id_of

A, B = TopicPartition("orders", 0), TopicPartition("bills", 1)
TIMEOUT_MS = 5_000
Codes = dict[TopicPartition, ErrorCode]


def on_virtual_time(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        in_virtual_time(lambda _loop: test())

    return run


class Coordinator:
    """Broker 2: it has these codes for partitions, 0 for all others, and answers when `gate` is open."""

    def __init__(self, newest: int = 5, codes: Mapping[TopicPartition, int] | None = None, error: int = 0) -> None:
        self.newest = newest
        self.codes = codes or {}
        self.error = error
        self.is_asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self.requests: list[AddPartitionsToTxnRequest] = []

    async def answer(self, sent: Sent) -> Any:
        if isinstance(sent.request, ApiVersionsRequest):
            row = ApiVersion(api_key=ApiKey.ADD_PARTITIONS_TO_TXN, min_version=0, max_version=self.newest)
            return ApiVersionsResponse(api_keys=[row])
        self.is_asked.set()
        await self.gate.wait()
        self.requests.append(sent.request)
        return AddPartitionsToTxnResponse(
            error_code=self.error,
            results_by_transaction=[
                AddPartitionsToTxnResult(
                    transactional_id=one.transactional_id,
                    topic_results=[
                        AddPartitionsToTxnTopicResult(
                            name=topic.name,
                            results_by_partition=[
                                AddPartitionsToTxnPartitionResult(
                                    partition_index=index,
                                    partition_error_code=self.codes.get(TopicPartition(topic.name, index), 0),
                                )
                                for index in topic.partitions
                            ],
                        )
                        for topic in one.topics
                    ],
                )
                for one in sent.request.transactions
            ],
        )


class World:
    """This broker's questions, and what was answered."""

    def __init__(self, answer: Callable[[Sent], Any]) -> None:
        self.links = FakeLinks(asyncio.get_running_loop(), answer)
        self.log = ListLog()
        self.tasks: set[asyncio.Task[None]] = set()
        self.remote = RemoteVerifications(ME, self.links, self.spawn, self.log, TIMEOUT_MS)
        self.answered: list[tuple[str, Codes]] = []

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        return task

    def ask(self, transactional_id: str = "t", *partitions: TopicPartition, adds: bool = False) -> None:
        def on_done(codes: Mapping[TopicPartition, ErrorCode]) -> None:
            self.answered.append((transactional_id, dict(codes)))

        producer = TransactionalProducer(7, 3)
        self.remote.ask(OTHER, PartitionsQuestion(transactional_id, producer, partitions or (A,), on_done, adds))

    async def settled(self) -> None:
        while self.tasks:
            await self.tasks.pop()


@on_virtual_time
async def test_a_question_is_a_request_that_only_verifies() -> None:
    coordinator = Coordinator(codes={B: ErrorCode.TRANSACTION_ABORTABLE})
    world = World(coordinator.answer)
    world.ask("t", A, B)
    await world.settled()
    assert world.answered == [("t", {A: ErrorCode.NONE, B: ErrorCode.TRANSACTION_ABORTABLE})]
    [request] = coordinator.requests
    [transaction] = request.transactions
    assert (transaction.producer_id, transaction.producer_epoch, transaction.verify_only) == (7, 3, True)
    assert world.links.sent[-1].version == 5


@on_virtual_time
async def test_partitions_are_added_by_a_request_that_does_more_than_to_verify() -> None:
    coordinator = Coordinator(codes={B: ErrorCode.CONCURRENT_TRANSACTIONS})
    world = World(coordinator.answer)
    world.ask("t", A, B, adds=True)
    await world.settled()
    assert world.answered == [("t", {A: ErrorCode.NONE, B: ErrorCode.CONCURRENT_TRANSACTIONS})]
    [request] = coordinator.requests
    assert [one.verify_only for one in request.transactions] == [False]


@on_virtual_time
async def test_questions_that_come_during_a_request_travel_together() -> None:
    coordinator = Coordinator()
    world = World(coordinator.answer)
    coordinator.gate.clear()
    world.ask("first")
    await coordinator.is_asked.wait()
    for name in ("t", "u", "t", "v"):
        world.ask(name)
    coordinator.gate.set()
    await world.settled()
    sent = [[one.transactional_id for one in request.transactions] for request in coordinator.requests]
    # A request names each transactional id once.
    assert sent == [["first"], ["t", "u", "v"], ["t"]]
    assert [name for name, _ in world.answered] == ["first", "t", "u", "v", "t"]


@on_virtual_time
async def test_a_broker_that_does_not_answer_is_a_network_exception_and_one_log_line() -> None:
    world = World(refused)
    for _ in range(3):
        world.ask()
        await world.settled()
    assert world.answered == [("t", {A: ErrorCode.NETWORK_EXCEPTION})] * 3
    assert len(world.log.at("warning")) == 1
    coordinator = Coordinator()
    world.links.answer = coordinator.answer
    world.ask()
    await world.settled()
    assert world.answered[-1] == ("t", {A: ErrorCode.NONE})
    assert "transactions verified again" in dict(world.log.at("info"))


def test_a_coordinator_that_hangs_is_waited_for_as_long_as_requests_may_take() -> None:
    async def main(loop: SimLoop) -> None:
        coordinator = Coordinator()
        coordinator.gate.clear()
        world = World(coordinator.answer)
        began = loop.time()
        world.ask()
        await world.settled()
        assert world.answered == [("t", {A: ErrorCode.NETWORK_EXCEPTION})]
        assert loop.time() - began == TIMEOUT_MS / 1_000

    in_virtual_time(main)


@on_virtual_time
async def test_a_coordinator_that_is_too_old_verifies_nothing_and_appends_go_on() -> None:
    world = World(Coordinator(newest=3).answer)
    world.ask()
    await world.settled()
    assert world.answered == [("t", {A: ErrorCode.NONE})]
    assert len(world.log.at("warning")) == 1
    world.ask(adds=True)
    await world.settled()
    assert world.answered[1:] == [("t", {A: ErrorCode.COORDINATOR_NOT_AVAILABLE})]


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (9_999, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_the_code_of_a_whole_response_is_that_of_each_partition(code: int, seen: ErrorCode) -> None:
    @on_virtual_time
    async def run() -> None:
        world = World(Coordinator(error=code).answer)
        world.ask("t", A, B)
        await world.settled()
        assert world.answered == [("t", {A: seen, B: seen})]

    run()


@on_virtual_time
async def test_a_closed_connection_answers_what_was_asked() -> None:
    coordinator = Coordinator()
    world = World(coordinator.answer)
    coordinator.gate.clear()
    world.ask()
    await coordinator.is_asked.wait()
    world.remote.close()
    await world.settled()
    assert world.answered == [("t", {A: ErrorCode.NETWORK_EXCEPTION})]


class Here:
    """A coordinator that only notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def ask(self, question: PartitionsQuestion) -> None:
        self.asked.append((*question[:2], question.adds))


class Others:
    """The same elsewhere."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def ask(self, broker_id: int, question: PartitionsQuestion) -> None:
        self.asked.append((broker_id, *question[:2], question.adds))


def test_the_coordinator_is_the_leader_of_the_ids_partition() -> None:
    metadata = MetadataCache("c", uses_topic_ids=True)
    here, others, answers = Here(), Others(), list[Any]()
    verifier = CoordinatorVerifier(ME, metadata, here, others)  # type: ignore[arg-type] # Of a port.
    question = PartitionsQuestion("t", TransactionalProducer(7, 3), [A], answers.append)
    verifier.ask(question)
    assert answers == [{A: ErrorCode.COORDINATOR_NOT_AVAILABLE}]
    metadata.brokers |= {ME: known_broker(ME), OTHER: known_broker(OTHER)}
    for leader, wanted in ((ME, here), (OTHER, others)):
        metadata.topics[TRANSACTIONS_TOPIC] = TopicMetadata(
            TRANSACTIONS_TOPIC, topic_id_of(TRANSACTIONS_TOPIC), {0: led(leader)}
        )
        verifier.ask(question)
        verifier.ask(question._replace(adds=True))
        assert len(wanted.asked) == 2
    assert here.asked == [("t", (7, 3), False), ("t", (7, 3), True)]
    assert others.asked == [(OTHER, "t", (7, 3), False), (OTHER, "t", (7, 3), True)]
    del metadata.brokers[OTHER]
    verifier.ask(question)
    assert answers[-1] == {A: ErrorCode.COORDINATOR_NOT_AVAILABLE}
