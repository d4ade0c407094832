"""DescribeCluster and FindCoordinator: who is there, and whom to ask for groups."""

from __future__ import annotations

from sordini.broker.dispatch import Call, Route
from sordini.broker.handlers.metadata import CLUSTER_OPERATIONS
from sordini.broker.metadata_cache import MetadataCache
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from sordini.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from sordini.protocol.messages.metadata import OPERATIONS_UNKNOWN

BROKERS = 1
CONTROLLERS = 2
GROUP = 0
TRANSACTION = 1

REASONS = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "no coordinator is running",
    ErrorCode.INVALID_REQUEST: "a coordinator is asked for by a group (0) or a transactional id (1)",
}


class ClusterHandler:
    """Answers from the metadata cache."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.DESCRIBE_CLUSTER, self.describe, self.refuse_describe),
            Route(ApiKey.FIND_COORDINATOR, self.find_coordinator, self.refuse_find),
        ]

    def describe(self, call: Call) -> DescribeClusterResponse:
        request: DescribeClusterRequest = call.body
        if request.endpoint_type == CONTROLLERS:
            raise BrokerError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this listener is for brokers, not controllers")
        if request.endpoint_type != BROKERS:
            raise BrokerError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {request.endpoint_type}")
        brokers = []
        for broker in self._metadata.brokers.values():
            address = broker.endpoints.get(call.peer.listener)
            if address is not None:
                host, port = address
                brokers.append(
                    DescribeClusterBroker(broker_id=broker.broker_id, host=host, port=port, rack=broker.rack)
                )
        return DescribeClusterResponse(
            cluster_id=self._metadata.cluster_id,
            controller_id=self._metadata.controller_id,
            brokers=brokers,
            cluster_authorized_operations=CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations
            else OPERATIONS_UNKNOWN,
        )

    def find_coordinator(self, call: Call) -> FindCoordinatorResponse:
        """Nobody coordinates groups or transactions yet: clients are told to ask again later."""
        request: FindCoordinatorRequest = call.body
        known = request.key_type in (GROUP, TRANSACTION)
        return self.refuse_find(request, ErrorCode.COORDINATOR_NOT_AVAILABLE if known else ErrorCode.INVALID_REQUEST)

    @staticmethod
    def refuse_describe(request: DescribeClusterRequest, code: ErrorCode) -> DescribeClusterResponse:
        wanted = "a controller" if request.endpoint_type == CONTROLLERS else f"endpoint type {request.endpoint_type}"
        message = f"this listener is a broker's, {wanted} cannot be asked for here"
        return DescribeClusterResponse(error_code=code, error_message=message)

    @staticmethod
    def refuse_find(request: FindCoordinatorRequest, code: ErrorCode) -> FindCoordinatorResponse:
        message = REASONS.get(code)
        return FindCoordinatorResponse(
            error_code=code,
            error_message=message,
            node_id=-1,
            port=-1,
            coordinators=[
                Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=message)
                for key in request.coordinator_keys
            ],
        )
