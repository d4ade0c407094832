"""What a search finds, and what is kept of large records."""

from __future__ import annotations

import pytest

from sordini.admin.records.seen_records import (
    ABORT_MARKER,
    ABORTED,
    COMMIT_MARKER,
    HEADERS_KEPT,
    KEPT_BYTES,
    RECORD,
    RecordFilter,
    path_steps,
    records_of,
)
from sordini.protocol.records.aborted_transactions import Aborted
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.returned_records import seen_batches
from sordini.protocol.types import TopicPartition

RECORDS = Record(
    0, 0, b"the key", b'{"customer": {"id": "c7"}, "items": [{"n": 1.50}], "none": null}', (("trace", b"abc"),)
)


@pytest.mark.parametrize(
    ("where", "text", "expected"),
    [
        ("any", "key", True),
        ("any", "c7", True),
        ("any", "trace", True),
        ("any", "abc", True),
        ("any", "missing", False),
        ("key", "the", True),
        ("key", "customer", False),
        ("value", "customer", True),
        ("value", "the key", False),
        ("header", "trace", True),
        ("header", "abc", True),
        ("header", "customer", False),
        ("json", "$.customer.id", True),
        ("json", "customer.id=c7", True),
        ("json", "customer.id=c8", False),
        ("json", "items[0].n=1.50", True),
        ("json", "items[1]", False),
        ("json", "none=null", True),
        ("json", "customer.id.more", False),
        ("json", "none.more", False),
    ],
)
def test_a_filter_finds_what_is_in_its_part(where: str, text: str, expected: bool) -> None:
    assert RecordFilter(text, where).finds(RECORDS) is expected
    assert RecordFilter("", where).finds(RECORDS)


@pytest.mark.parametrize("value", [None, b"", b"no json", b"[" * 100_000, b"\xff", b"5", b'"text"'])
def test_what_is_no_such_json_is_not_found_and_no_error(value: bytes | None) -> None:
    assert not RecordFilter("a.b[0]", "json").finds(Record(0, 0, None, value))


@pytest.mark.parametrize("path", ["", "$", "a..b", "a[b]", "a[-1]", "[", "a" + ".a" * 50])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path"):
        path_steps(path)


def test_a_large_record_is_cut_and_its_sizes_are_known() -> None:
    headers = tuple((f"h{number}", b"x" * (KEPT_BYTES + 1)) for number in range(HEADERS_KEPT + 7))
    record = Record(0, 1, b"k" * (KEPT_BYTES + 1), b"v" * (3 * KEPT_BYTES), headers)
    (batch,) = seen_batches(build_batch([record]), 0, ())
    ((whole, seen),) = records_of(TopicPartition("orders", 4), batch)
    assert whole is not None
    assert (len(seen.key or b""), seen.key_size) == (KEPT_BYTES, KEPT_BYTES + 1)
    assert (len(seen.value or b""), seen.value_size) == (KEPT_BYTES, 3 * KEPT_BYTES)
    assert (len(seen.headers), seen.headers_omitted) == (HEADERS_KEPT, 7)
    assert max(len(value or b"") for _, value in seen.headers) == KEPT_BYTES
    assert len(whole.value or b"") == 3 * KEPT_BYTES


def test_markers_and_aborted_records_have_their_kinds() -> None:
    def batch(offset: int, producer: int) -> bytes:
        records = [Record(offset, 5, None, b"v")]
        return build_batch(records, base_offset=offset, producer_id=producer, producer_epoch=0, transactional=True)

    def marker(offset: int, producer: int, kind: int) -> bytes:
        return bytes(
            build_marker(Marker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=5, base_offset=offset)
        )

    data = batch(0, 1) + batch(1, 2) + marker(2, 1, ABORT) + marker(3, 2, COMMIT) + batch(4, 1) + marker(5, 1, COMMIT)
    found = [
        seen
        for one in seen_batches(data, 0, [Aborted(1, 0)])
        for _, seen in records_of(TopicPartition("orders", 0), one)
    ]
    assert [(seen.offset, seen.kind) for seen in found] == [
        (0, ABORTED),
        (1, RECORD),
        (2, ABORT_MARKER),
        (3, COMMIT_MARKER),
        (4, RECORD),
        (5, COMMIT_MARKER),
    ]
    assert [seen.producer_id for seen in found] == [1, 2, 1, 2, 1, 1]
