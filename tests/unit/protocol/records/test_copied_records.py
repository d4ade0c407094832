"""Keys and values copied out of batches of a log."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.control import COMMIT, Marker, build_marker
from sordini.protocol.records.copied_records import CopiedRecords, copied_records
from sordini.protocol.records.jobs import (
    CopyJob,
    job_as_wire,
    job_from_wire,
    outcome_as_wire,
    outcome_from_wire,
    run_job,
)
from sordini.protocol.records.work_budget import BudgetExceeded, WorkBudget

TEXTS = st.one_of(st.none(), st.binary(max_size=20))


def a_batch(first: int, *texts: tuple[bytes | None, bytes | None], codec: int = 0) -> bytes:
    records = [Record(first + number, 5, key, value, (("h", b"x"),)) for number, (key, value) in enumerate(texts)]
    return build_batch(records, base_offset=first, codec=codec)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=5), min_size=1, max_size=5), st.data())
def test_every_record_asked_for_is_copied_from_one_read_or_the_next(
    batches: list[list[tuple[bytes | None, bytes | None]]], data: st.DataObject
) -> None:
    log, all_texts = b"", []
    for number, texts in enumerate(batches):
        log += a_batch(len(all_texts), *texts, codec=number % 2)
        all_texts += texts
    offsets = sorted(data.draw(st.sets(st.integers(0, len(all_texts) - 1), min_size=1)))
    bytes_max = data.draw(st.integers(0, 60))
    found: dict[int, tuple[bytes | None, bytes | None]] = {}
    left = offsets
    while left:
        read = copied_records(log, left, bytes_max)
        assert read.end > left[0], "each read makes some known"
        assert (
            len(read.records) <= 1
            or sum(len(text or b"") for row in read.records.values() for text in row) <= bytes_max
        )
        found |= read.records
        left = [offset for offset in left if offset >= read.end]
    assert found == {offset: all_texts[offset] for offset in offsets}


def test_what_was_compacted_away_and_what_is_control_is_known_to_be_no_record() -> None:
    log = (
        a_batch(0, (b"a", b"1"))
        + a_batch(5, (b"b", b"2"))
        + bytes(build_marker(Marker(COMMIT, 0), producer_id=1, producer_epoch=0, timestamp_ms=5, base_offset=6))
    )
    assert copied_records(log, [0, 3, 5, 6], 1_000) == CopiedRecords({0: (b"a", b"1"), 5: (b"b", b"2")}, 7)


def test_of_an_incomplete_batch_nothing_is_known() -> None:
    first, second = a_batch(0, (b"a", b"1")), a_batch(1, (b"b", b"2"))
    assert copied_records(first + second[:-1], [0, 1], 1_000) == CopiedRecords({0: (b"a", b"1")}, 1)


def test_batches_without_a_record_that_is_asked_for_are_not_opened() -> None:
    rest = a_batch(0, *[(b"k", b"v")] * 1_000)
    log = rest + a_batch(1_000, (b"a", b"1"))
    assert copied_records(log, [1_000], 100, WorkBudget(100)).records == {1_000: (b"a", b"1")}
    with pytest.raises(BudgetExceeded):
        copied_records(log, [999], 100, WorkBudget(100))


def test_a_job_in_a_child_process_has_the_same_outcome() -> None:
    log = a_batch(0, (b"a", None), (None, b""), (b"", b"3"))
    about, data = job_as_wire(CopyJob(log, [0, 1, 2], 100))
    job = job_from_wire(about, bytearray(data))
    assert isinstance(job, CopyJob)
    outcome = run_job(job)
    about_outcome, made = outcome_as_wire(outcome)
    assert outcome_from_wire(about_outcome, bytearray(made)) == outcome == copied_records(log, [0, 1, 2], 100)
    with pytest.raises(ValueError, match="are described"):
        outcome_from_wire(about_outcome, bytearray(made) + b"x")
