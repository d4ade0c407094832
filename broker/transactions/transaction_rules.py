"""Rules of transactional and idempotent producers."""

from __future__ import annotations

from typing import Any

from sordini.broker.requests.call import Call
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.rule import RuleDeps, split
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from sordini.protocol.messages.describe_transactions import DescribeTransactionsResponse
from sordini.protocol.messages.init_producer_id import InitProducerIdRequest
from sordini.protocol.messages.list_transactions import ListTransactionsResponse
from sordini.replication.metadata_store.acl_model import AclOperation
from sordini.system.named_tuple import NamedTuple

FIRST_OF_BROKERS = 4
"""The first version of AddPartitionsToTxn that brokers send, with several transactions."""


class InitProducerIdRule(NamedTuple):
    """WRITE on the transactional id; of an idempotent producer any topic that it may write to will do (KIP-679)."""

    @property
    def meaning(self) -> str:
        return "WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster or WRITE on any topic"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        request: InitProducerIdRequest = call.body
        access, peer = deps.access, call.peer
        if request.transactional_id is not None:
            access.require_transactional_id(peer, AclOperation.WRITE, request.transactional_id)
        elif not access.to_some_topic(peer, AclOperation.WRITE):
            access.require_cluster(peer, AclOperation.IDEMPOTENT_WRITE)
        return None


class AddPartitionsRule(NamedTuple):
    """WRITE on the transactional id and on each topic; with a topic that is refused nothing is added."""

    @property
    def meaning(self) -> str:
        return "WRITE on the transactional id, WRITE on each topic; of a broker: CLUSTER_ACTION on the cluster"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        request: AddPartitionsToTxnRequest = call.body
        access, peer = deps.access, call.peer
        if call.version >= FIRST_OF_BROKERS:
            yield 1
            access.require_cluster(peer, AclOperation.CLUSTER_ACTION)
            return None
        access.require_transactional_id(peer, AclOperation.WRITE, request.v3_and_below_transactional_id)
        topics = request.v3_and_below_topics
        _, refused = yield from split(topics, lambda topic: access.to_topic(peer, AclOperation.WRITE, topic.name))
        if not refused:
            return None
        names = {topic.name for topic in refused}
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[_not_added(topic, names) for topic in topics])


def _not_added(topic: AddPartitionsToTxnTopic, refused: set[str]) -> AddPartitionsToTxnTopicResult:
    is_refused = topic.name in refused
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_refused else ErrorCode.OPERATION_NOT_ATTEMPTED
    return AddPartitionsToTxnTopicResult(
        name=topic.name,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            for index in topic.partitions
        ],
    )


class ListTransactionsRule(NamedTuple):
    """Transactional ids that the peer may not describe are left out."""

    @property
    def meaning(self) -> str:
        return "DESCRIBE on each transactional id, and the others are left out"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        access, peer = deps.access.quietly, call.peer

        def amend(message: ListTransactionsResponse) -> ListTransactionsResponse:
            message.transaction_states = [
                state
                for state in message.transaction_states
                if access.to_transactional_id(peer, AclOperation.DESCRIBE, state.transactional_id)
            ]
            return message

        call.amend = amend
        return None


class TransactionTopicsRule(NamedTuple):
    """Leaves topics out of described transactions that the peer may not describe."""

    @property
    def meaning(self) -> str:
        return "topics without DESCRIBE are left out"

    def check(self, call: Call, deps: RuleDeps) -> Work[Any]:
        yield 1
        access, peer, former = deps.access.quietly, call.peer, call.amend

        def amend(message: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
            for state in message.transaction_states:
                state.topics = [
                    topic for topic in state.topics if access.to_topic(peer, AclOperation.DESCRIBE, topic.topic)
                ]
            return message if former is None else former(message)

        call.amend = amend
        return None


def is_transactional_denied(call: Call, deps: RuleDeps, transactional_id: str | None) -> bool:
    """Whether a producer may not use its transactional id; it is not noted, as it need not use it."""
    return transactional_id is not None and not deps.access.quietly.to_transactional_id(
        call.peer, AclOperation.WRITE, transactional_id
    )
