"""ListConfigResources: the resources that have configurations (KIP-1142).

v0 is Apache Kafka 3.9's ListClientMetricsResources (KIP-714), which lists subscriptions to client metrics only; v1
lists every kind.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import Array, Int8, Int16, Int32, String


@message(versions=range(2), flexible=0)
class ListConfigResourcesRequest:
    """The kinds wanted; none means all of them."""

    resource_types: Array[Int8] = since(1, default=EMPTY)


@message(versions=range(2), flexible=0)
class ListConfigResourcesResponse:
    """The resources."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Array[ConfigResource] = EMPTY


@struct
class ConfigResource:
    """One resource; without a type it is client metrics (16)."""

    resource_name: String = ""
    resource_type: Int8 = since(1, default=16)
