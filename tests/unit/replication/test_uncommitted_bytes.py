"""Which bytes are readable, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.replication.uncommitted_bytes import UncommittedBytes


def test_bytes_become_readable_once_when_the_watermark_has_passed_them() -> None:
    uncommitted = UncommittedBytes()
    uncommitted.add(3, 100)
    uncommitted.add(5, 50)
    uncommitted.commit(4)
    assert (uncommitted.take_readable(), uncommitted.take_readable()) == (100, 0)
    uncommitted.commit(5)
    assert uncommitted.take_readable() == 50


def test_truncated_bytes_never_become_readable() -> None:
    uncommitted = UncommittedBytes()
    for end_offset in (3, 5, 9):
        uncommitted.add(end_offset, 10)
    uncommitted.truncate(5)
    uncommitted.commit(9)
    assert uncommitted.take_readable() == 20


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 100), st.integers(0, 3))))
def test_exactly_the_bytes_below_the_watermark_become_readable(steps: list[tuple[int, int, int]]) -> None:
    uncommitted, appended, readable, end, watermark = UncommittedBytes(), list[tuple[int, int]](), 0, 0, 0
    for count, size, step in steps:
        end += count
        uncommitted.add(end, size)
        appended.append((end, size))
        watermark = min(watermark + step, end)
        uncommitted.commit(watermark)
        readable += uncommitted.take_readable()
        assert readable == sum(size for end_offset, size in appended if end_offset <= watermark)
