"""FindCoordinator: which broker looks after a group, or after a transactional id.

Whoever asks first brings __consumer_offsets into being, and waits the fraction of a second that takes: told to come
again, as by Apache Kafka, some clients do so only after a second. Transactions have no coordinator among ours; in a
cluster with other brokers whose __transaction_state is there, clients are told which of them it is. Where no broker can
coordinate, the answer is one at which clients stop: they repeat COORDINATOR_NOT_AVAILABLE until their own timeout.
"""

from __future__ import annotations

from collections.abc import Callable

from sordini.broker.coordinators.internal_topic import OFFSETS_TOPIC, OffsetsTopic
from sordini.broker.dispatch import Call, Route
from sordini.broker.groups.machine.records import partition_for
from sordini.broker.handlers.request_checks import LETTERS_PER_STEP
from sordini.broker.handlers.responder import Responder
from sordini.broker.network.ports import DelayedResponse
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
TRANSACTIONS_TOPIC = "__transaction_state"

FIRST_BATCHED_VERSION = 4
FIRST_OF_KNOWN_CODES = 3
"""librdkafka asks in version 2 at the latest, and repeats the request after every code but two of authorization."""
KEYS_AT_ONCE = 200

NO_TRANSACTIONS = (
    "this cluster has no transaction coordinator: Sordini does not serve transactions yet. "
    "Produce without a transactional id; idempotent producers are served"
)
REASONS = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no coordinator is running",
    ErrorCode.INVALID_REQUEST: "a coordinator is asked for by a group (0) or a transactional id (1)",
    ErrorCode.UNSUPPORTED_VERSION: NO_TRANSACTIONS,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NO_TRANSACTIONS,
}


class FindCoordinatorHandler:
    """Finds coordinators by the metadata of their topic."""

    def __init__(
        self, topic: OffsetsTopic, metadata: MetadataCache, *, coordinates_transactions: Callable[[], bool]
    ) -> None:
        """`coordinates_transactions`: whether another broker of the cluster may."""
        self._topic = topic
        self._metadata = metadata
        self._coordinates_transactions = coordinates_transactions

    def route(self) -> Route:
        return Route(ApiKey.FIND_COORDINATOR, self.find, self.error_response)

    def find(self, call: Call) -> FindCoordinatorResponse | DelayedResponse | Work[FindCoordinatorResponse]:
        request: FindCoordinatorRequest = call.body
        if request.key_type == TRANSACTION and not self._coordinates_transactions():
            raise BrokerError(transactions_error(call.version), NO_TRANSACTIONS)
        if request.key_type in (TRANSACTION, GROUP) and len(request.coordinator_keys) > KEYS_AT_ONCE:
            return self._many(call)
        if request.key_type == TRANSACTION:
            return self._found(call)
        if request.key_type != GROUP:
            return self.error_response(request, ErrorCode.INVALID_REQUEST)
        if self._topic.exists or (call.version >= FIRST_BATCHED_VERSION and not request.coordinator_keys):
            return self._found(call)
        responder: Responder[FindCoordinatorResponse] = Responder(call)
        self._topic.make(lambda: responder.answer(self._found(call)))
        return responder.result()

    def _many(self, call: Call) -> Work[FindCoordinatorResponse]:
        """As `_found`, in steps. The topic of offsets is made all the same, and is asked for again by clients."""
        request: FindCoordinatorRequest = call.body
        topic = TRANSACTIONS_TOPIC if request.key_type == TRANSACTION else OFFSETS_TOPIC
        if topic == OFFSETS_TOPIC and not self._topic.exists:
            self._topic.make(_nobody_waits)
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
        """Whoever leads the key's partition, under the address that this listener's clients know."""
        try:
            broker_id, (host, port) = self._leader(topic, key, listener)
        except BrokerError as error:
            return _nobody(key, error.code)
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
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"nobody leads the partition of {key} in {name}")

    @staticmethod
    def error_response(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            error_code=code,
            error_message=REASONS.get(code),
            node_id=-1,
            port=-1,
            coordinators=[_nobody(key, code) for key in request.coordinator_keys],
        )


def transactions_error(version: int) -> ErrorCode:
    """The code at which a client that asks in this version of FindCoordinator gives up."""
    if version < FIRST_OF_KNOWN_CODES:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.UNSUPPORTED_VERSION


def _nobody_waits() -> None:
    """Whoever names so many groups has its answer already."""


def _nobody(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=REASONS.get(code))
