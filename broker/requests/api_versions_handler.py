"""ApiVersions: the APIs and versions that this broker serves (KIP-35, KIP-511)."""

from __future__ import annotations

import re

from sordini.broker.requests.call import OPEN, Call, Route
from sordini.broker.requests.features import RAISES_EPOCH
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from sordini.protocol.served_apis import ALL_APIS, APIS, TELEMETRY_APIS
from sordini.replication.metadata_store.znodes import TRANSACTION_VERSION

NODE_UNKNOWN = -1
SUPPORTED = SupportedFeatureKey(name=TRANSACTION_VERSION, min_version=0, max_version=RAISES_EPOCH)
FINALIZED = FinalizedFeatureKey(
    name=TRANSACTION_VERSION, max_version_level=RAISES_EPOCH, min_version_level=RAISES_EPOCH
)
FIRST_WITH_LOWEST_ZERO = 4
"""Clients of earlier versions cannot read a feature whose lowest version is 0 (KAFKA-17011)."""
OWN_SOFTWARE_NAME = "sordini"
"""The name of Sordini's clients (`client/versions.py`): they learn of `OWN_APIS`, which no other client knows."""
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    """Answers from the table in `protocol/served_apis.py`, and keeps the client's software name and version.

    A client may send the cluster and node id that it wants to reach. If this is another broker, it gets
    REBOOTSTRAP_REQUIRED: its metadata is wrong, and it starts again with its bootstrap addresses (KIP-1242).
    """

    def __init__(
        self, cluster_id: str, broker_id: int, *, raises_epochs: bool = False, takes_telemetry: bool = False
    ) -> None:
        """`raises_epochs`: transaction.version 2 is in force. `takes_telemetry`: clients may push metrics (KIP-714)."""
        self._cluster_id = cluster_id
        self._broker_id = broker_id
        self._raises_epochs = raises_epochs
        self._takes_telemetry = takes_telemetry

    def route(self) -> Route:
        return Route(ApiKey.API_VERSIONS, self.handle, self.error_response, OPEN)

    def handle(self, call: Call) -> ApiVersionsResponse:
        request: ApiVersionsRequest = call.body
        if call.version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(version):
                raise BrokerError(ErrorCode.INVALID_REQUEST, "the client's software name or version is malformed")
            call.peer.software_name = name
            call.peer.software_version = version
        self._check_destination(request)
        is_own = request.client_software_name == OWN_SOFTWARE_NAME  # Not sent before version 3.
        rows = served(is_own=is_own, takes_telemetry=self._takes_telemetry)
        if not self._raises_epochs:
            return ApiVersionsResponse(api_keys=rows, finalized_features_epoch=0)
        return ApiVersionsResponse(
            api_keys=rows,
            supported_features=[SUPPORTED] if call.version >= FIRST_WITH_LOWEST_ZERO else [],
            # Higher than that of a broker without the feature: clients keep what they read with the highest.
            finalized_features_epoch=1,
            finalized_features=[FINALIZED],
        )

    def _check_destination(self, request: ApiVersionsRequest) -> None:
        """Raise BrokerError unless the client names this broker, or none (as in every version before 5)."""
        cluster_id, node_id = request.cluster_id, request.node_id
        if (cluster_id is None) != (node_id == NODE_UNKNOWN):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                f"the cluster id is {cluster_id!r} and the node id is {node_id}: allowed are both or neither",
            )
        if cluster_id is not None and (cluster_id, node_id) != (self._cluster_id, self._broker_id):
            raise BrokerError(
                ErrorCode.REBOOTSTRAP_REQUIRED,
                f"this is node {self._broker_id} of cluster {self._cluster_id}, "
                f"not node {node_id} of cluster {cluster_id!r}",
            )

    @staticmethod
    def error_response(request: ApiVersionsRequest | None, code: ErrorCode) -> ApiVersionsResponse:
        """With UNSUPPORTED_VERSION the response lists the served versions of ApiVersions itself."""
        del request
        keys = [row for row in served() if row.api_key == ApiKey.API_VERSIONS]
        return ApiVersionsResponse(error_code=code, api_keys=keys if code == ErrorCode.UNSUPPORTED_VERSION else [])


def served(*, is_own: bool = False, takes_telemetry: bool = False) -> list[ApiVersion]:
    """One row per API that this broker serves; Sordini's own requests only for its own clients."""
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for _, api in sorted((ALL_APIS if is_own else APIS).items())
        if takes_telemetry or api.key not in TELEMETRY_APIS
    ]
