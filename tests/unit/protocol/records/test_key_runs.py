"""Records of common shapes, handled by columns, give what reading them one by one gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError
from sordini.protocol.records import key_runs
from sordini.protocol.records.batch import HEADER_SIZE, Record, build_batch, read_header, read_records
from sordini.protocol.records.batch_filter import Keys, batch_with_some_records, expand, read_expanded, read_keys
from sordini.protocol.records.key_runs import RECORDS_MIN, find_runs

BASE_MS = 1_700_000_000_000


def body_of(records: list[Record]) -> bytes:
    return build_batch(records)[HEADER_SIZE:]


def regular(
    count: int,
    *,
    key_size: int | None = 8,
    value_size: int | None = 20,
    step_ms: int = 1,
    gap: int = 1,
    headers: int = 0,
) -> list[Record]:
    return [
        Record(
            number * gap,
            BASE_MS + number * step_ms,
            None if key_size is None else (b"%d" % number).rjust(key_size)[:key_size],
            None if value_size is None else (b"%d" % number).rjust(value_size)[:value_size],
            (("h", b"%04d" % number), ("null", None))[:headers],
        )
        for number in range(count)
    ]


REGULAR = st.builds(
    regular,
    st.integers(RECORDS_MIN, 260),
    key_size=st.sampled_from([None, 0, 8, 16, 70]),
    value_size=st.sampled_from([None, 0, 20, 90]),
    step_ms=st.sampled_from([-1, 0, 1, 3, 200]),
    gap=st.sampled_from([1, 2, 7]),
    headers=st.integers(0, 2),
)
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.sampled_from(
            [
                {"key": b"longer than before"},
                {"key": None},
                {"value": None},
                {"value": b""},
                {"timestamp": BASE_MS + 2**40},
                {"timestamp": BASE_MS - 5},
                {"headers": (("other", b""),)},
            ]
        ),
    ),
    max_size=3,
)


@given(REGULAR, CHANGES, st.data())
def test_keys_and_retained_records_are_those_that_reading_one_by_one_gives(
    records: list[Record], changes: list[tuple[int, dict[str, object]]], data: st.DataObject
) -> None:
    for at, change in changes:
        records[at % len(records)] = records[at % len(records)]._replace(**change)  # type: ignore[arg-type]
    batch = memoryview(build_batch(records))
    header = read_header(batch)
    body = expand(batch, header)
    tombstones = bytes(record.value is None for record in records)
    assert read_keys(body, header) == Keys([record.key for record in records], tombstones if any(tombstones) else b"")
    keep = bytearray(data.draw(st.binary(min_size=len(records), max_size=len(records))))
    keep = bytearray(flag & 1 for flag in keep)
    keep[data.draw(st.integers(0, len(records) - 1))] = 1
    kept = batch_with_some_records(header, body, keep)
    left = [record for record, stays in zip(records, keep, strict=True) if stays]
    assert list(read_records(bytes(kept), read_header(kept))) == left
    assert read_header(kept).max_timestamp == max(record.timestamp for record in left)


@pytest.mark.parametrize(
    ("records", "runs"),
    [
        (regular(200, step_ms=0), 2),  # From 64 on, offset deltas have two bytes.
        (regular(200, step_ms=1), 2),
        (regular(200, step_ms=2), 3),
        (regular(RECORDS_MIN, step_ms=0, value_size=None, headers=2), 2),
    ],
)
def test_records_of_one_shape_are_few_runs(records: list[Record], runs: int) -> None:
    found = find_runs(body_of(records), len(records))
    assert found is not None
    assert len(found) == runs
    assert sum(run.records for run in found) == len(records)


def test_few_records_and_records_without_a_common_shape_are_no_runs() -> None:
    few = regular(RECORDS_MIN - 1)
    assert find_runs(body_of(few), len(few)) is None
    mixed = [record._replace(value=bytes(record.offset % 5)) for record in regular(200)]
    assert find_runs(body_of(mixed), len(mixed)) is None


def test_too_few_and_too_many_records_are_no_runs() -> None:
    body = body_of(regular(200))
    for count in (199, 201):
        assert find_runs(body, count) is None
    for wrong in (body[:-1], body + b"\0"):
        assert find_runs(wrong, 200) is None


@given(st.integers(0, 5_600), st.integers(0, 255))
def test_where_a_damaged_byte_leaves_runs_every_record_reads_as_they_say(at: int, byte: int) -> None:
    records = regular(150, headers=1)
    good = build_batch(records)
    body = bytearray(good[HEADER_SIZE:])
    body[at % len(body)] = byte
    damaged = bytes(body)
    runs = find_runs(damaged, 150)
    if runs is None:
        return
    header = read_header(good)
    try:
        read = read_expanded(damaged, header)
    except BrokerError:
        # Numbers longer than the format allows are all that the runs do not see.
        assert [key_runs.keys_of(damaged, run) for run in runs]
        return
    assert [key for run in runs for key in key_runs.keys_of(damaged, run)] == [record.key for record in read]
