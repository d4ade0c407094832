"""Pushes read as values: by this process, and by a child that hostile bytes may harm (KIP-714)."""

from __future__ import annotations

import gzip
import math
import sys

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

from sordini.broker.metrics.telemetry.child import answer, decoded_as_json, decoded_from_json
from sordini.broker.metrics.telemetry.decoding import (
    LABELS_CHARACTERS_MAX,
    LABELS_MAX,
    NAME_MAX,
    POINTS_MAX,
    decode_push,
)
from sordini.broker.metrics.telemetry.machine.figures import FIGURES_PER_CLIENT_MAX, FigureKind, Name, PushedValue
from sordini.broker.metrics.telemetry.reader_process import PushReaderProcess
from sordini.protocol.errors import BrokerError, ErrorCode
from tests.support.telemetry_pushes import CUMULATIVE, DELTA, a_metric, add_point, gauges, name_resource, sums

MIB = 1024 * 1024
GAUGE, TOTAL = FigureKind.GAUGE, FigureKind.TOTAL
DIES = (sys.executable, "-c", "import sys; sys.stdin.buffer.read(8); sys.exit(3)")
HANGS = (sys.executable, "-c", "import sys; sys.stdin.buffer.read()")
_LIE = """
import struct, sys
sys.stdin.buffer.read(8)
text = b'{"values": [[1]], "dropped": 0}'
sys.stdout.buffer.write(struct.pack(">II", len(text), 0) + text)
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""
LIES = (sys.executable, "-c", _LIE)


def decoded(data: bytes) -> list[PushedValue]:
    return decode_push(0, data, MIB).values


def test_gauges_and_sums_are_read_with_their_attributes_sorted() -> None:
    labels = {"topic": "orders", "partition": "3"}
    name = Name("lag", (("partition", "3"), ("topic", "orders")))
    assert decoded(gauges({"lag": 7.5}, labels)) == [PushedValue(name, GAUGE, 7.5)]
    assert decoded(sums({"n": 3}, DELTA)) == [PushedValue(Name("n", ()), FigureKind.DELTA, 3.0)]
    assert decoded(sums({"n": 3}, CUMULATIVE)) == [PushedValue(Name("n", ()), TOTAL, 3.0)]


def test_attributes_of_other_types_are_text() -> None:
    data = MetricsData()
    point = add_point(a_metric(data, "a").gauge.data_points, 1.0)
    for key in ("i", "b", "d", "l"):
        point.attributes.add().key = key
    point.attributes[0].value.int_value = 5
    point.attributes[1].value.bool_value = True
    point.attributes[2].value.double_value = 0.5
    point.attributes[3].value.array_value.values.add().int_value = 1
    (value,) = decoded(data.SerializeToString())
    assert value.name.labels == (("b", "True"), ("d", "0.5"), ("i", "5"), ("l", ""))


@pytest.mark.parametrize(
    ("attributes", "member"),
    [
        ({"group_id": "billing", "group_member_id": "m-1", "client_rack": "a"}, ("billing", "m-1")),
        ({"group_id": "billing"}, None),
        ({"group_id": "billing", "group_member_id": "x" * (NAME_MAX + 1)}, None),
        ({}, None),
    ],
)
def test_the_group_is_what_the_resource_says_of_it(attributes: dict[str, str], member: tuple[str, str] | None) -> None:
    data = MetricsData()
    data.ParseFromString(gauges({"a": 1.0, "b": 2.0}))
    name_resource(data, attributes)
    found = decode_push(0, data.SerializeToString(), MIB)
    assert found.member == member
    assert decoded_from_json(decoded_as_json(found)) == found


def test_a_histogram_is_its_count_and_its_sum() -> None:
    data = MetricsData()
    histogram = a_metric(data, "h").histogram
    histogram.aggregation_temporality = CUMULATIVE  # type: ignore[assignment]
    point = histogram.data_points.add()
    point.count, point.sum = 4, 2.5
    assert decoded(data.SerializeToString()) == [
        PushedValue(Name("h.count", ()), TOTAL, 4.0),
        PushedValue(Name("h.sum", ()), TOTAL, 2.5),
    ]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_no_value(number: float) -> None:
    found = decode_push(0, gauges({"a": number, "b": 1.0}), MIB)
    assert ([value.name.metric for value in found.values], found.dropped) == (["b"], 0)


@pytest.mark.parametrize(
    "data",
    [
        gauges({"x" * (NAME_MAX + 1): 1.0}),
        gauges({"a": 1.0}, {str(number): "" for number in range(LABELS_MAX + 1)}),
        gauges({"a": 1.0}, {"k": "x" * LABELS_CHARACTERS_MAX}),
    ],
)
def test_names_and_attributes_that_are_too_long_are_dropped_and_counted(data: bytes) -> None:
    found = decode_push(0, data + gauges({"b": 1.0}), MIB)
    assert ([value.name.metric for value in found.values], found.dropped) == (["b"], 1)


def test_values_beyond_the_bound_are_not_looked_at() -> None:
    empty = b"\x0a\x00"  # A resource without metrics.
    found = decode_push(0, gauges({"a": 1.0}) + empty * POINTS_MAX + gauges({"b": 1.0}), MIB)
    assert ([value.name.metric for value in found.values], found.dropped) == (["a"], POINTS_MAX)


def test_no_more_values_are_read_than_are_kept_of_a_client() -> None:
    found = decode_push(0, gauges({f"m{number}": 1.0 for number in range(FIGURES_PER_CLIENT_MAX + 2)}), MIB)
    assert (len(found.values), found.dropped) == (FIGURES_PER_CLIENT_MAX, 2)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_bytes_that_are_not_of_the_codec_are_refused(codec: int) -> None:
    with pytest.raises(BrokerError) as refused:
        decode_push(codec, b"these are not of the codec", MIB)
    assert refused.value.code == ErrorCode.INVALID_RECORD


def test_what_expands_to_the_bound_is_read_and_one_byte_more_is_refused() -> None:
    metrics = gauges({"a": 1.0})
    padded = metrics + b"\x0a\x00" * ((1000 - len(metrics)) // 2)
    assert decode_push(1, gzip.compress(padded), len(padded)).values
    with pytest.raises(BrokerError, match="expand to more than"):
        decode_push(1, gzip.compress(padded), len(padded) - 1)


def test_values_survive_the_way_from_the_child() -> None:
    found = decode_push(0, gauges({"a": 1.5}, {"k": "ä"}) + sums({"n": 1}), MIB)
    assert decoded_from_json(decoded_as_json(found)) == found


async def test_a_child_reads_one_push_after_another_and_says_what_it_took() -> None:
    reader = PushReaderProcess()
    try:
        for number in (1.0, 2.0):
            done = await reader.read(1, gzip.compress(gauges({"a": number})), MIB)
            assert [value.value for value in done.decoded.values] == [number]
            assert done.cpu_ms >= 0
        with pytest.raises(BrokerError, match="no OpenTelemetry MetricsData"):
            await reader.read(0, b"\xff\xff", MIB)
        assert (await reader.read(0, b"", MIB)).decoded.values == []
        assert reader.died == 0
    finally:
        await reader.close()


@pytest.mark.parametrize("command", [DIES, LIES])
async def test_a_child_that_dies_or_lies_is_replaced_and_the_client_is_to_push_later(command: tuple[str, ...]) -> None:
    reader = PushReaderProcess(command)
    try:
        with pytest.raises(BrokerError) as refused:
            await reader.read(0, gauges({"a": 1.0}), MIB)
        assert (refused.value.code, reader.died) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1)
    finally:
        await reader.close()


async def test_a_child_that_hangs_is_ended() -> None:
    reader = PushReaderProcess(HANGS, patience_s=0.1)
    try:
        with pytest.raises(BrokerError, match="no answer after") as refused:
            await reader.read(0, gauges({"a": 1.0}), MIB)
        assert (refused.value.code, reader.died) == (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1)
    finally:
        await reader.close()


async def test_a_push_that_takes_too_long_is_refused_and_the_child_goes_on() -> None:
    reader = PushReaderProcess(cpu_ms=1)
    many = MetricsData()
    points = a_metric(many, "a").gauge.data_points
    for number in range(POINTS_MAX):
        add_point(points, float(number), {"k": str(number)})
    try:
        with pytest.raises(BrokerError, match="processor time"):
            await reader.read(0, many.SerializeToString(), MIB)
        assert reader.died == 0
    finally:
        await reader.close()


def test_a_bug_is_answered_as_one() -> None:
    assert "bug" in answer({"cpu_ms": 1000, "codec": 0}, b"")
