"""FindCoordinator: which broker coordinates a group, or a transactional id.

The first request creates __consumer_offsets, and is answered when that exists, a fraction of a second later: at Apache
Kafka's immediate COORDINATOR_NOT_AVAILABLE some clients retry only after a second. Sordini has no transaction
coordinator; in a cluster with other brokers that have __transaction_state, the answer is one of them. Where no broker
can coordinate transactions, the answer is a code at which clients give up: COORDINATOR_NOT_AVAILABLE they retry until a
timeout.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.dispatch import Call, Route
from sordini.broker.groups.offsets_topic import OFFSETS_TOPIC
from sordini.broker.handlers.request_checks import LETTERS_PER_STEP
from sordini.broker.handlers.responder import Responder
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.transactions.records import TRANSACTIONS_TOPIC
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1

FIRST_BATCHED_VERSION = 4
FIRST_VERSION_WITH_FATAL_CODES = 3
"""librdkafka sends version 2 at most, and retries after every code but two of authorization."""
KEYS_WITHOUT_SLICES_MAX = 200

NO_TRANSACTIONS = (
    "this cluster has no transaction coordinator: Sordini does not serve transactions yet. "
    "Produce without a transactional id; idempotent producers are served"
)
ERROR_MESSAGES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no coordinator is running",
    ErrorCode.INVALID_REQUEST: "the key type is neither a group (0) nor a transactional id (1)",
    ErrorCode.UNSUPPORTED_VERSION: NO_TRANSACTIONS,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NO_TRANSACTIONS,
}


class FindCoordinatorHandler:
    """Finds coordinators by the metadata of their internal topic."""

    def __init__(
        self, topic: InternalTopic, metadata: MetadataCache, *, coordinates_transactions: Callable[[], bool]
    ) -> None:
        """`coordinates_transactions`: whether another broker of the cluster may coordinate them."""
        self._topic = topic
        self._metadata = metadata
        self._coordinates_transactions = coordinates_transactions

    def route(self) -> Route:
        return Route(ApiKey.FIND_COORDINATOR, self.find, self.error_response)

    def find(self, call: Call) -> FindCoordinatorResponse | DelayedResponse | Work[FindCoordinatorResponse]:
        request: FindCoordinatorRequest = call.body
        if request.key_type == TRANSACTION and not self._coordinates_transactions():
            raise BrokerError(transactions_error(call.version), NO_TRANSACTIONS)
        if request.key_type in (TRANSACTION, GROUP) and len(request.coordinator_keys) > KEYS_WITHOUT_SLICES_MAX:
            return self._find_many(call)
        if request.key_type == TRANSACTION:
            return self._found(call)
        if request.key_type != GROUP:
            return self.error_response(request, ErrorCode.INVALID_REQUEST)
        if self._topic.exists or (call.version >= FIRST_BATCHED_VERSION and not request.coordinator_keys):
            return self._found(call)
        responder: Responder[FindCoordinatorResponse] = Responder(call)
        self._topic.create(lambda: responder.answer(self._found(call)))
        return responder.result()

    def _find_many(self, call: Call) -> Work[FindCoordinatorResponse]:
        """As `_found`, in slices. The creation of __consumer_offsets is started, too, and clients retry."""
        request: FindCoordinatorRequest = call.body
        topic = TRANSACTIONS_TOPIC if request.key_type == TRANSACTION else OFFSETS_TOPIC
        if topic == OFFSETS_TOPIC and not self._topic.exists:
            self._topic.create()
        response = FindCoordinatorResponse()
        for key in request.coordinator_keys:
            response.coordinators.append(self._coordinator(topic, key, call.peer.listener))
            yield 2 + len(key) // LETTERS_PER_STEP
        return response

    def _found(self, call: Call) -> FindCoordinatorResponse:
        request: FindCoordinatorRequest = call.body
        topic = TRANSACTIONS_TOPIC if request.key_type == TRANSACTION else OFFSETS_TOPIC
        if call.version >= FIRST_BATCHED_VERSION:
            return FindCoordinatorResponse(
                coordinators=[self._coordinator(topic, key, call.peer.listener) for key in request.coordinator_keys]
            )
        found = self._coordinator(topic, request.key, call.peer.listener)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )

    def _coordinator(self, topic: str, key: str, listener: str) -> Coordinator:
        """The leader of the key's partition, with its address on the listener of the client."""
        try:
            broker_id, (host, port) = self._leader(topic, key, listener)
        except BrokerError as error:
            return _no_coordinator(key, error.code)
        return Coordinator(key=key, node_id=broker_id, host=host, port=port, error_message=None)

    def _leader(self, name: str, key: str, listener: str) -> tuple[int, tuple[str, int]]:
        topic = self._metadata.topics.get(name)
        if topic is not None:
            count = self._topic.partition_count() if name == OFFSETS_TOPIC else len(topic.partitions)
            partition = topic.partitions.get(partition_for(key, count))
            broker = None if partition is None else self._metadata.brokers.get(partition.leader)
            address = None if broker is None else broker.endpoints.get(listener)
            if broker is not None and address is not None:
                return broker.broker_id, address
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {key} in {name} has no leader")

    @staticmethod
    def error_response(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            error_code=code,
            error_message=ERROR_MESSAGES.get(code),
            node_id=-1,
            port=-1,
            coordinators=[_no_coordinator(key, code) for key in request.coordinator_keys],
        )


def transactions_error(version: int) -> ErrorCode:
    """The code at which clients of this version of FindCoordinator give up."""
    if version < FIRST_VERSION_WITH_FATAL_CODES:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.UNSUPPORTED_VERSION


def _no_coordinator(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=ERROR_MESSAGES.get(code))
