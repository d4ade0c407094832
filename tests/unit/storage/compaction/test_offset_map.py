"""The map of the newest records and its bound."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.storage.compaction.offset_map import OffsetMap
from tests.support.alone import Alone

KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", b"c" * 18, b"c" * 19, b"d" * 200]))


def test_a_newer_record_outdates_the_older_ones_of_its_key() -> None:
    offsets = OffsetMap(1_000_000)
    offsets.add([b"a", b"b", b"a"], 12)
    offsets.add([b"b", None, b"c"], 20)
    assert list(offsets.staying(12, 3)) == [0, 0, 1]
    assert list(offsets.staying(20, 3)) == [1, 0, 1]
    assert offsets.are_outdated([b"a", b"d", b"c"]) == [True, False, True]
    assert len(offsets) == 3


@given(st.lists(st.lists(KEYS, min_size=1, max_size=5), max_size=12), st.integers(1, 2_000))
def test_a_map_of_any_size_holds_what_a_dictionary_holds_until_it_is_full(
    batches: list[list[bytes | None]], bytes_max: int
) -> None:
    offsets = OffsetMap(bytes_max)
    newest: dict[bytes, tuple[int, int]] = {}
    mapped: list[list[bytes | None]] = []
    for batch, keys in enumerate(batches):
        if not offsets.has_room(len(keys)):
            assert newest
            break
        offsets.add(keys, batch)
        mapped.append(keys)
        newest |= {key: (batch, index) for index, key in enumerate(keys) if key is not None}
    for batch, keys in enumerate(mapped):
        stays = [key is not None and newest[key] == (batch, index) for index, key in enumerate(keys)]
        assert [flag == 1 for flag in offsets.staying(batch, len(keys))] == stays
    assert len(offsets) == len(newest)
    sought = [b"", b"a", b"b", b"c" * 18, b"c" * 19, b"d" * 200, b"e"]
    assert offsets.are_outdated(sought) == [key in newest for key in sought]


def test_a_batch_that_was_not_mapped_is_not_judged() -> None:
    offsets = OffsetMap(1_000_000)
    offsets.add([b"a"], 12)
    for batch in (11, 13):
        with pytest.raises(LookupError):
            offsets.staying(batch, 1)


def fill(bytes_max: int, key_bytes: int) -> tuple[float, int, int]:
    """How full a map gets, with how many entries, and the most bytes that they took, also while they are read."""
    tracemalloc.start()
    try:
        offsets, first = OffsetMap(bytes_max), 0
        before = tracemalloc.get_traced_memory()[0]
        while offsets.has_room(100):
            # A third is superseded, at some distance.
            numbers = [number * 2 // 3 for number in range(first, first + 100)]
            offsets.add([b"%0*d" % (key_bytes, number * 7919 % 1_000_003) for number in numbers], first + 99)
            first += 100
        filled, entries = offsets.fullness, len(offsets)
        offsets.are_outdated([b"a"])
        return filled, entries, tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key_bytes", [8, 40])
def test_a_full_map_takes_no_more_than_its_bound_while_it_is_built_and_read(key_bytes: int, alone: Alone) -> None:
    bytes_max = 1_000_000
    alone(fill, bytes_max // 10, key_bytes)  # What is allocated once and for all.
    filled, entries, peak = alone(fill, bytes_max, key_bytes)
    assert 0.95 < filled <= 1
    assert peak < bytes_max
    # Apache Kafka's map of this size holds one in 24 bytes.
    assert entries > bytes_max / 32


def test_records_of_few_keys_fill_no_map() -> None:
    offsets = OffsetMap(100_000)
    for batch in range(500):
        assert offsets.has_room(100)
        offsets.add([b"%d" % (number % 70) for number in range(100)], batch)
    assert len(offsets) == 70
    assert not offsets.has_room(100_000)


def test_a_full_map_has_no_room_and_an_empty_one_always_has() -> None:
    offsets = OffsetMap(5_000)
    assert offsets.has_room(1_000_000)
    offsets.add([b"%d" % number for number in range(20)], 19)
    assert offsets.has_room(1)
    assert not offsets.has_room(200)
