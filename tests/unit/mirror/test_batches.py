"""Record sets of a source to batches for the target."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.mirror.batches import SMALL_BYTES, Copy, Extracted, Run, extract, stamp
from sordini.protocol.errors import BrokerError
from sordini.protocol.records.aborted_transactions import Aborted
from sordini.protocol.records.batch import (
    HEADER_SIZE,
    Record,
    build_batch,
    crc_is_right,
    read_header,
    read_records,
    stamp_append_time,
)
from sordini.protocol.records.compression import GZIP, LZ4, NO_CODEC, SNAPPY, ZSTD
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.legacy_writing import write_messages
from sordini.protocol.records.produced_records import check_produced
from tests.support.builders import BASE_TIMESTAMP, RULES, a_batch, some_records

LARGE = b"x" * SMALL_BYTES
"""A value of which two batches are not joined."""


def extracted(*batches: bytes, start: int = 0, **arguments: object) -> Extracted:
    return extract(memoryview(bytearray(b"".join(batches))), start, **arguments)  # type: ignore[arg-type]


def records_in(copy: Copy) -> list[Record]:
    return list(read_records(copy.data, read_header(copy.data)))


def values(found: Extracted) -> list[bytes | None]:
    return [record.value for copy in found.copies for record in records_in(copy)]


@pytest.mark.parametrize("codec", [NO_CODEC, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_passes_with_its_records_byte_for_byte(codec: int) -> None:
    batch = a_batch(50, base_offset=700, value=b"v" * 100, codec=codec)
    (copy,) = extracted(batch, start=700).copies
    stamp(copy, 9, 2, 30, transactional=True)
    assert bytes(copy.data[HEADER_SIZE:]) == batch[HEADER_SIZE:]
    assert copy.runs == (Run(700, 50),)


def test_a_stamped_batch_is_the_mirror_s_own_and_keeps_codec_times_and_count() -> None:
    batch = a_batch(
        3, base_offset=70, codec=LZ4, leader_epoch=8, producer_id=1, producer_epoch=1, base_sequence=4, value=LARGE
    )
    (copy,) = extracted(batch, start=70).copies
    stamp(copy, 9, 2, 30, transactional=True)
    header, before = read_header(copy.data), read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (0, -1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 30)
    assert header.is_transactional
    assert header.codec == LZ4
    assert header[6:9] == before[6:9]
    assert header.record_count == 3
    assert crc_is_right(copy.data, 0, header)


def test_a_batch_of_a_source_s_transaction_is_not_transactional_without_transactions() -> None:
    batch = a_batch(3, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    (copy,) = extracted(batch).copies
    stamp(copy, -1, -1, -1, transactional=False)
    header = read_header(copy.data)
    assert not header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)


def test_markers_and_aborted_records_are_left_out_and_passed() -> None:
    ours = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    found = extracted(
        a_batch(2, base_offset=0, base_sequence=0, **ours),
        bytes(build_marker(Marker(ABORT, 0), producer_id=5, producer_epoch=0, timestamp_ms=1, base_offset=2)),
        a_batch(2, base_offset=3, base_sequence=2, **ours),
        bytes(build_marker(Marker(COMMIT, 0), producer_id=5, producer_epoch=0, timestamp_ms=1, base_offset=5)),
        aborted=[Aborted(5, 0)],
    )
    assert values(found) == [b"value-3", b"value-4"]
    assert found.next_offset == 6


def test_records_before_the_requested_offset_are_left_out() -> None:
    found = extracted(a_batch(5, base_offset=10, value=LARGE), start=13)
    assert [copy.runs for copy in found.copies] == [(Run(13, 2),)]
    assert found.opened == 1


def test_a_batch_that_ends_before_the_requested_offset_is_left_out() -> None:
    found = extracted(a_batch(5, base_offset=10), start=15)
    assert found == ([], 15, 0)


def test_a_compacted_batch_is_built_again_with_consecutive_offsets() -> None:
    records = [Record(offset, BASE_TIMESTAMP + offset, b"k", b"v%d" % offset) for offset in (4, 5, 9, 12)]
    found = extracted(build_batch(records, base_offset=4, codec=GZIP), start=4)
    (copy,) = found.copies
    header = read_header(copy.data)
    assert (header.codec, header.record_count, header.last_offset_delta) == (GZIP, 4, 3)
    assert copy.runs == (Run(4, 2), Run(9, 1), Run(12, 1))
    assert [record.timestamp for record in records_in(copy)] == [record.timestamp for record in records]


def test_a_time_of_the_source_s_log_becomes_the_records_own() -> None:
    batch = bytearray(a_batch(3))
    stamp_append_time(batch, 0, BASE_TIMESTAMP + 5_000)
    (copy,) = extracted(bytes(batch)).copies
    assert not read_header(copy.data).is_log_append_time
    assert {record.timestamp for record in records_in(copy)} == {BASE_TIMESTAMP + 5_000}


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NO_CODEC, GZIP])
def test_messages_of_old_formats_become_batches(magic: int, codec: int) -> None:
    records = some_records(4, base_offset=20, key=b"k")
    found = extracted(write_messages(records, magic, codec=codec), start=20)
    (copy,) = found.copies
    assert copy.runs == (Run(20, 4),)
    assert read_header(copy.data).codec == codec
    assert [record.value for record in records_in(copy)] == [record.value for record in records]
    assert found.next_offset == 24


def test_small_neighbours_become_one_batch_and_a_lone_one_passes() -> None:
    found = extracted(a_batch(1, base_offset=0), a_batch(1, base_offset=1), a_batch(1, base_offset=2))
    assert [copy.runs for copy in found.copies] == [(Run(0, 3),)]
    assert extracted(a_batch(1, base_offset=0)).opened == 0


def test_a_large_batch_between_small_ones_keeps_the_order() -> None:
    found = extracted(
        a_batch(1, base_offset=0),
        a_batch(1, base_offset=1),
        a_batch(1, base_offset=2, value=LARGE),
        a_batch(1, base_offset=3),
        a_batch(1, base_offset=4),
    )
    assert [copy.runs for copy in found.copies] == [(Run(0, 2),), (Run(2, 1),), (Run(3, 2),)]


def test_records_of_a_producer_that_is_skipped_are_passed() -> None:
    batches = [a_batch(2, base_offset=0, producer_id=1), a_batch(2, base_offset=2, producer_id=2)]
    found = extracted(*batches, is_skipped=lambda producer_id: producer_id == 1)
    assert values(found) == [b"value-2", b"value-3"]
    assert found.next_offset == 4


def test_an_incomplete_batch_at_the_end_is_for_the_next_fetch() -> None:
    found = extracted(a_batch(2, base_offset=0), a_batch(2, base_offset=2)[:-1])
    assert found.next_offset == 2
    assert values(found) == [b"value-0", b"value-1"]


@pytest.mark.parametrize("position", [HEADER_SIZE + 1, 40])
def test_a_damaged_batch_is_refused_and_not_given_a_new_checksum(position: int) -> None:
    batch = bytearray(a_batch(2))
    batch[position] ^= 1
    with pytest.raises(BrokerError, match="CRC is wrong"):
        extracted(bytes(batch))


def test_a_damaged_message_of_an_old_format_is_refused() -> None:
    message = bytearray(write_messages(some_records(1), 1))
    message[-1] ^= 1
    with pytest.raises(BrokerError, match="CRC is wrong"):
        extracted(bytes(message))


@dataclass(frozen=True)
class Piece:
    """What one batch of a source is made of."""

    gaps: tuple[int, ...]
    codec: int
    is_append_time: bool
    size: int


PIECES = st.lists(
    st.builds(
        Piece,
        st.lists(st.integers(0, 2), min_size=1, max_size=5).map(tuple),
        st.sampled_from([NO_CODEC, LZ4]),
        st.booleans(),
        st.sampled_from([3, SMALL_BYTES]),
    ),
    max_size=6,
)


@given(pieces=PIECES, start=st.integers(0, 12))
def test_every_record_from_the_start_is_copied_once_in_order_and_brokers_take_each_batch(
    pieces: list[Piece], start: int
) -> None:
    offset, batches, sent = 0, [], []
    for piece in pieces:
        records = []
        for gap in piece.gaps:
            offset += gap
            records.append(
                Record(offset, BASE_TIMESTAMP + offset, b"k", b"%d" % offset + b"x" * piece.size, (("h", b"1"),))
            )
            offset += 1
        batch = bytearray(build_batch(records, base_offset=records[0].offset, codec=piece.codec))
        if piece.is_append_time:
            stamp_append_time(batch, 0, BASE_TIMESTAMP)
        batches.append(bytes(batch))
        sent += records
    found = extracted(*batches, start=start)
    wanted = [record for record in sent if record.offset >= start]
    got = [record for copy in found.copies for record in records_in(copy)]
    assert [(one.key, one.value, one.headers) for one in got] == [(one.key, one.value, one.headers) for one in wanted]
    runs = [run for copy in found.copies for run in copy.runs]
    assert [run.offset + delta for run in runs for delta in range(run.record_count)] == [one.offset for one in wanted]
    for copy in found.copies:
        stamp(copy, 1, 0, 0, transactional=False)
        check_produced(copy.data, RULES._replace(check_compressed=True), BASE_TIMESTAMP, produce_version=9)
