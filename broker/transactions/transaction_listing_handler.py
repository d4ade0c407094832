"""Transactions for administrators: DescribeTransactions and ListTransactions (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.request_checks import LETTERS_PER_STEP, check_name_repeats
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.security.rules.simple_rules import Both, OnEach
from sordini.broker.transactions.coordinator import TransactionCoordinator
from sordini.broker.transactions.id_pattern import IdPattern
from sordini.broker.transactions.machine.state import Transaction, TransactionState
from sordini.broker.transactions.records import STATE_NAMES
from sordini.broker.transactions.transaction_rules import ListTransactionsRule, TransactionTopicsRule
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from sordini.protocol.messages.describe_transactions import TransactionState as Described
from sordini.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from sordini.protocol.messages.list_transactions import TransactionState as Listed
from sordini.replication.metadata_store.acl_model import AclOperation, ResourceType
from sordini.replication.ports import Clock

Filter = Callable[[Transaction], bool]


class TransactionListingHandler:
    """Serves administrators of transactional producers."""

    def __init__(self, transactions: TransactionCoordinator, clock: Clock) -> None:
        self._transactions = transactions
        self._clock = clock

    def routes(self) -> list[Route]:
        return [
            Route(
                ApiKey.DESCRIBE_TRANSACTIONS,
                self.describe,
                self.describe_error_response,
                Both(
                    OnEach(
                        ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE, "transactional_ids", "transaction_states"
                    ),
                    TransactionTopicsRule(),
                ),
            ),
            Route(ApiKey.LIST_TRANSACTIONS, self.list, self.list_error_response, ListTransactionsRule()),
        ]

    def describe(self, call: Call) -> Work[DescribeTransactionsResponse]:
        request: DescribeTransactionsRequest = call.body
        yield from check_name_repeats(request.transactional_ids)
        response = DescribeTransactionsResponse()
        for transactional_id in request.transactional_ids:
            yield 1 + len(transactional_id) // LETTERS_PER_STEP
            try:
                described = yield from self._described(transactional_id)
            except BrokerError as error:
                described = Described(error_code=error.code, transactional_id=transactional_id)
            response.transaction_states.append(described)
        return response

    def _described(self, transactional_id: str) -> Work[Described]:
        transaction = self._transactions.transaction(transactional_id)
        if transaction is None:
            raise BrokerError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {transactional_id}")
        topics: dict[str, TopicData] = {}
        for topic, index in self._transactions.unmarked(transaction):
            topics.setdefault(topic, TopicData(topic=topic, partitions=[])).partitions.append(index)
            yield 1
        return Described(
            transactional_id=transactional_id,
            transaction_state=transaction.state_name,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=list(topics.values()),
        )

    @staticmethod
    def describe_error_response(request: DescribeTransactionsRequest, code: ErrorCode) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[
                Described(error_code=code, transactional_id=transactional_id)
                for transactional_id in request.transactional_ids
            ]
        )

    def list(self, call: Call) -> Work[ListTransactionsResponse]:
        request: ListTransactionsRequest = call.body
        if self._transactions.is_loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "transactional ids are being loaded")
        filters = _filters(request, self._clock.now_ms())
        pattern = None if not request.transactional_id_pattern else IdPattern(request.transactional_id_pattern)
        response = ListTransactionsResponse(
            unknown_state_filters=[name for name in request.state_filters if name not in STATE_NAMES]
        )
        for transaction in self._transactions.transactions():
            yield 1
            if not all(admits(transaction) for admits in filters):
                continue
            if pattern is not None:
                yield pattern.cost_of(transaction.transactional_id)
                if not pattern.matches(transaction.transactional_id):
                    continue
            response.transaction_states.append(
                Listed(
                    transactional_id=transaction.transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state_name,
                )
            )
        return response

    @staticmethod
    def list_error_response(_request: ListTransactionsRequest, code: ErrorCode) -> ListTransactionsResponse:
        return ListTransactionsResponse(error_code=code)


def _filters(request: ListTransactionsRequest, now_ms: int) -> list[Filter]:
    """The filters that a request has; an empty one admits all. Unknown states admit none."""
    filters: list[Filter] = []
    if request.state_filters:
        states = {state for state in TransactionState if STATE_NAMES[state] in request.state_filters}
        filters.append(lambda transaction: transaction.state in states)
    if request.producer_id_filters:
        producer_ids = set(request.producer_id_filters)
        filters.append(lambda transaction: transaction.producer_id in producer_ids)
    if request.duration_filter >= 0:
        filters.append(lambda transaction: now_ms - transaction.start_ms > request.duration_filter)
    return filters
