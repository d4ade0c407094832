"""What counts as readable, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.replication.uncommitted_bytes import UncommittedBytes


def test_bytes_count_when_the_watermark_has_passed_them_and_once() -> None:
    growth = UncommittedBytes()
    growth.hold(3, 100)
    growth.hold(5, 50)
    growth.reached(4)
    assert (growth.taken(), growth.taken()) == (100, 0)
    growth.reached(5)
    assert growth.taken() == 50


def test_what_was_cut_off_never_counts() -> None:
    growth = UncommittedBytes()
    for end_offset in (3, 5, 9):
        growth.hold(end_offset, 10)
    growth.cut(5)
    growth.reached(9)
    assert growth.taken() == 20


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 100), st.integers(0, 3))))
def test_whatever_lies_below_the_watermark_was_told_and_nothing_else(steps: list[tuple[int, int, int]]) -> None:
    growth, came, told, end, watermark = UncommittedBytes(), list[tuple[int, int]](), 0, 0, 0
    for count, size, further in steps:
        end += count
        growth.hold(end, size)
        came.append((end, size))
        watermark = min(watermark + further, end)
        growth.reached(watermark)
        told += growth.taken()
        assert told == sum(size for end_offset, size in came if end_offset <= watermark)
