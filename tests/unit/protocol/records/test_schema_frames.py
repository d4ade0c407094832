"""The schema ids of a record set, of any format and codec."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.compression import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from sordini.protocol.records.jobs import (
    FramesJob,
    job_as_wire,
    job_from_wire,
    outcome_as_wire,
    outcome_from_wire,
    run_job,
)
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.records.schema_frames import LISTED_MAX, Frames, Listed, frames_in
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget

LIMIT = 1_000_000
ids = st.integers(-(2**31), 2**31 - 1)
values = st.one_of(st.none(), st.binary(max_size=12), ids.map(lambda one: struct.pack(">bi", 0, one) + b"x"))


def records_of(found: list[bytes | None]) -> list[Record]:
    return [Record(index, 1, b"k", value) for index, value in enumerate(found)]


@given(st.lists(values, min_size=1, max_size=20), st.sampled_from([NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD]))
def test_every_record_that_is_not_null_is_listed_once_and_in_order(found: list[bytes | None], codec: int) -> None:
    frames = frames_in(memoryview(build_batch(records_of(found), codec=codec)), LIMIT)
    expected: dict[int, list[int]] = {}
    unframed = []
    for index, value in enumerate(found):
        if value is not None and len(value) >= 5 and value[0] == 0:
            expected.setdefault(int.from_bytes(value[1:5], signed=True), []).append(index)
        elif value is not None:
            unframed.append(index)
    assert frames == Frames(
        {key: Listed(rows, len(rows)) for key, rows in expected.items()}, Listed(unframed, len(unframed))
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_of_old_formats_are_listed_as_well(magic: int) -> None:
    sent = records_of([b"\0\0\0\0\7x", b"plain", None])
    frames = frames_in(memoryview(write_messages(sent, magic)), LIMIT)
    assert frames == Frames({7: Listed([0], 1)}, Listed([1], 1))


def test_of_many_records_some_are_listed_and_all_are_counted() -> None:
    sent = records_of([b"\0\0\0\0\7", b"plain"] * (LISTED_MAX + 5))
    frames = frames_in(memoryview(build_batch(sent)), LIMIT)
    assert [frames.ids[7].total, frames.unframed.total] == [LISTED_MAX + 5] * 2
    assert frames.unframed.first == list(range(1, 2 * LISTED_MAX, 2))
    assert len(frames.ids[7].first) == LISTED_MAX


def test_many_records_exceed_a_budget_before_they_are_read() -> None:
    batch = memoryview(build_batch(records_of([b"\0\0\0\0\7"] * 3_000)))
    with pytest.raises(BudgetExceeded):
        frames_in(batch, LIMIT, WorkBudget())
    assert frames_in(batch[: len(batch)], LIMIT).ids[7].total == 3_000


def test_what_expands_beyond_the_limit_is_refused() -> None:
    batch = memoryview(build_batch(records_of([b"\0" * 50_000]), codec=GZIP))
    with pytest.raises(BrokerError):
        frames_in(batch, 10_000)


@given(st.lists(values, min_size=1, max_size=10))
def test_a_job_has_the_same_outcome_in_another_process(found: list[bytes | None]) -> None:
    job = FramesJob(memoryview(bytearray(build_batch(records_of(found)))), LIMIT)
    about, data = job_as_wire(job)
    assert job_from_wire(about, bytearray(data)) == job
    outcome = run_job(job)
    about, made = outcome_as_wire(outcome)
    assert outcome_from_wire(about, bytearray(made)) == outcome
