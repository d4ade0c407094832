"""Verifications by coordinators on other brokers: AddPartitionsToTxn that only verifies, or adds (KIP-890).

One request at a time for each broker; what comes meanwhile travels together in the next one. A transactional id occurs
once in a request, so a further question about it waits for the next.

A broker that does not serve version 4 cannot verify: then batches are appended without it, as by Apache Kafka. Where
partitions are to be added, they are not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from sordini.broker.transactions.verification import PartitionsQuestion
from sordini.client.errors import NotServed
from sordini.client.versions import ServedVersions, negotiate, run_steps
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from sordini.protocol.served_apis import APIS
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.ports import BrokerLink, BrokerLinks, Logger, Spawn, Unreachable

FIRST_WITH_VERIFICATION: Final = 4
PARTITIONS_PER_REQUEST: Final = 2_000

Codes = Mapping[TopicPartition, ErrorCode]


class RemoteVerifications:
    """The questions to all other brokers."""

    def __init__(self, this_broker: BrokerId, links: BrokerLinks, spawn: Spawn, log: Logger, timeout_ms: int) -> None:
        """`timeout_ms` limits the wait for a response: request.timeout.ms."""
        self._this_broker = this_broker
        self._links = links
        self._spawn = spawn
        self._log = log
        self._timeout_ms = timeout_ms
        self._queues: dict[BrokerId, _BrokerQueue] = {}

    def ask(self, broker_id: BrokerId, question: PartitionsQuestion) -> None:
        """Ask the coordinator on that broker: NETWORK_EXCEPTION stands for no answer. Raises nothing."""
        queue = self._queues.get(broker_id)
        if queue is None:
            link = self._links.link(broker_id, f"broker-{self._this_broker}-verification")
            queue = self._queues[broker_id] = _BrokerQueue(broker_id, link, self._log, self._timeout_ms)
        queue.waiting.append(question)
        if not queue.is_sending:
            queue.is_sending = True
            self._spawn(queue.send())

    def close(self) -> None:
        """Close all connections; questions without an answer are answered NETWORK_EXCEPTION."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()


class _BrokerQueue:
    """The questions that wait for one broker."""

    def __init__(self, broker_id: BrokerId, link: BrokerLink, log: Logger, timeout_ms: int) -> None:
        self.waiting: deque[PartitionsQuestion] = deque()
        self.is_sending = False
        self._broker_id = broker_id
        self._link = link
        self._log = log
        self._timeout_ms = timeout_ms
        self._served: ServedVersions | None = None
        self._is_failing = False

    def close(self) -> None:
        self._link.close()

    async def send(self) -> None:
        """Send until nothing waits."""
        try:
            while self.waiting:
                await self._exchange(self._take())
        finally:
            self.is_sending = False

    def _take(self) -> list[PartitionsQuestion]:
        """The questions of the next request, in their order."""
        taken: dict[str, PartitionsQuestion] = {}
        later: list[PartitionsQuestion] = []
        room = PARTITIONS_PER_REQUEST
        while self.waiting and room > 0:
            question = self.waiting.popleft()
            if question.transactional_id in taken:
                later.append(question)
            else:
                taken[question.transactional_id] = question
                room -= len(question.partitions)
        self.waiting.extendleft(reversed(later))
        return list(taken.values())

    async def _exchange(self, questions: list[PartitionsQuestion]) -> None:
        try:
            version = await self._version()
            response: AddPartitionsToTxnResponse = await self._link.ask(_request(questions), version, self._timeout_ms)
        except NotServed:
            self._log.warning("transactions not verified: their coordinator is too old", broker=self._broker_id)
            for question in questions:
                question.answer(ErrorCode.COORDINATOR_NOT_AVAILABLE if question.adds else ErrorCode.NONE)
            return
        except Unreachable as failure:
            self._served = None
            if not self._is_failing:
                self._is_failing = True
                self._log.warning("transactions not verified", broker=self._broker_id, reason=str(failure))
            for question in questions:
                question.answer(ErrorCode.NETWORK_EXCEPTION)
            return
        if self._is_failing:
            self._is_failing = False
            self._log.info("transactions verified again", broker=self._broker_id)
        codes = _codes(response)
        for question in questions:
            if response.error_code:
                question.answer(_top_level(response.error_code))
            else:
                missing = ErrorCode.NETWORK_EXCEPTION
                found = codes.get(question.transactional_id, {})
                question.on_done({name: found.get(name, missing) for name in question.partitions})

    async def _version(self) -> int:
        """The newest that both know. Raises NotServed and Unreachable."""
        if self._served is None:
            self._served = await run_steps(
                negotiate(), lambda request, version: self._link.ask(request, version, self._timeout_ms)
            )
        return self._served.highest(APIS[ApiKey.ADD_PARTITIONS_TO_TXN], at_least=FIRST_WITH_VERIFICATION)


def _request(questions: Sequence[PartitionsQuestion]) -> AddPartitionsToTxnRequest:
    request = AddPartitionsToTxnRequest()
    for question in questions:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for name, index in question.partitions:
            topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
        request.transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer.producer_id,
                producer_epoch=question.producer.producer_epoch,
                verify_only=not question.adds,
                topics=list(topics.values()),
            )
        )
    return request


def _codes(response: AddPartitionsToTxnResponse) -> dict[str, dict[TopicPartition, ErrorCode]]:
    return {
        result.transactional_id: {
            TopicPartition(topic.name, row.partition_index): _known(row.partition_error_code)
            for topic in result.topic_results
            for row in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }


def _top_level(code: int) -> ErrorCode:
    """Clients must not see that this broker may not ask."""
    return ErrorCode.INVALID_TXN_STATE if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else _known(code)


def _known(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
