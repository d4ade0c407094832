"""Keys and values alone, beside the reader that knows the rest, too."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import HEADER_SIZE, Record, assemble_batch, build_batch, read_header, read_records
from sordini.protocol.records.key_values import read_pairs

CONTENT = st.none() | st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(st.integers(0, 2**40), CONTENT, CONTENT, st.lists(st.tuples(st.text(max_size=3), CONTENT), max_size=2)),
    min_size=1,
    max_size=200,
)


@given(RECORDS, st.integers(0, 4))
def test_pairs_are_those_of_the_whole_records(
    rows: list[tuple[int, bytes, bytes, list[tuple[str, bytes]]]], codec: int
) -> None:
    records = [
        Record(index, time, key, value, tuple(headers)) for index, (time, key, value, headers) in enumerate(rows)
    ]
    batch = memoryview(build_batch(records, codec=codec))
    header = read_header(batch)
    assert read_pairs(batch, header) == [(record.key, record.value) for record in read_records(batch, header)]


@given(st.binary(max_size=80), st.integers(1, 5))
def test_bytes_are_as_many_records_as_are_said_to_be_there_or_none(body: bytes, count: int) -> None:
    header = read_header(build_batch([Record(0, 0, b"k", b"v")]))._replace(record_count=count)
    batch = memoryview(assemble_batch(header, body))
    found: list[object] = []
    with suppress(BrokerError):
        found += read_pairs(batch, read_header(batch))
    assert len(found) in (0, count)


@pytest.mark.parametrize("cut", range(1, 9))
def test_a_record_that_ends_too_early_is_refused(cut: int) -> None:
    whole = build_batch([Record(0, 0, b"k", b"v")])
    header = read_header(whole)
    batch = memoryview(whole[:-cut])
    assert len(batch) >= HEADER_SIZE
    with pytest.raises(BrokerError, match="a record is damaged"):
        read_pairs(batch, header)
