"""Every request that can be sent: what our brokers serve, and what only others do. Pure.

A broker answers ApiVersions with what it serves, so that a request which it does not know is never sent to it.
"""

from __future__ import annotations

from typing import Final

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.declare import flexible_from, versions_of
from sordini.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
)
from sordini.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
)
from sordini.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
)
from sordini.protocol.messages.describe_share_in_flight import (
    DescribeShareInFlightRequest,
    DescribeShareInFlightResponse,
)
from sordini.protocol.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from sordini.protocol.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from sordini.protocol.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from sordini.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from sordini.protocol.served_apis import ALL_APIS, Api


def _sent(key: ApiKey, request: type, response: type) -> Api:
    versions = versions_of(request)
    return Api(key, request, response, versions[0], versions[-1], flexible_from(request))


SENT_APIS: Final[dict[int, Api]] = {
    api.key: api
    for api in (
        _sent(ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse),
        _sent(ApiKey.SHARE_GROUP_DESCRIBE, ShareGroupDescribeRequest, ShareGroupDescribeResponse),
        _sent(ApiKey.SHARE_FETCH, ShareFetchRequest, ShareFetchResponse),
        _sent(ApiKey.SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest, ShareAcknowledgeResponse),
        _sent(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse),
        _sent(ApiKey.ALTER_SHARE_GROUP_OFFSETS, AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse),
        _sent(ApiKey.DELETE_SHARE_GROUP_OFFSETS, DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse),
        _sent(ApiKey.DESCRIBE_SHARE_IN_FLIGHT, DescribeShareInFlightRequest, DescribeShareInFlightResponse),
    )
} | ALL_APIS
