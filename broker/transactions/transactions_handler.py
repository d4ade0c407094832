"""Requests of transactional producers: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn (KIP-98, KIP-890).

Translates requests to the coordinator's events, and its answers to responses; the decisions are in
`broker/transactions/machine/machine.py`. Leaders on other brokers verify appends by AddPartitionsToTxn, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.journal import TransactionalProducer
from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.requests.request_checks import InterBrokerGuard
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, on_group, on_transactional_id
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.transactions.machine.events import (
    AddPartitions,
    EndTransaction,
    ProducerIdentity,
    TransactionAnswer,
)
from sordini.broker.transactions.machine.state import NO_CALLER
from sordini.broker.transactions.transaction_rules import AddPartitionsRule
from sordini.broker.transactions.verification import PartitionsQuestion
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from sordini.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from sordini.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from sordini.protocol.types import TopicPartition
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.replication.partition_deps import INTERNAL_TOPICS

FIRST_VERSION_WITH_FENCED = 2
"""Of all three requests; producers before know INVALID_PRODUCER_EPOCH only."""
FIRST_BATCHED_VERSION = 4
"""The first version of AddPartitionsToTxn with several transactions, sent by brokers."""
FIRST_VERSION_WITH_ABORTABLE = 5
FIRST_RAISING_VERSION = 5
"""The first version of EndTxn of producers of transaction.version 2."""
TRANSACTION_STEPS = 25
"""The cost of one transaction of a request: a step of the machine, and a write."""

OnCodes = Callable[[Mapping[TopicPartition, ErrorCode]], None]


class TransactionsHandler:
    """Serves transactional producers, and brokers that verify for them."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        offsets_topic: InternalTopic,
        metadata: MetadataCache,
        brokers: InterBrokerGuard,
        *,
        raises_epochs: bool,
    ) -> None:
        """`raises_epochs`: transaction.version 2 is in force, for the producers that know it."""
        self._client_version = RAISES_EPOCH if raises_epochs else 0
        self._transactions = transactions
        self._offsets_topic = offsets_topic
        self._metadata = metadata
        self._brokers = brokers

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.ADD_PARTITIONS_TO_TXN,
                self.add_partitions,
                self.add_partitions_error_response,
                AddPartitionsRule(),
            ),
            Route(
                ApiKey.ADD_OFFSETS_TO_TXN,
                self.add_offsets,
                self.add_offsets_error_response,
                Both(on_transactional_id(AclOperation.WRITE), on_group(AclOperation.READ)),
            ),
            Route(ApiKey.END_TXN, self.end, self.end_error_response, on_transactional_id(AclOperation.WRITE)),
        ]

    # AddPartitionsToTxn.

    def add_partitions(self, call: Call) -> Work[AddPartitionsToTxnResponse | DelayedResponse]:
        if call.version >= FIRST_BATCHED_VERSION:
            self._brokers.check_listener(call)
        transactions = _transactions_of(call.body, call.version)
        responder: Responder[AddPartitionsToTxnResponse] = Responder(call)
        results: dict[int, AddPartitionsToTxnResult] = {}

        def finished(index: int, codes: Mapping[TopicPartition, ErrorCode]) -> None:
            results[index] = _result(transactions[index], codes, call.version)
            if len(results) == len(transactions):
                responder.answer(_response([results[number] for number in range(len(transactions))], call.version))

        for index, transaction in enumerate(transactions):
            yield TRANSACTION_STEPS
            yield from self._add(call, transaction, partial(finished, index))
        if not transactions:
            responder.answer(_response([], call.version))
        return responder.result()

    def _add(self, call: Call, transaction: AddPartitionsToTxnTransaction, on_codes: OnCodes) -> Work[None]:
        """Add or verify the partitions of one transaction: all of them, or none if one of them cannot be added."""
        partitions: list[TopicPartition] = []
        refused: dict[TopicPartition, ErrorCode] = {}
        for topic in transaction.topics:
            for index in topic.partitions:
                yield 1
                partition = TopicPartition(topic.name, index)
                partitions.append(partition)
                if (code := self._refusal(partition, call.version)) is not None:
                    refused[partition] = code
        if refused:
            on_codes({one: refused.get(one, ErrorCode.OPERATION_NOT_ATTEMPTED) for one in partitions})
            return
        transactional_id, producer_id, epoch = (
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
        )
        if transaction.verify_only:
            producer = TransactionalProducer(producer_id, epoch)
            self._transactions.ask(PartitionsQuestion(transactional_id, producer, partitions, on_codes))
            return
        client_version = self._client_version if call.version >= FIRST_BATCHED_VERSION else 0
        event = AddPartitions(NO_CALLER, ProducerIdentity(producer_id, epoch), frozenset(partitions), client_version)

        def answered(answer: TransactionAnswer) -> None:
            on_codes(dict.fromkeys(partitions, answer.error))

        try:
            self._transactions.submit(transactional_id, event, answered, call.peer.number)
        except BrokerError as error:
            on_codes(dict.fromkeys(partitions, error.code))

    def _refusal(self, partition: TopicPartition, version: int) -> ErrorCode | None:
        """Why a partition can be in no transaction of a client; brokers name internal topics, too."""
        if version < FIRST_BATCHED_VERSION and partition.topic in INTERNAL_TOPICS:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return None if self._metadata.may_exist(*partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    @staticmethod
    def add_partitions_error_response(
        request: AddPartitionsToTxnRequest, code: ErrorCode
    ) -> AddPartitionsToTxnResponse:
        """The same code for every partition, and for the whole request from v4 on."""
        return AddPartitionsToTxnResponse(
            error_code=code,
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ],
        )

    # AddOffsetsToTxn and EndTxn.

    def add_offsets(self, call: Call) -> AddOffsetsToTxnResponse | DelayedResponse:
        """Add the group's partition of __consumer_offsets."""
        request: AddOffsetsToTxnRequest = call.body
        if not self._offsets_topic.exists:
            self._offsets_topic.create()  # The producer retries after COORDINATOR_NOT_AVAILABLE.
        index = partition_for(request.group_id, self._offsets_topic.partition_count())
        partitions = frozenset({TopicPartition(self._offsets_topic.name, index)})
        event = AddPartitions(NO_CALLER, ProducerIdentity(request.producer_id, request.producer_epoch), partitions)
        responder: Responder[AddOffsetsToTxnResponse] = Responder(call)

        def answered(answer: TransactionAnswer) -> None:
            responder.answer(AddOffsetsToTxnResponse(error_code=_known_by(call.version, answer.error)))

        self._transactions.submit(request.transactional_id, event, answered, call.peer.number)
        return responder.result()

    @staticmethod
    def add_offsets_error_response(_request: AddOffsetsToTxnRequest, code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=code)

    def end(self, call: Call) -> EndTxnResponse | DelayedResponse:
        request: EndTxnRequest = call.body
        producer = ProducerIdentity(request.producer_id, request.producer_epoch)
        responder: Responder[EndTxnResponse] = Responder(call)

        def answered(answer: TransactionAnswer) -> None:
            error = _known_by(call.version, answer.error)
            if error:
                responder.answer(EndTxnResponse(error_code=error))
            else:  # Unless the end raises the epoch, it stays the producer's.
                next_id, next_epoch = answer.producer or producer
                responder.answer(EndTxnResponse(producer_id=next_id, producer_epoch=next_epoch))

        client_version = self._client_version if call.version >= FIRST_RAISING_VERSION else 0
        event = EndTransaction(NO_CALLER, producer, request.committed, client_version)
        self._transactions.submit(request.transactional_id, event, answered, call.peer.number)
        return responder.result()

    @staticmethod
    def end_error_response(_request: EndTxnRequest, code: ErrorCode) -> EndTxnResponse:
        return EndTxnResponse(error_code=code)


def _known_by(version: int, error: ErrorCode) -> ErrorCode:
    """The error that a client of this version knows."""
    if error is ErrorCode.PRODUCER_FENCED and version < FIRST_VERSION_WITH_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _transactions_of(request: AddPartitionsToTxnRequest, version: int) -> list[AddPartitionsToTxnTransaction]:
    if version >= FIRST_BATCHED_VERSION:
        return request.transactions
    topics: list[AddPartitionsToTxnTopic] = request.v3_and_below_topics
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=topics,
        )
    ]


def _result(
    transaction: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, ErrorCode], version: int
) -> AddPartitionsToTxnResult:
    def known(code: ErrorCode) -> ErrorCode:
        if code is ErrorCode.TRANSACTION_ABORTABLE and version < FIRST_VERSION_WITH_ABORTABLE:
            return ErrorCode.INVALID_TXN_STATE
        return _known_by(version, code)

    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=known(codes[TopicPartition(topic.name, index)])
                    )
                    for index in topic.partitions
                ],
            )
            for topic in transaction.topics
        ],
    )


def _response(results: list[AddPartitionsToTxnResult], version: int) -> AddPartitionsToTxnResponse:
    if version >= FIRST_BATCHED_VERSION:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
