"""FindCoordinator: which broker coordinates a group, a transactional id, or a share partition.

The coordinator is the leader of the key's partition in __consumer_offsets, __transaction_state or __share_group_state,
whichever kind of broker that is. The first request creates the topic, and is answered when that exists, a fraction of a
second later: at Apache Kafka's immediate COORDINATOR_NOT_AVAILABLE some clients retry only after a second.
"""

from __future__ import annotations

from collections.abc import Mapping

from sordini.broker.coordinators.find_coordinator_rule import FindCoordinatorRule
from sordini.broker.coordinators.internal_topic import InternalTopic
from sordini.broker.coordinators.partitioning import partition_for
from sordini.broker.coordinators.share_partition_names import read_share_partition_name, share_partition_name
from sordini.broker.network.ports import DelayedResponse, Peer
from sordini.broker.requests.call import Call, Route
from sordini.broker.requests.request_checks import LETTERS_PER_STEP
from sordini.broker.requests.responder import Responder
from sordini.broker.requests.slice_scheduler import Work
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
TRANSACTION = 1
SHARE = 2

FIRST_BATCHED_VERSION = 4
FIRST_WITH_SHARES = 6
KEYS_WITHOUT_SLICES_MAX = 200

ERROR_MESSAGES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no coordinator is running",
    ErrorCode.INVALID_REQUEST: "the key type is none of a group (0), a transactional id (1) and, from version 6 on, "
    "a share partition (2) named group:topic id:partition",
}


class FindCoordinatorHandler:
    """Finds coordinators by the metadata of their internal topic."""

    def __init__(
        self,
        offsets: InternalTopic,
        transactions: InternalTopic,
        share_states: InternalTopic,
        metadata: MetadataCache,
    ) -> None:
        self._topics: Mapping[int, InternalTopic] = {GROUP: offsets, TRANSACTION: transactions, SHARE: share_states}
        self._metadata = metadata

    def route(self) -> Route:
        return Route(ApiKey.FIND_COORDINATOR, self.find, self.error_response, FindCoordinatorRule())

    def find(self, call: Call) -> FindCoordinatorResponse | DelayedResponse | Work[FindCoordinatorResponse]:
        request: FindCoordinatorRequest = call.body
        topic = self._topics.get(request.key_type)
        if topic is None or (request.key_type == SHARE and call.version < FIRST_WITH_SHARES):
            return self.error_response(request, ErrorCode.INVALID_REQUEST)
        if len(request.coordinator_keys) > KEYS_WITHOUT_SLICES_MAX:
            return self._find_many(call, topic)
        if topic.exists or not _has_names(call):
            return self._found(call, topic)
        responder: Responder[FindCoordinatorResponse] = Responder(call)
        topic.create(lambda: responder.answer(self._found(call, topic)))
        return responder.result()

    def _find_many(self, call: Call, topic: InternalTopic) -> Work[FindCoordinatorResponse]:
        """As `_found`, in slices. The creation of the topic is started, too, and clients retry."""
        request: FindCoordinatorRequest = call.body
        if not topic.exists:
            topic.create()
        response = FindCoordinatorResponse()
        for key in request.coordinator_keys:
            response.coordinators.append(self._coordinator(topic, request.key_type, key, call.peer))
            yield 2 + len(key) // LETTERS_PER_STEP
        return response

    def _found(self, call: Call, topic: InternalTopic) -> FindCoordinatorResponse:
        request: FindCoordinatorRequest = call.body
        if call.version >= FIRST_BATCHED_VERSION:
            return FindCoordinatorResponse(
                coordinators=[
                    self._coordinator(topic, request.key_type, key, call.peer) for key in request.coordinator_keys
                ]
            )
        found = self._coordinator(topic, request.key_type, request.key, call.peer)
        return FindCoordinatorResponse(
            error_code=found.error_code,
            error_message=found.error_message,
            node_id=found.node_id,
            host=found.host,
            port=found.port,
        )

    def _coordinator(self, topic: InternalTopic, key_type: int, key: str, peer: Peer) -> Coordinator:
        """The leader of the key's partition, with its address for the client."""
        try:
            name = share_partition_name(*read_share_partition_name(key)) if key_type == SHARE else key
            broker_id, (host, port) = self._leader(topic, name, peer)
        except ValueError:
            return _no_coordinator(key, ErrorCode.INVALID_REQUEST)
        except BrokerError as error:
            return _no_coordinator(key, error.code)
        return Coordinator(key=key, node_id=broker_id, host=host, port=port, error_message=None)

    def _leader(self, topic: InternalTopic, key: str, peer: Peer) -> tuple[int, tuple[str, int]]:
        known = self._metadata.topics.get(topic.name)
        if known is not None:
            partition = known.partitions.get(partition_for(key, topic.partition_count()))
            broker = None if partition is None else self._metadata.brokers.get(partition.leader)
            address = None if broker is None else self._metadata.address_of(broker, peer)
            if broker is not None and address is not None:
                return broker.broker_id, address
        raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {key} in {topic.name} has no leader")

    @staticmethod
    def error_response(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
        return FindCoordinatorResponse(
            error_code=code,
            error_message=ERROR_MESSAGES.get(code),
            node_id=-1,
            port=-1,
            coordinators=[_no_coordinator(key, code) for key in request.coordinator_keys],
        )


def _has_names(call: Call) -> bool:
    """Whether the request names anything that can have a coordinator."""
    request: FindCoordinatorRequest = call.body
    if call.version < FIRST_BATCHED_VERSION:
        return True
    if request.key_type != SHARE:
        return bool(request.coordinator_keys)
    return any(map(_is_share_partition, request.coordinator_keys))


def _is_share_partition(key: str) -> bool:
    try:
        read_share_partition_name(key)
    except ValueError:
        return False
    return True


def _no_coordinator(key: str, code: ErrorCode) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=ERROR_MESSAGES.get(code))
