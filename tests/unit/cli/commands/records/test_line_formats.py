"""Lines to records and back; which brokers' bytes are an assignment; starting points; what is asked again."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.admin.partition_offsets import OffsetRange
from sordini.cli.commands.records.line_formats import (
    BadLine,
    LineFormat,
    OutgoingRecord,
    from_json,
    key_value_line,
    read_json,
    record_line,
    to_json,
    value_line,
    with_headers,
)
from sordini.cli.commands.records.record_consumer import start_in
from sordini.cli.common.command_cluster import command_cluster
from sordini.client.errors import Refused
from sordini.protocol.consumer_assignment import read_assignment, written_assignment
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from sordini.schemas.avro import AvroCodec


class Received(NamedTuple):
    key: bytes | None = None
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    topic: str = "t"
    partition: int = 3
    offset: int = 5
    timestamp: int = 1_000
    timestamp_type: int = 0


OPTIONAL = st.none() | st.binary()
RECORDS = st.builds(
    Received,
    key=OPTIONAL,
    value=OPTIONAL,
    headers=st.lists(st.tuples(st.text(), OPTIONAL), max_size=3).map(tuple),
    partition=st.integers(0, 9),
    timestamp=st.integers(-1, 2**50),
)


@given(RECORDS)
def test_what_consume_prints_in_json_produce_sends_again(record: Received) -> None:
    line = record_line(record)
    assert line.count(b"\n") == 1
    timestamp = None if record.timestamp == -1 else record.timestamp
    sent = OutgoingRecord(record.key, record.value, list(record.headers), record.partition, timestamp)
    assert read_json(line[:-1]) == sent


def test_a_tombstone_has_no_value_to_encode() -> None:
    key, value = from_json(AvroCodec("int")), from_json(AvroCodec("string"))
    line = record_line(Received(b"\x06", None), to_json(AvroCodec("int")), to_json(AvroCodec("string")))
    assert json.loads(line)["key"] == 3
    assert read_json(line, key, value)[:2] == (b"\x06", None)


def test_the_names_in_json_stay_the_same() -> None:
    assert json.loads(record_line(Received(b"\xff", None, (("h", b"1"),), timestamp_type=1))) == {
        "topic": "t",
        "partition": 3,
        "offset": 5,
        "timestamp": 1_000,
        "timestamp_type": "append",
        "key": {"base64": "/w=="},
        "value": None,
        "headers": [{"key": "h", "value": "1"}],
    }


@given(st.binary().filter(lambda key: b"::" not in key + b":"), st.binary())
def test_key_and_value_come_back_from_one_line(key: bytes, value: bytes) -> None:
    line = key_value_line(Received(key, value), b"::", b"null")
    read = LineFormat(b"::").read(line[:-1])
    assert (read.key, read.value) == (key, value)


def test_only_the_first_separator_ends_the_key() -> None:
    assert LineFormat(b":").read(b"k:v:w") == OutgoingRecord(b"k", b"v:w", [])


def test_a_null_value_differs_from_the_same_letters_as_a_key() -> None:
    assert LineFormat(b":", null_value=b"NULL").read(b"NULL:NULL") == OutgoingRecord(b"NULL", None, [])
    assert value_line(Received(value=None), b"NULL") == b"NULL\n"


def test_headers_stand_before_a_tab() -> None:
    form = LineFormat(b":", with_headers=True)
    assert form.read(b"a:1,b:\tk:v\tw") == OutgoingRecord(b"k", b"v\tw", [("a", b"1"), ("b", b"")])
    assert form.read(b"\tk:v") == OutgoingRecord(b"k", b"v", [])


def test_headers_for_every_record_stand_before_its_own() -> None:
    read = with_headers(read_json, [("all", b"1")])
    assert read(b'{"value":"v","headers":[{"key":"own","value":null}]}').headers == [("all", b"1"), ("own", None)]


@pytest.mark.parametrize(
    ("form", "line"),
    [(LineFormat(b":"), b"kv"), (LineFormat(with_headers=True), b"a:1"), (LineFormat(with_headers=True), b"a\tv")],
)
def test_a_line_without_its_parts_is_refused(form: LineFormat, line: bytes) -> None:
    with pytest.raises(BadLine):
        form.read(line)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"value":1,"partition":"0"}',
        b'{"value":1,"partition":-1}',
        b'{"value":1,"timestamp":true}',
        b'{"value":{"base64":"!"}}',
        b'{"value":1,"headers":[1]}',
        b'{"value":1,"headers":[{}]}',
        b"\xff",
    ],
)
def test_json_that_is_no_record_is_refused(line: bytes) -> None:
    with pytest.raises(BadLine):
        read_json(line)


def test_structures_in_json_are_sent_as_json() -> None:
    assert read_json(b'{"value": {"a": [1, "\xc3\xa9"]}, "key": 5}') == OutgoingRecord(
        b"5", '{"a":[1,"é"]}'.encode(), []
    )


NO_USER_DATA = b"\xff\xff\xff\xff"
ASSIGNMENTS = st.sets(st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 9)))


@given(ASSIGNMENTS, st.integers(0, 3), st.binary())
def test_an_assignment_is_read_whatever_follows_it(assigned: set[Any], version: int, rest: bytes) -> None:
    topics = [
        (name, [partition for topic, partition in assigned if topic == name])
        for name in sorted({topic for topic, _ in assigned})
    ]
    data = written_assignment(version, topics).removesuffix(NO_USER_DATA)
    assert read_assignment(data + rest) == sorted(TopicPartition(*one) for one in assigned)


def test_no_assignment_yet_is_none_of_the_partitions_and_other_bytes_are_unknown() -> None:
    assert read_assignment(b"") == []
    assert read_assignment(b"\x00\x01\x00") is None


@pytest.mark.parametrize(
    ("kind", "number", "offset"),
    [
        ("beginning", 0, 10),
        ("end", 0, 20),
        ("offset", 15, 15),
        ("offset", 5, 10),
        ("offset", 25, 20),
        ("last", 3, 17),
        ("last", 50, 10),
    ],
)
def test_reading_starts_within_the_log(kind: str, number: int, offset: int) -> None:
    assert start_in(OffsetRange(10, 20), kind, number) == offset


async def test_an_error_that_passes_is_tried_again_and_another_is_not() -> None:
    cluster = command_cluster([])
    answers = [ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_CONFIG]

    async def attempt() -> None:
        raise Refused("it", answers.pop(0))

    with pytest.raises(Refused, match="INVALID_CONFIG"):
        await cluster.retry(attempt)
    assert answers == []
    assert cluster.problem == "it: not controller (NOT_CONTROLLER)"
