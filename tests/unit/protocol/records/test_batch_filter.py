"""Batches that lose records: what stays is what it was, read by another reader than the one that cut."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError, ErrorCode
from sordini.protocol.records import compiled_reader
from sordini.protocol.records.batch import Record, build_batch, crc_is_right, read_header, read_records
from sordini.protocol.records.batch_filter import (
    batch_with_some_records,
    batch_without_records,
    delete_horizon_ms,
    expand,
    read_expanded,
)

OPTIONAL_BYTES = st.one_of(st.none(), st.binary(max_size=200), st.just(b"x" * 9_000))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=2).map(tuple)
TIMES = st.one_of(st.integers(1_700_000_000_000, 1_700_000_000_200), st.integers(-(2**40), 2**41))


@st.composite
def batches(draw: st.DrawFn) -> tuple[bytes, list[bool]]:
    count = draw(st.integers(1, 20))
    gaps = draw(st.lists(st.integers(1, 300), min_size=count, max_size=count))
    base = draw(st.integers(0, 2**40))
    offset = base - gaps[0]
    records = []
    for gap in gaps:
        offset += gap
        records.append(Record(offset, draw(TIMES), draw(OPTIONAL_BYTES), draw(OPTIONAL_BYTES), draw(HEADERS)))
    batch = build_batch(
        records,
        codec=draw(st.integers(0, 4)),
        base_offset=base,
        leader_epoch=draw(st.integers(-1, 9)),
        producer_id=draw(st.integers(-1, 9)),
        base_sequence=draw(st.integers(-1, 9)),
        transactional=draw(st.booleans()),
        log_append_time=draw(st.booleans()),
    )
    keep = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    keep[draw(st.integers(0, count - 1))] = True
    return batch, keep


@settings(max_examples=40)
@given(batches(), st.one_of(st.none(), st.integers(0, 2**41)))
def test_the_records_that_stay_are_read_as_before(drawn: tuple[bytes, list[bool]], horizon_ms: int | None) -> None:
    batch, keep = drawn
    header = read_header(batch)
    left = bytes(batch_with_some_records(header, expand(memoryview(batch), header), keep, horizon_ms))
    after = read_header(left)
    assert crc_is_right(left, 0, after)
    assert after.size == len(left)
    stayed = [record for record, stays in zip(read_records(batch, header), keep, strict=True) if stays]
    assert list(read_records(left, after)) == stayed
    assert delete_horizon_ms(after) == horizon_ms
    changed = {"size": after.size, "crc": after.crc, "record_count": sum(keep)}
    if not header.is_log_append_time:
        changed["max_timestamp"] = max(record.timestamp for record in stayed)
    if horizon_ms is not None:
        changed |= {"base_timestamp": horizon_ms, "attributes": header.attributes | 0x40}
    assert after == header._replace(**changed)


@settings(max_examples=40)
@given(batches(), st.integers(0, 2**41))
def test_a_batch_with_a_delete_horizon_is_cut_like_any_other(drawn: tuple[bytes, list[bool]], horizon_ms: int) -> None:
    batch, keep = drawn
    header = read_header(batch)
    everything = b"\1" * header.record_count
    dated = bytes(batch_with_some_records(header, expand(memoryview(batch), header), everything, horizon_ms))
    dated_header = read_header(dated)
    left = bytes(batch_with_some_records(dated_header, expand(memoryview(dated), dated_header), keep))
    assert delete_horizon_ms(read_header(left)) == horizon_ms
    stayed = [record for record, stays in zip(read_records(batch, header), keep, strict=True) if stays]
    assert list(read_records(left, read_header(left))) == stayed


@settings(max_examples=40)
@given(batches())
def test_an_emptied_batch_keeps_its_offsets_and_has_no_records(drawn: tuple[bytes, list[bool]]) -> None:
    header = read_header(drawn[0])
    left = bytes(batch_without_records(header))
    after = read_header(left)
    assert crc_is_right(left, 0, after)
    assert list(read_records(left, after)) == []
    assert (after.base_offset, after.last_offset, after.last_sequence, after.max_timestamp) == (
        header.base_offset,
        header.last_offset,
        header.last_sequence,
        header.max_timestamp,
    )
    assert (after.is_transactional, after.is_log_append_time) == (header.is_transactional, header.is_log_append_time)


@settings(max_examples=40)
@given(batches())
def test_both_readers_find_the_same_keys_values_and_times(drawn: tuple[bytes, list[bool]]) -> None:
    batch = memoryview(drawn[0])
    header = read_header(batch)
    body = expand(batch, header)

    def seen(records: object) -> list[tuple[object, ...]]:
        return [(one.key, one.value, one.timestamp) for one in records]  # type: ignore[attr-defined]

    fast = seen(read_expanded(body, header))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_reader, "_reader", None)
        assert seen(read_expanded(body, header)) == fast


def test_records_that_do_not_fill_the_batch_are_refused() -> None:
    batch = build_batch([Record(0, 5, b"k", b"v"), Record(1, 5, b"l", b"w")])
    header = read_header(batch)
    body = expand(memoryview(batch), header)
    for wrong in (body[:-1], body + b"\0", body[: len(body) // 2]):
        with pytest.raises(BrokerError, match="record"):
            batch_with_some_records(header, wrong, [True, True])
        with pytest.raises(BrokerError, match="record"):
            read_expanded(wrong, header)


def test_a_time_beyond_sixty_four_bits_is_invalid() -> None:
    header = read_header(build_batch([Record(0, 5, b"k", b"v"), Record(1, 9, b"l", b"w")]))
    body = expand(memoryview(build_batch([Record(0, 5, b"k", b"v"), Record(1, 9, b"l", b"w")])), header)
    for base, wrong in ((2**63 - 5, False), (2**63 - 4, True)):
        changed = header._replace(base_timestamp=base)
        with pytest.raises(BrokerError, match="a timestamp of") if wrong else nullcontext() as refusal:
            batch_with_some_records(changed, body, [True, True])
        assert refusal is None or refusal.value.code == ErrorCode.INVALID_RECORD
