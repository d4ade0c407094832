"""DescribeClientInstances: the clients that push their metrics to a broker (KIP-714). Sordini's own request.

Apache Kafka has no such request. Rows come in the order of the instance ids, so that a client reads them page by page:
it sends the last id that it got. Times are in milliseconds since the epoch; -1 is never. v1 names the group of a
client, and can select by it and by the metric.
"""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message, since, struct
from sordini.protocol.primitives import (
    ZERO_UUID,
    Array,
    Bool,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
)


@message(versions=range(2), flexible=0)
class DescribeClientInstancesRequest:
    """One instance, or those behind an id."""

    client_instance_id: Uuid = ZERO_UUID  # Zeros for all.
    after: Uuid = ZERO_UUID
    instances_max: Int32 = 100  # The broker sends fewer if it has a lower limit.
    has_all_figures: Bool = False  # Otherwise only those that are of importance to every client.
    group_id: NullableString = since(1, nullable=1, default=None)  # Only members of this group.
    metric: NullableString = since(1, nullable=1, default=None)  # Only this metric, whatever else is said.


@message(versions=range(2), flexible=0)
class DescribeClientInstancesResponse:
    """What the broker knows of them."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    is_enabled: Bool = False  # Whether clients may push to this broker at all.
    has_more: Bool = False
    instances: Array[ClientInstanceRow] = EMPTY


@struct
class ClientInstanceRow:
    """One instance of a client."""

    client_instance_id: Uuid = ZERO_UUID
    client_id: String = ""
    software_name: String = ""
    software_version: String = ""
    address: String = ""
    port: Int32 = -1
    group_id: String = since(1, default="")  # As the client names it, as the next.
    group_member_id: String = since(1, default="")
    principal: String = ""
    subscription_id: Int32 = 0
    push_interval_ms: Int32 = 0
    metrics: Array[String] = EMPTY
    first_seen_at_ms: Int64 = -1
    last_push_at_ms: Int64 = -1
    pushes: Int64 = 0
    pushed_bytes: Int64 = 0
    last_error: Int16 = 0
    is_terminating: Bool = False
    figures_dropped: Int32 = 0
    figures: Array[ClientFigureRow] = EMPTY


@struct
class ClientFigureRow:
    """The newest value of one metric."""

    name: String = ""
    labels: Array[ClientFigureLabel] = EMPTY
    kind: Int8 = 0  # 0 a value as it is, 1 a total.
    value: Float64 = 0.0
    at_ms: Int64 = -1


@struct
class ClientFigureLabel:
    """What tells a metric from others of the same name."""

    key: String = ""
    value: String = ""
