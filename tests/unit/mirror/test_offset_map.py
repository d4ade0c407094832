"""Translation of offsets: exact where segments are known, never too far anywhere."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sordini.mirror.offset_map import SEGMENTS_MAX, OffsetMap, Segment


def map_of(*segments: tuple[int, int, int]) -> OffsetMap:
    made = OffsetMap()
    for segment in segments:
        made.add(Segment(*segment))
    return made


def test_inside_a_segment_the_translation_is_exact() -> None:
    known = map_of((100, 10, 5))
    assert [known.translate(offset) for offset in (100, 103, 105)] == [10, 13, 15]


def test_an_offset_past_all_that_is_copied_becomes_the_end_of_what_is_copied() -> None:
    assert map_of((100, 10, 5)).translate(900) == 15


def test_an_offset_between_two_segments_becomes_the_end_of_the_first() -> None:
    assert map_of((100, 10, 5), (110, 16, 5)).translate(107) == 15


def test_an_offset_before_all_that_is_known_has_no_translation() -> None:
    assert map_of((100, 10, 5)).translate(99) is None
    assert OffsetMap().translate(0) is None


def test_where_the_target_was_empty_an_offset_before_the_first_copy_becomes_its_beginning() -> None:
    assert map_of((100, 0, 5)).translate(7) == 0


def test_what_is_copied_again_replaces_what_was_known() -> None:
    known = map_of((100, 10, 5), (105, 15, 5), (0, 40, 3))
    assert known.translate(2) == 42
    assert known.translate(105) == 43


def test_many_segments_are_bounded_and_the_newest_are_kept() -> None:
    known = OffsetMap()
    count = 10 * SEGMENTS_MAX
    for index in range(count):
        known.add(Segment(3 * index, 2 * index, 1))
    assert known.translate(0) == 0
    recent = range(count - SEGMENTS_MAX // 4, count)
    assert [known.translate(3 * index) for index in recent] == [2 * index for index in recent]


@st.composite
def histories(draw: st.DrawFn) -> list[Segment]:
    """Segments as copies make them: gaps in the source, markers in the target."""
    upstream, downstream, found = draw(st.integers(0, 50)), draw(st.integers(0, 50)), []
    for _ in range(draw(st.integers(1, 40))):
        count = draw(st.integers(1, 20))
        found.append(Segment(upstream, downstream, count))
        upstream += count + draw(st.integers(0, 5))
        downstream += count + draw(st.integers(0, 3))
    return found


@given(segments=histories(), kept=st.data())
def test_no_translation_is_past_a_record_that_was_not_read(segments: list[Segment], kept: st.DataObject) -> None:
    """Also where some segments were compacted away before a restart."""
    known = [segment for segment in segments if kept.draw(st.booleans())]
    translated = map_of(*known)
    end = segments[-1].upstream_end + 2
    answers = []
    for offset in range(end):
        found = translated.translate(offset)
        unread = [
            segment.downstream + max(0, offset - segment.upstream)
            for segment in segments
            if offset < segment.upstream_end
        ]
        if found is not None and unread:
            assert found <= unread[0]
        if found is not None:
            answers.append(found)
    assert all(before <= after for before, after in pairwise(answers))


@given(segments=histories())
def test_with_all_segments_known_a_group_reads_no_record_twice(segments: list[Segment]) -> None:
    translated = map_of(*segments)
    for segment in segments:
        for delta in range(segment.record_count):
            assert translated.translate(segment.upstream + delta) == segment.downstream + delta
