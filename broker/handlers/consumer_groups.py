"""ConsumerGroupHeartbeat (KIP-848): refused in words, as groups are coordinated by the classic protocol only.

The request is listed in ApiVersions all the same. librdkafka with `group.protocol=consumer` looks for another
coordinator in silence, for ever, when it is not; to UNSUPPORTED_VERSION every client of that protocol has a fatal error
that names the setting.
"""

from __future__ import annotations

from sordini.broker.dispatch import Call, Route
from sordini.protocol.api import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

ONLY_CLASSIC = "this broker coordinates groups by the classic protocol only: set group.protocol=classic"


class ConsumerGroupsHandler:
    """Refuses members that expect the coordinator to assign partitions."""

    def route(self) -> Route:
        return Route(ApiKey.CONSUMER_GROUP_HEARTBEAT, self.heartbeat, self.error_response)

    def heartbeat(self, call: Call) -> ConsumerGroupHeartbeatResponse:
        return self.error_response(call.body, ErrorCode.UNSUPPORTED_VERSION)

    @staticmethod
    def error_response(_request: ConsumerGroupHeartbeatRequest, code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
        message = ONLY_CLASSIC if code == ErrorCode.UNSUPPORTED_VERSION else None
        return ConsumerGroupHeartbeatResponse(error_code=code, error_message=message)
