"""Which segments are copied into one: cleaning leaves small neighbours, which become a segment of full size."""

from __future__ import annotations

from sordini.storage import offset_index, time_index
from sordini.storage.compaction.task import CleaningTask, SegmentSpan
from sordini.storage.segment_roll import OFFSETS_MAX


def group_segments(task: CleaningTask, cleaned_to: int) -> list[tuple[SegmentSpan, ...]]:
    """The segments with anything below `cleaned_to`, in order, each group small enough for one segment.

    By the sizes before the cleaning, so that the copy fits; a segment that is too large is a group of its own.
    """
    groups: list[tuple[SegmentSpan, ...]] = []
    group: tuple[SegmentSpan, ...] = ()
    for span in task.segments:
        if span.base >= cleaned_to:
            break
        if group and not _fit(task, (*group, span)):
            groups.append(group)
            group = ()
        group = (*group, span)
    return [*groups, group] if group else groups


def _fit(task: CleaningTask, group: tuple[SegmentSpan, ...]) -> bool:
    size = sum(span.size for span in group)
    # An entry is added when more than the interval was written since the last; the time index has one more at its end.
    entries = size // (task.index_interval_bytes + 1)
    return (
        size <= task.segment_bytes
        and entries * offset_index.ENTRY_SIZE <= task.segment_index_bytes
        and (entries + 1) * time_index.ENTRY_SIZE <= task.segment_index_bytes
        and group[-1].end_offset - group[0].base <= OFFSETS_MAX
    )
