"""GetTelemetrySubscriptions: which of its metrics a client pushes, and how often (KIP-714)."""

from __future__ import annotations

from sordini.protocol.codecs import EMPTY, message
from sordini.protocol.primitives import ZERO_UUID, Array, Bool, Int8, Int16, Int32, String, Uuid


@message(versions=range(1), flexible=0)
class GetTelemetrySubscriptionsRequest:
    """A client without an id of its instance sends zeros and is given one."""

    client_instance_id: Uuid = ZERO_UUID


@message(versions=range(1), flexible=0)
class GetTelemetrySubscriptionsResponse:
    """The subscriptions that match the client, as one."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0  # Another one as soon as the subscriptions that match are others.
    accepted_compression_types: Array[Int8] = EMPTY  # The preferred one first; none at all is always accepted.
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False  # Counters are pushed as what was added since the last push.
    requested_metrics: Array[String] = EMPTY  # Prefixes of names; none: nothing is pushed, `*`: everything is.
