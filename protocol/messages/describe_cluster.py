"""DescribeCluster: the cluster's id, controller and brokers, for administration tools (KIP-700).

v1 can be sent to a KRaft controller (KIP-919); v2 returns fenced brokers as well (KIP-1073).
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.messages.metadata import OPERATIONS_UNKNOWN
from sordini.protocol.primitives import Array, Bool, Int8, Int16, Int32, NullableString, String


@message(versions=range(3), flexible=0)
class DescribeClusterRequest:
    """What is requested."""

    include_cluster_authorized_operations: Bool = False
    endpoint_type: Int8 = since(1, default=1)  # 1: brokers; 2: KRaft controllers.
    include_fenced_brokers: Bool = since(2, default=False)


@message(versions=range(3), flexible=0)
class DescribeClusterResponse:
    """The cluster as this broker knows it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    endpoint_type: Int8 = since(1, default=1)
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: Array[DescribeClusterBroker] = EMPTY
    cluster_authorized_operations: Int32 = OPERATIONS_UNKNOWN


@struct
class DescribeClusterBroker:
    """One broker, at its address for the listener of the request."""

    broker_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: NullableString = None
    is_fenced: Bool = since(2, default=False)
