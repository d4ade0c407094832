"""The header of a registered value, and the indexes of Protobuf."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.schemas.codecs import ValueRefused
from sordini.schemas.registered.wire import (
    HEADER_BYTES,
    INDEXES_MAX,
    SCHEMA_ID_MAX,
    read_header,
    read_indexes,
    write_header,
    write_indexes,
)

IDS = st.integers(0, SCHEMA_ID_MAX)
INDEXES = st.lists(st.integers(0, SCHEMA_ID_MAX), min_size=1, max_size=INDEXES_MAX)


@given(IDS, st.binary(max_size=20))
def test_a_header_that_was_written_is_read(schema_id: int, rest: bytes) -> None:
    framed = read_header(write_header(schema_id) + rest)
    assert framed == (schema_id, HEADER_BYTES)


@given(IDS, INDEXES, st.binary(max_size=20))
def test_indexes_that_were_written_are_read(schema_id: int, indexes: list[int], rest: bytes) -> None:
    data = write_header(schema_id) + write_indexes(indexes) + rest
    read = read_indexes(data)
    assert read.indexes == tuple(indexes)
    assert data[read.start :] == rest


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (read_header, read_indexes):
        try:
            start = read(data).start
        except ValueRefused:
            continue
        assert start <= len(data)


@given(st.binary(max_size=40))
def test_indexes_that_were_read_are_written_in_no_more_bytes(data: bytes) -> None:
    try:
        read = read_indexes(data, 0)
    except ValueRefused:
        return
    assert len(write_indexes(read.indexes)) <= read.start


def test_the_bytes_are_those_of_the_published_format() -> None:
    assert write_header(258) == b"\x00\x00\x00\x01\x02"
    assert write_indexes([0]) == b"\x00"
    assert write_indexes([1]) == b"\x02\x02"
    assert write_indexes([1, 0]) == b"\x04\x02\x00"
    assert write_indexes([64]) == b"\x02\x80\x01"
    assert read_indexes(b"\x02\x00", 0).indexes == (0,)  # Also what a client writes that knows no short form.


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x00\x00\x00\x01", "4 bytes"),
        (b"\x01\x00\x00\x00\x01", "the first byte is 1"),
        (b"\x00\xff\xff\xff\xff", "no id"),
    ],
)
def test_bytes_without_a_header_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ValueRefused, match=reason):
        read_header(data)


@pytest.mark.parametrize("data", [b"", b"\x02", b"\x01", b"\xff\xff\xff\xff\xff\x01", b"\x02\x01", b"\xca\x01"])
def test_indexes_that_end_too_early_or_are_negative_or_too_many_are_refused(data: bytes) -> None:
    with pytest.raises(ValueRefused):
        read_indexes(data, 0)
