"""Transaction markers."""

from __future__ import annotations

import pytest

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import Record, read_header, read_records
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker, read_marker


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_reads_back_from_its_control_batch(kind: int) -> None:
    batch = build_marker(
        Marker(kind, 17), producer_id=5, producer_epoch=2, timestamp_ms=99, base_offset=30, leader_epoch=4
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (5, 2, -1)
    assert (header.base_offset, header.partition_leader_epoch, header.record_count) == (30, 4, 1)
    [record] = read_records(batch, header)
    assert read_marker(record) == Marker(kind, 17)
    assert record.key == bytes([0, 0, 0, kind])
    assert record.value == bytes([0, 0, 0, 0, 0, 17])


def test_a_marker_of_a_kind_not_known_is_read_as_that() -> None:
    assert read_marker(Record(0, 0, b"\x00\x00\x00\x05more", None)).kind == 5


@pytest.mark.parametrize(
    ("key", "value"), [(None, b""), (b"\x00\x00", b""), (b"\x00\x00\x00\x01", b"\x00"), (b"\x00" * 4, None)]
)
def test_a_marker_that_is_cut_short_is_invalid(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(BrokerError):
        read_marker(Record(0, 0, key, value))
