"""DescribeCluster: who is there."""

from __future__ import annotations

from sordini.broker.dispatch import Call, Route
from sordini.broker.handlers.metadata import CLUSTER_OPERATIONS
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from sordini.protocol.messages.metadata import OPERATIONS_UNKNOWN

BROKERS = 1
CONTROLLERS = 2


class ClusterHandler:
    """Answers from the metadata cache."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.DESCRIBE_CLUSTER, self.describe, self.describe_error_response),
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

    @staticmethod
    def describe_error_response(request: DescribeClusterRequest, code: ErrorCode) -> DescribeClusterResponse:
        wanted = "a controller" if request.endpoint_type == CONTROLLERS else f"endpoint type {request.endpoint_type}"
        message = f"this listener is a broker's, {wanted} cannot be asked for here"
        return DescribeClusterResponse(error_code=code, error_message=message)
