"""The oldest record from an offset on: what is no record to a consumer is passed over."""

from __future__ import annotations

import struct

import pytest

from sordini.protocol.records.batch import Record, build_batch
from sordini.storage import oldest_record as searched
from sordini.storage.log import Log
from sordini.storage.oldest_record import HEADERS_MAX, OldestRecord, oldest_record
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.support.builders import an_idempotent_batch
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_manager
from tests.unit.storage.test_aborted_transactions import begin, end
from tests.unit.storage.test_log import put

LAST_OFFSET_DELTA_AT = 23
CONFIG = SMALL._replace(segment_bytes=1_000_000)


@pytest.fixture
def log() -> Log:
    manager = a_manager(ForgetfulDisk(), CONFIG)
    manager.open(0)
    return manager.create(PARTITION, TOPIC_ID, CONFIG)


def records(*times: int, base: int = 0) -> bytes:
    return build_batch([Record(base + number, time, None, b"v") for number, time in enumerate(times)])


def oldest(log: Log, start: int, *, below: int | None = None, committed_only: bool = True) -> OldestRecord | None:
    end_offset = log.log_end_offset if below is None else below
    return oldest_record(log, start, end_offset, committed_only=committed_only)


def place(found: OldestRecord | None) -> tuple[int, int, bool] | None:
    return None if found is None else (found.offset, found.timestamp, found.is_exact)


def test_it_is_the_record_at_the_offset_with_its_own_time(log: Log) -> None:
    put(log, records(10_000, 20_000, 30_000))
    put(log, records(40_000))
    assert [place(oldest(log, start)) for start in range(5)] == [
        (0, 10_000, True),
        (1, 20_000, True),
        (2, 30_000, True),
        (3, 40_000, True),
        None,
    ]


def test_there_is_none_beyond_what_may_be_read(log: Log) -> None:
    put(log, records(1, 2))
    put(log, records(3, 4))
    assert oldest(log, 2, below=2) is None
    assert place(oldest(log, 1, below=2)) == (1, 1, True), "a batch within a second is not opened"


def test_markers_and_aborted_records_are_none_to_a_reader_of_committed_records(log: Log) -> None:
    begin(log, 5, 0)  # Offsets 0 and 1.
    end(log, 5, commit=False)
    put(log, records(70_000))  # 3
    assert (found := oldest(log, 0)) is not None
    assert found.offset == 3
    assert (found := oldest(log, 0, committed_only=False)) is not None
    assert found.offset == 0
    assert oldest(log, 2, below=3) is None, "only the marker is left"


def test_committed_records_of_a_transaction_are_records(log: Log) -> None:
    begin(log, 5, 0)
    end(log, 5, commit=True)
    assert (found := oldest(log, 1)) is not None
    assert found.offset == 1


def test_the_marker_of_a_committed_transaction_is_no_record(log: Log) -> None:
    begin(log, 5, 0)
    end(log, 5, commit=True)
    assert oldest(log, 2) is None
    assert oldest(log, 2, committed_only=False) is None


def test_an_aborted_transaction_hides_no_record_of_another_producer_inside_it(log: Log) -> None:
    begin(log, 5, 0)
    put(log, an_idempotent_batch(1, producer_id=6, sequence=0, transactional=True))
    end(log, 5, commit=False)
    assert (found := oldest(log, 0)) is not None
    assert found.offset == 2


def test_a_batch_whose_records_from_the_offset_on_were_compacted_is_passed_over(log: Log) -> None:
    """Its last offset is kept, so the index leads to it."""
    batch = bytearray(records(5_000))
    struct.pack_into(">i", batch, LAST_OFFSET_DELTA_AT, 4)
    put(log, batch)
    put(log, records(90_000))
    assert place(oldest(log, 0)) == (0, 5_000, True)
    assert place(oldest(log, 2)) == (5, 90_000, True)
    assert oldest(log, 2, below=5) is None


def test_the_next_record_of_a_compacted_batch_is_the_oldest(log: Log) -> None:
    batch = build_batch([Record(0, 5_000, None, b"v"), Record(9, 90_000, None, b"v")])
    put(log, batch)
    put(log, records(100_000))
    assert place(oldest(log, 1)) == (9, 90_000, True), "the next record that exists"
    emptied = build_batch([Record(0, 110_000, None, b"v"), Record(5, 111_000, None, b"v")])
    put(log, emptied)
    assert place(oldest(log, 12)) == (16, 111_000, True)


def test_the_next_segment_is_searched_when_one_ends(log: Log) -> None:
    put(log, records(1))
    begin(log, 5, 0)
    end(log, 5, commit=False)
    log.roll(0)
    put(log, records(9_000))
    assert place(oldest(log, 1)) == (4, 9_000, True)


def test_a_search_is_bounded_and_says_where_it_ended(log: Log) -> None:
    for number in range(HEADERS_MAX + 10):
        begin(log, 5, 2 * number)
        end(log, 5, commit=False)
    found = oldest(log, 0)
    assert found is not None
    assert not found.is_exact
    assert 0 < found.offset < log.log_end_offset


def test_a_batch_too_large_to_be_opened_has_the_time_of_its_first_record(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(log, records(10_000, 20_000))
    monkeypatch.setattr(searched, "OPENED_BYTES_MAX", 10)
    assert place(oldest(log, 1)) == (1, 10_000, True)
