"""A push's bytes as values: decompressed within a bound, and read as OpenTelemetry's MetricsData.

    push_bytes  ──  decompressed, at most `bytes_max`  ──  protobuf  ──  gauges, sums, histograms' counts and sums

Looked at are POINTS_MAX values at most, and read as many as are kept of one client, with names and attributes of
bounded length; what is beyond is counted. So the broker's own part of a push, which is on the loop, is bounded, too.
Values that are no finite number are no values: clients push NaN for an average of nothing. The package
opentelemetry-proto is imported with the first push, and only in the process that reads pushes (`child.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from sordini.broker.metrics.telemetry.machine.figures import (
    FIGURES_PER_CLIENT_MAX,
    Decoded,
    FigureKind,
    GroupMember,
    Name,
    PushedValue,
)
from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records.compression import NO_CODEC
from sordini.protocol.records.expansion import decompress

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, MetricsData

POINTS_MAX: Final = 10_000
"""Looked at in one push; a client of today has some hundreds."""
NAME_MAX: Final = 256
LABELS_MAX: Final = 16
LABELS_CHARACTERS_MAX: Final = 1_024
"""Of all labels of a value together."""
MEMBER_ATTRIBUTES: Final = ("group_id", "group_member_id")
"""Of KIP-714's resource."""
PACKAGE: Final = "opentelemetry.proto.metrics.v1"
CUMULATIVE: Final = 2
"""OpenTelemetry's AGGREGATION_TEMPORALITY_CUMULATIVE."""


def is_available() -> bool:
    """Whether pushes can be read: the extra `telemetry` is installed."""
    try:
        return find_spec(PACKAGE) is not None
    except ModuleNotFoundError:
        return False


def decode_push(codec: int, data: bytes | bytearray | memoryview, bytes_max: int) -> Decoded:
    """Read a push. Raises BrokerError INVALID_RECORD, also for what expands to more than `bytes_max` bytes.

    Clients understand that answer as final. Apache Kafka gives it, too, for whatever its receivers of metrics raise.
    """
    try:
        expanded = bytes(data) if codec == NO_CODEC else decompress(codec, memoryview(data), bytes_max)
    except BrokerError as error:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"the metrics cannot be decompressed: {error}") from None
    values: list[PushedValue] = []
    dropped = 0
    message = _parsed(expanded)
    for number, value in enumerate(_values(message)):
        if number >= POINTS_MAX:
            dropped += 1  # At least: those behind are not counted.
            break
        if value is None or len(values) >= FIGURES_PER_CLIENT_MAX:
            dropped += 1
        elif math.isfinite(value.value):
            values.append(value)
    return Decoded(values, dropped, _member(message))


def _parsed(expanded: bytes) -> MetricsData:
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    message = MetricsData()
    try:
        message.ParseFromString(expanded)
    except DecodeError as error:
        raise BrokerError(ErrorCode.INVALID_RECORD, f"the metrics are no OpenTelemetry MetricsData: {error}") from None
    return message


def _member(message: MetricsData) -> GroupMember | None:
    """By the attributes of the first resource: Java's clients name them in each, librdkafka's in none."""
    for resource in message.resource_metrics[:1]:
        named = {one.key: _text(one) for one in resource.resource.attributes[:LABELS_MAX]}
        texts = [named.get(key, "") for key in MEMBER_ATTRIBUTES]
        if all(0 < len(text) <= NAME_MAX for text in texts):
            return GroupMember(*texts)
    return None


def _values(message: MetricsData) -> Iterator[PushedValue | None]:
    """All values; None for one that is not kept, and for every part without any, which takes time, too."""
    for resource in message.resource_metrics:
        if not resource.scope_metrics:
            yield None
        for scope in resource.scope_metrics:
            if not scope.metrics:
                yield None
            for metric in scope.metrics:
                yield from _of_metric(metric)


def _of_metric(metric: Metric) -> Iterator[PushedValue | None]:
    kind = metric.WhichOneof("data")
    if kind is None or len(metric.name) > NAME_MAX:
        yield None
    elif kind == "gauge":
        for point in metric.gauge.data_points:
            yield _value(metric.name, point.attributes, FigureKind.GAUGE, _number(point))
    elif kind == "sum":
        is_total = metric.sum.aggregation_temporality == CUMULATIVE
        for point in metric.sum.data_points:
            sort = FigureKind.TOTAL if is_total else FigureKind.DELTA
            yield _value(metric.name, point.attributes, sort, _number(point))
    else:
        yield from _of_distribution(metric, kind)


def _of_distribution(metric: Metric, kind: str) -> Iterator[PushedValue | None]:
    """A histogram or summary as its count and its sum."""
    distribution: Any = getattr(metric, kind)
    is_delta = kind != "summary" and distribution.aggregation_temporality != CUMULATIVE
    sort = FigureKind.DELTA if is_delta else FigureKind.TOTAL
    for point in distribution.data_points:
        yield _value(f"{metric.name}.count", point.attributes, sort, float(point.count))
        yield _value(f"{metric.name}.sum", point.attributes, sort, float(point.sum))


def _number(point: Any) -> float:
    """Not a number where a point has no value."""
    which = point.WhichOneof("value")
    return math.nan if which is None else float(getattr(point, which))


def _value(name: str, attributes: Any, kind: FigureKind, number: float) -> PushedValue | None:
    if len(attributes) > LABELS_MAX:
        return None
    labels = tuple(sorted((one.key, _text(one)) for one in attributes))
    if sum(len(key) + len(text) for key, text in labels) > LABELS_CHARACTERS_MAX:
        return None
    return PushedValue(Name(name, labels), kind, number)


def _text(attribute: KeyValue) -> str:
    """The value of an attribute; lists and maps of values have none."""
    kind = attribute.value.WhichOneof("value")
    if kind == "string_value":
        return str(attribute.value.string_value)
    if kind in ("bool_value", "int_value", "double_value"):
        return str(getattr(attribute.value, kind))
    return ""
