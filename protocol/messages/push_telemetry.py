"""PushTelemetry: a client's metrics, as OpenTelemetry's MetricsData v1 in protobuf (KIP-714)."""

from __future__ import annotations

from sordini.protocol.codecs import message
from sordini.protocol.primitives import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, Uuid


@message(versions=range(1), flexible=0)
class PushTelemetryRequest:
    """One push, for the subscription that the client was told of last."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False  # The last push of this instance, which need not wait for the interval.
    compression_type: Int8 = 0
    metrics: Bytes = b""


@message(versions=range(1), flexible=0)
class PushTelemetryResponse:
    """Whether it was accepted."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
