"""Transaction markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.batch import Record, build_batch, read_header, read_records
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker, marker_in, read_marker


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


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
@pytest.mark.parametrize("epoch", [0, 17, -1, 2**31 - 1])
def test_a_marker_as_brokers_write_it_is_read_without_a_walk(kind: int, epoch: int) -> None:
    batch = build_marker(Marker(kind, epoch), producer_id=5, producer_epoch=2, timestamp_ms=99, base_offset=30)
    assert marker_in(batch) == marker_in(memoryview(batch)) == Marker(kind, epoch)


@given(
    key=st.one_of(st.binary(max_size=6), st.sampled_from([b"\0\0\0\0", b"\0\0\0\1"])),
    value=st.one_of(st.none(), st.binary(max_size=8), st.binary(min_size=6, max_size=6)),
    codec=st.sampled_from([0, 1]),
    flipped=st.one_of(st.none(), st.tuples(st.integers(61, 80), st.integers(0, 7))),
)
def test_a_marker_read_without_a_walk_is_the_one_that_the_walk_reads(
    key: bytes, value: bytes | None, codec: int, flipped: tuple[int, int] | None
) -> None:
    batch = bytearray(build_batch([Record(0, 9, key, value)], codec=codec, transactional=True, control=True))
    if flipped is not None and flipped[0] < len(batch):
        batch[flipped[0]] ^= 1 << flipped[1]
    quick = marker_in(batch)
    if quick is not None and codec == 0:
        assert quick == read_marker(next(read_records(batch, read_header(batch))))


def test_a_marker_with_more_than_its_record_is_walked() -> None:
    batch = build_marker(Marker(COMMIT, 1), producer_id=5, producer_epoch=2, timestamp_ms=99)
    assert marker_in(batch + b"\0") is None
    assert marker_in(batch[:-1]) is None
