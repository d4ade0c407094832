"""Pages of the segments of a topic, merged from what several leaders answer."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sordini.admin.topics.segments import _page
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.describe_segments import SegmentRow, SegmentsPartitionResult
from tests.support.parts import examples

LOGS = st.dictionaries(st.integers(0, 8), st.tuples(st.integers(1, 9), st.integers(0, 2)), max_size=8)
"""By partition: its number of segments, and its leader."""


def answered(
    logs: dict[int, tuple[int, int]], start: tuple[int, int], count: int, bounds: dict[int, int]
) -> list[SegmentsPartitionResult]:
    """What the leaders answer, each with its own bound. A segment holds ten offsets."""
    found = []
    left = {leader: min(count, bounds[leader]) for leader in bounds}
    for partition, (segments, leader) in sorted(logs.items()):
        if partition < start[0]:
            continue
        first = start[1] if partition == start[0] else -1
        bases = [number * 10 for number in range(segments) if (number + 1) * 10 > first or number == segments - 1]
        taken = bases[: left[leader]]
        left[leader] -= len(taken)
        following = bases[len(taken)] if len(taken) < len(bases) else -1
        rows = [SegmentRow(base_offset=base, end_offset=base + 10) for base in taken]
        found.append(
            SegmentsPartitionResult(
                partition_index=partition, segment_count=segments, next_offset=following, segments=rows
            )
        )
    return found


@settings(max_examples=examples(200))
@given(LOGS, st.integers(1, 7), st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_pages_together_have_every_segment_once_and_in_order(
    logs: dict[int, tuple[int, int]], count: int, bounds: list[int]
) -> None:
    start, seen = (0, 0), []
    for _ in range(200):
        page = _page("t", answered(logs, start, count, dict(enumerate(bounds))), count, [], is_reported=True)
        assert len(page.rows) <= count
        seen += [(one.partition, one.row.base_offset) for one in page.rows]
        if page.following is None:
            break
        assert page.following > start or not seen
        start = page.following
    assert seen == [(partition, number * 10) for partition, (n, _) in sorted(logs.items()) for number in range(n)]


def test_a_partition_that_is_refused_is_a_problem_of_its_own() -> None:
    rows = [
        SegmentsPartitionResult(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        SegmentsPartitionResult(partition_index=1, segment_count=1, log_bytes=5, segments=[SegmentRow()]),
    ]
    page = _page("orders", rows, 10, ["before"], is_reported=True)
    assert page.problems[0] == "before"
    assert page.problems[1].startswith("partition orders-0: ")
    assert [one.partition for one in page.rows] == [1]
    assert list(page.totals) == [1]
