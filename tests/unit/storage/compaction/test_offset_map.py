"""The map of the newest records and its size."""

from __future__ import annotations

import sys
import tracemalloc

import pytest

from sordini.storage.compaction.offset_map import OffsetMap, table_bytes


def test_a_newer_record_outdates_the_older_ones_of_its_key() -> None:
    offsets = OffsetMap(1_000_000)
    offsets.add([b"a", b"b", b"a"], 12)
    offsets.add([b"b", None, b"c"], 20)
    assert list(offsets.staying(12, 3)) == [0, 0, 1]
    assert list(offsets.staying(20, 3)) == [1, 0, 1]
    assert offsets.are_outdated([b"a", b"d", b"c"]) == [True, False, True]
    assert len(offsets) == 3


def test_a_batch_that_was_not_mapped_is_not_judged() -> None:
    offsets = OffsetMap(1_000_000)
    offsets.add([b"a"], 12)
    for batch in (11, 13):
        with pytest.raises(LookupError):
            offsets.staying(batch, 1)


@pytest.mark.parametrize("key_bytes", [8, 14, 63, 64, 300])
def test_the_size_it_gives_is_what_its_entries_take(key_bytes: int) -> None:
    tracemalloc.start()
    try:
        offsets = OffsetMap(1_000_000_000)
        before = tracemalloc.get_traced_memory()[0]
        for batch in range(120):
            first = batch * 100
            offsets.add([b"%0*d" % (key_bytes, number) for number in range(first, first + 100)], first + 99)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert offsets.fullness * 1_000_000_000 == pytest.approx(taken, rel=0.2)


def test_a_table_is_as_large_as_the_dictionaries_of_this_python() -> None:
    for entries in (90_000, 200_000):
        table: dict[bytes, int] = {}
        for number in range(entries):
            table[b"%d" % number] = 0
        assert table_bytes(entries) == pytest.approx(sys.getsizeof(table), rel=0.02)


def test_a_full_map_has_no_room_and_an_empty_one_always_has() -> None:
    offsets = OffsetMap(5_000)
    assert offsets.has_room(1_000_000)
    offsets.add([b"%d" % number for number in range(20)], 19)
    assert offsets.has_room(1)
    assert not offsets.has_room(40)
