"""What a consumer returns of fetched batches and messages, whatever their format."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.aborted_transactions import Aborted
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.records.returned_records import returned_batches


def batch(*offsets: int, producer: int = -1, **options: bool) -> bytes:
    records = [Record(offset, 5, None, b"v") for offset in offsets]
    return build_batch(records, base_offset=offsets[0], producer_id=producer, **options)


def marker(kind: int, offset: int, producer: int) -> bytes:
    return bytes(
        build_marker(Marker(kind, 0), producer_id=producer, producer_epoch=0, timestamp_ms=5, base_offset=offset)
    )


def offsets(data: bytes, start: int = 0, aborted: tuple[Aborted, ...] = ()) -> list[int]:
    return [record.offset for one in returned_batches(data, start, aborted) for record in one.records]


def test_records_below_the_start_are_left_out() -> None:
    assert offsets(batch(0, 1, 5) + batch(7), 1) == [1, 5, 7]


def test_markers_and_aborted_records_are_left_out_up_to_the_producer_s_marker() -> None:
    data = (
        batch(0, 1, producer=3, transactional=True)
        + batch(2, producer=4, transactional=True)
        + marker(ABORT, 3, 3)
        + marker(COMMIT, 4, 4)
        + batch(5, producer=3, transactional=True)
    )
    assert offsets(data, 0, (Aborted(3, 0),)) == [2, 5]
    assert offsets(data) == [0, 1, 2, 5]


def test_a_batch_of_which_nothing_is_returned_moves_the_offset_on() -> None:
    found = list(returned_batches(marker(COMMIT, 6, 3), 6, ()))
    assert [(one.records, one.next_offset) for one in found] == [([], 7)]


def test_the_kind_of_the_time_is_known_in_every_format() -> None:
    records = [Record(0, 5, None, b"v"), Record(1, 6, None, b"w")]
    for data, is_log_append_time in (
        (batch(0, 1, log_append_time=True), True),
        (batch(0, 1), False),
        (write_messages(records, 1, log_append_time=True), True),
        (write_messages(records, 1, codec=1, log_append_time=True), True),
        (write_messages(records, 0), False),
    ):
        assert {one.is_log_append_time for one in returned_batches(data, 0, ())} == {is_log_append_time}
        assert offsets(data) == [0, 1]


@pytest.mark.parametrize("position", [20, 60, -1])
def test_a_damaged_batch_is_an_error(position: int) -> None:
    damaged = bytearray(batch(0))
    damaged[position] ^= 1
    with pytest.raises(BrokerError, match="the CRC of the batch at offset 0 is wrong"):
        offsets(bytes(damaged))


def test_bytes_that_are_no_batch_are_an_error() -> None:
    with pytest.raises(BrokerError, match="a batch of 40 bytes"):
        offsets(bytes(8) + (28).to_bytes(4) + bytes(4) + b"\2" + bytes(23))
    with pytest.raises(BrokerError, match="neither a batch nor a message"):
        offsets(bytes([255] * 8) + (40).to_bytes(4) + bytes(40))


def test_a_batch_that_is_cut_off_is_left_for_the_next_fetch() -> None:
    assert offsets(batch(0) + batch(1)[:-1]) == [0]
