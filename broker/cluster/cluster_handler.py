"""DescribeCluster: the live brokers and the controller."""

from __future__ import annotations

from sordini.broker.cluster.cluster_rule import ClusterOperationsRule
from sordini.broker.requests.call import Call, Route
from sordini.broker.topics.metadata_cache import MetadataCache
from sordini.broker.topics.metadata_handler import CLUSTER_OPERATIONS
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from sordini.protocol.messages.metadata import OPERATIONS_UNKNOWN

BROKERS = 1
CONTROLLERS = 2
ENDPOINT_ERRORS = frozenset({ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE})


class ClusterHandler:
    """Answers from the metadata cache."""

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def routes(self) -> list[Route]:
        return [
            Route(ApiKey.DESCRIBE_CLUSTER, self.describe, self.describe_error_response, ClusterOperationsRule()),
        ]

    def describe(self, call: Call) -> DescribeClusterResponse:
        request: DescribeClusterRequest = call.body
        if request.endpoint_type == CONTROLLERS:
            raise BrokerError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "this listener is for brokers, not controllers")
        if request.endpoint_type != BROKERS:
            raise BrokerError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"unknown endpoint type {request.endpoint_type}")
        brokers = []
        for broker in self._metadata.brokers.values():
            address = self._metadata.address_of(broker, call.peer)
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
        message = None
        if code in ENDPOINT_ERRORS:
            wanted = (
                "a controller" if request.endpoint_type == CONTROLLERS else f"endpoint type {request.endpoint_type}"
            )
            message = f"this is a broker's listener: {wanted} cannot be described here"
        return DescribeClusterResponse(error_code=code, error_message=message)
