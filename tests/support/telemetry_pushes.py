"""Pushes of clients: MetricsData as clients of Kafka make it, and the requests around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from sordini.protocol.messages.push_telemetry import PushTelemetryRequest
from sordini.protocol.primitives import ZERO_UUID
from sordini.protocol.types import TopicId, topic_id_from_text
from tests.support.unit_broker import UnitBroker

DELTA, CUMULATIVE = 1, 2
LAG_MAX = "org.apache.kafka.consumer.fetch.manager.records.lag.max"
ON = {"sordini.client.telemetry.enable": "true"}


def an_id(number: int) -> TopicId:
    """The id of an instance."""
    return TopicId(number.to_bytes(16, "big"))


def id_of(text: str) -> TopicId:
    return topic_id_from_text(text)


def a_metric(data: MetricsData, name: str) -> Metric:
    """One more metric, with a resource of its own as Java's client has it."""
    metric = data.resource_metrics.add().scope_metrics.add().metrics.add()
    metric.name = name
    return metric


def add_point(points: Any, value: float, labels: Mapping[str, str] | None = None) -> Any:
    point = points.add()
    if isinstance(value, int):
        point.as_int = value
    else:
        point.as_double = value
    for key, text in (labels or {}).items():
        attribute = point.attributes.add()
        attribute.key, attribute.value.string_value = key, text
    return point


def gauges(values: Mapping[str, float], labels: Mapping[str, str] | None = None) -> bytes:
    data = MetricsData()
    for name, value in values.items():
        add_point(a_metric(data, name).gauge.data_points, value, labels)
    return data.SerializeToString()


def name_resource(data: MetricsData, attributes: Mapping[str, str]) -> None:
    """What Java's clients say of themselves with each metric."""
    for resource in data.resource_metrics:
        for key, text in attributes.items():
            attribute = resource.resource.attributes.add()
            attribute.key, attribute.value.string_value = key, text


def sums(values: Mapping[str, float], temporality: int = DELTA) -> bytes:
    data = MetricsData()
    for name, value in values.items():
        metric = a_metric(data, name)
        metric.sum.aggregation_temporality = temporality  # type: ignore[assignment]
        add_point(metric.sum.data_points, value)
    return data.SerializeToString()


def ask(broker: UnitBroker, instance_id: bytes = ZERO_UUID, **header: Any) -> Any:
    request = GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)
    return broker.ask(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, request, **header)


def push_request(given: Any, metrics: bytes = b"", **fields: Any) -> PushTelemetryRequest:
    """A push for the subscription that a client was given of."""
    named = {"client_instance_id": given.client_instance_id, "subscription_id": given.subscription_id, **fields}
    return PushTelemetryRequest(metrics=metrics, **named)


def push(broker: UnitBroker, given: Any, **fields: Any) -> int:
    """The error of a push without metrics, or of one that is refused: it is answered at once."""
    code: int = broker.ask(ApiKey.PUSH_TELEMETRY, 0, push_request(given, **fields)).error_code
    return code


async def push_metrics(broker: UnitBroker, given: Any, metrics: bytes, **fields: Any) -> int:
    """The error of a push whose metrics are read."""
    answer = await broker.ask_later(ApiKey.PUSH_TELEMETRY, 0, push_request(given, metrics, **fields))
    code: int = answer.error_code
    return code
