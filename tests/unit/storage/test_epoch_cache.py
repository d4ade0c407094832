"""Leader epochs: where each began, and where a follower finds the point at which two logs part."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from sordini.storage.epoch_cache import EpochCache

CACHE = [(2, 10), (5, 40), (6, 60)]


def test_the_current_epoch_ends_at_the_log_end() -> None:
    assert EpochCache(CACHE).end_offset(6, 99) == (6, 99)


def test_an_older_epoch_ends_where_the_next_begins() -> None:
    assert EpochCache(CACHE).end_offset(2, 99) == (2, 40)


def test_an_epoch_in_a_gap_is_answered_with_the_one_before_it() -> None:
    assert EpochCache(CACHE).end_offset(4, 99) == (2, 40)


def test_an_epoch_before_all_ends_where_the_first_begins() -> None:
    assert EpochCache(CACHE).end_offset(1, 99) == (1, 10)


def test_an_unknown_epoch_is_answered_with_undefined() -> None:
    assert EpochCache(CACHE).end_offset(7, 99) == (-1, -1)
    assert EpochCache(CACHE).end_offset(-1, 99) == (-1, -1)
    assert EpochCache().end_offset(0, 99) == (-1, -1)


def test_an_epoch_that_starts_where_another_does_replaces_it() -> None:
    cache = EpochCache(CACHE)
    assert cache.assign(8, 60)
    assert cache.entries == [(2, 10), (5, 40), (8, 60)]
    assert not cache.assign(8, 70)


def test_truncation_forgets_epochs_at_both_ends() -> None:
    cache = EpochCache(CACHE)
    cache.truncate_from_end(60)
    assert cache.entries == [(2, 10), (5, 40)]
    assert cache.latest == 5
    cache.truncate_from_start(45)
    assert cache.entries == [(5, 45)]
    assert cache.changed


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100)), max_size=20))
def test_entries_always_rise_in_epoch_and_offset(assigned: list[tuple[int, int]]) -> None:
    cache = EpochCache()
    for epoch, offset in assigned:
        cache.assign(epoch, offset)
        entries = cache.entries
        assert all(one[0] < two[0] and one[1] < two[1] for one, two in itertools.pairwise(entries))
        assert cache.latest == epoch
        assert cache.epoch_at(offset) == epoch
