"""Packed keys give what a dictionary gives, whatever the keys are."""

from __future__ import annotations

import tracemalloc
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.storage.compaction.packed_keys import BUFFERS, DIGEST_BYTES, ENTRY_BYTES, KEY_BYTES_MAX, PackedKeys
from tests.support.alone import Alone

LONG = b"a key that is longer than those which are stored"
DIGEST = blake2b(LONG, digest_size=DIGEST_BYTES).digest()
KEYS = st.one_of(
    st.sampled_from([b"", LONG, DIGEST, DIGEST[:-1], LONG + b"\0"]),
    # Keys that are prefixes of others, and whose padding looks like a key.
    st.integers(0, 40).map(bytes),
    st.binary(max_size=2 * KEY_BYTES_MAX),
)
BATCHES = st.lists(st.tuples(st.lists(KEYS, max_size=12), st.booleans()), max_size=12)


@given(BATCHES, st.lists(KEYS, max_size=12))
def test_the_newest_numbers_are_those_of_a_dictionary(
    batches: list[tuple[list[bytes], bool]], others: list[bytes]
) -> None:
    packed, newest = PackedKeys(), dict[bytes, int]()
    number = 0
    for keys, settles in batches:
        numbers = range(number, number + len(keys))
        packed.add(keys, numbers)
        newest.update(zip(keys, numbers, strict=True))
        number += len(keys)
        if settles:
            packed.settle()
            assert (packed.entries, packed.unsettled) == (len(newest), 0)
    assert sorted(packed.newest_numbers()) == sorted(newest.values())
    sought = [*newest, *others]
    assert packed.contained(sought) == [key in newest for key in sought]


def test_many_keys_in_one_bucket_are_found_and_no_others_even_where_their_bytes_follow_one_another() -> None:
    present = [b"%d" % number for number in range(20 * BUFFERS)]
    packed = PackedKeys()
    packed.add(present, range(len(present)))
    absent = [b"%d" % number for number in range(20 * BUFFERS, 40 * BUFFERS)]
    assert packed.contained(present + absent) == [True] * len(present) + [False] * len(absent)


@pytest.mark.parametrize("size", range(1, DIGEST_BYTES))
def test_a_key_whose_stored_bytes_begin_inside_another_is_not_contained(size: int) -> None:
    # All are in one bucket of a buffer: what is sought ends in the next entry, or is found behind it again.
    packed = PackedKeys()
    inside = bytes([size]) + bytes(size)
    keys = [bytes(at) + inside + b"\1" * end for at in range(3) for end in range(3)]
    keys = [key for key in keys if len(key) <= KEY_BYTES_MAX]
    packed.add(keys, range(len(keys)))
    assert packed.contained([*keys, bytes(size)]) == [True] * len(keys) + [False]


def test_a_key_is_not_taken_for_a_longer_one_with_its_digest() -> None:
    packed = PackedKeys()
    packed.add([LONG], [0])
    assert packed.contained([DIGEST, LONG]) == [False, True]


def taken_peak_and_size(key_bytes: int, count: int) -> tuple[int, int, int]:
    """The bytes that so many entries take, the most while they are read and settled, and what `size` says of that."""
    tracemalloc.start()
    try:
        packed = PackedKeys()
        before = tracemalloc.get_traced_memory()[0]
        for first in range(0, count, 100):
            numbers = range(first, first + 100)
            packed.add([b"%0*d" % (key_bytes, number) for number in numbers], numbers)
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.reset_peak()
        assert sum(1 for _ in packed.newest_numbers()) == count
        packed.settle()
        return taken, tracemalloc.get_traced_memory()[1] - before, packed.size(0)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("key_bytes", [8, 36])
def test_an_entry_takes_24_bytes_whatever_its_key_and_an_eighth_more_while_buffers_grow(
    key_bytes: int, alone: Alone
) -> None:
    count = 30_000
    taken, peak, size = alone(taken_peak_and_size, key_bytes, count)
    assert taken <= count * (ENTRY_BYTES * 9 / 8 + 1)
    assert peak <= size * 1.02
