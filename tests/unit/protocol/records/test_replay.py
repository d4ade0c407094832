"""Fetched bytes of the topic, applied once and in order however they are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.errors import BrokerError
from sordini.protocol.records.aborted_transactions import Aborted
from sordini.protocol.records.batch import Record, build_batch
from sordini.protocol.records.control import ABORT, COMMIT, Marker, build_marker
from sordini.protocol.records.replay import RECORDS_PER_SLICE, Replay, Stamp

NO_PRODUCER = Stamp(-1, -1, -1)
Applied = tuple[bytes, bytes | None, int]


def a_replay() -> tuple[Replay, list[Applied], list[tuple[Stamp, int]]]:
    applied: list[Applied] = []
    read: list[tuple[Stamp, int]] = []
    replay = Replay(lambda key, value, offset: applied.append((key, value, offset)), lambda *one: read.append(one))
    return replay, applied, read


def a_batch(offset: int, count: int = 1, *, codec: int = 0, epoch: int = 4, producer: Stamp = NO_PRODUCER) -> bytes:
    records = [Record(offset + number, 5, b"k%d" % (offset + number), b"v") for number in range(count)]
    return build_batch(
        records,
        codec=codec,
        base_offset=offset,
        leader_epoch=epoch,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.sequence,
    )


def taken(replay: Replay, data: bytes, aborted: list[Aborted] | None = None) -> int:
    """How many slices it took."""
    return sum(1 for _ in replay.take(memoryview(data), aborted or []))


@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.sampled_from([0, 1, 3])), min_size=1, max_size=6),
    st.data(),
)
def test_records_are_applied_once_and_in_order_however_responses_are_cut(
    shape: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """A response begins with the batch that has the position, and may end within one."""
    batches, offset = [], 0
    for count, gap, codec in shape:
        offset += gap
        batches.append((offset, a_batch(offset, count, codec=codec)))
        offset += count
    replay, applied, _ = a_replay()
    for _ in range(50):
        if replay.position >= offset:
            break
        rest = b"".join(one for base, one in batches if base + 4 > replay.position)
        size = len(batches[0][1])
        taken(replay, rest[: data.draw(st.integers(size, max(size, len(rest))))] if data.draw(st.booleans()) else rest)
    offsets = [
        number
        for base, count in zip([base for base, _ in batches], shape, strict=True)
        for number in range(base, base + count[0])
    ]
    assert applied == [(b"k%d" % number, b"v", number) for number in offsets]
    assert replay.position == offset
    assert replay.epoch == 4


def test_a_batch_of_a_producer_is_reported_after_its_records() -> None:
    order: list[object] = []
    replay = Replay(
        lambda _key, _value, offset: order.append(offset), lambda stamp, offset: order.append((stamp, offset))
    )
    taken(replay, a_batch(0) + a_batch(1, producer=Stamp(9, 2, 5)))
    assert order == [0, 1, (Stamp(9, 2, 5), 1)]


def test_a_tombstone_is_applied_without_a_value_and_a_record_without_a_key_is_skipped() -> None:
    replay, applied, _ = a_replay()
    taken(replay, build_batch([Record(0, 1, b"k", None), Record(1, 1, None, b"v")]))
    assert applied == [(b"k", None, 0)]
    assert replay.position == 2


def test_records_of_an_aborted_transaction_are_skipped() -> None:
    replay, applied, _ = a_replay()
    in_transaction = [
        build_batch(
            [Record(at, 1, b"k%d" % at, b"v")],
            base_offset=at,
            producer_id=9,
            producer_epoch=0,
            base_sequence=at,
            transactional=True,
        )
        for at in (0, 2)
    ]
    markers = [
        bytes(build_marker(Marker(kind, 0), producer_id=9, producer_epoch=0, timestamp_ms=1, base_offset=at))
        for kind, at in ((ABORT, 1), (COMMIT, 3))
    ]
    taken(replay, in_transaction[0] + markers[0] + in_transaction[1] + markers[1], [Aborted(9, 0)])
    assert applied == [(b"k2", b"v", 2)]
    assert replay.position == 4


def test_many_records_are_applied_in_slices() -> None:
    replay, applied, _ = a_replay()
    data = b"".join(a_batch(offset, 10) for offset in range(0, 5 * RECORDS_PER_SLICE, 10))
    assert taken(replay, data) == 5
    assert len(applied) == 5 * RECORDS_PER_SLICE


def test_a_damaged_batch_is_refused_and_nothing_of_it_is_applied() -> None:
    replay, applied, _ = a_replay()
    data = bytearray(a_batch(0))
    data[-1] ^= 1
    with pytest.raises(BrokerError, match="damaged batch at offset 0"):
        taken(replay, bytes(data))
    assert applied == []
    assert replay.position == 0
