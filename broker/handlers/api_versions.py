"""ApiVersions: what this broker speaks, asked before anything else (KIP-35, KIP-511)."""

from __future__ import annotations

import re

from sordini.broker.dispatch import Call, Route
from sordini.protocol.api import APIS, ApiKey
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

NODE_UNKNOWN = -1
SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersionsHandler:
    """Answers from `protocol.api`'s table, and remembers what the client says of itself.

    A client that names the cluster and the broker it means to reach, and has reached another, is refused with
    REBOOTSTRAP_REQUIRED: its address book is wrong, and it begins again with its bootstrap addresses (KIP-1242).
    """

    def __init__(self, cluster_id: str, broker_id: int) -> None:
        self._cluster_id = cluster_id
        self._broker_id = broker_id

    def route(self) -> Route:
        return Route(ApiKey.API_VERSIONS, self.handle, self.refuse)

    def handle(self, call: Call) -> ApiVersionsResponse:
        request: ApiVersionsRequest = call.body
        if call.version >= 3:
            name, version = request.client_software_name, request.client_software_version
            if not SOFTWARE_NAME.fullmatch(name) or not SOFTWARE_NAME.fullmatch(version):
                raise BrokerError(ErrorCode.INVALID_REQUEST, "the client's software name or version is malformed")
            call.peer.software_name = name
            call.peer.software_version = version
        self._check_destination(request)
        return ApiVersionsResponse(api_keys=served(), finalized_features_epoch=0)

    def _check_destination(self, request: ApiVersionsRequest) -> None:
        """Raise BrokerError unless the client means this broker, or names none (as in every version before 5)."""
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
    def refuse(request: ApiVersionsRequest | None, code: ErrorCode) -> ApiVersionsResponse:
        """With UNSUPPORTED_VERSION the client learns which versions of ApiVersions itself it may use."""
        del request
        keys = [row for row in served() if row.api_key == ApiKey.API_VERSIONS]
        return ApiVersionsResponse(error_code=code, api_keys=keys if code == ErrorCode.UNSUPPORTED_VERSION else [])


def served() -> list[ApiVersion]:
    """One row per API that this broker answers."""
    return [
        ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
        for _, api in sorted(APIS.items())
    ]
