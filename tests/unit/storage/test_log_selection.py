"""Which log is compacted next, and which part of it: Apache Kafka's rules as a table."""

from __future__ import annotations

from typing import Any

import pytest

from sordini.storage.compaction.log_selection import (
    Cleanable,
    CleanerConfig,
    LogFacts,
    filthiest,
    find_cleanable,
    needs_first_times,
    patience_s,
    task_of,
)
from sordini.storage.compaction.task import SegmentSpan
from sordini.storage.log_config import LogConfig

NOW_MS = 1_000_000
COMPACTED = LogConfig(cleanup_compact=True, cleanup_delete=False)
MIB = 1024 * 1024


def spans(*times: int, size: int = 100) -> list[SegmentSpan]:
    """Segments of ten offsets each."""
    return [
        SegmentSpan(10 * number, size, 10 * number + 10, modified_ms=0, largest_timestamp=time)
        for number, time in enumerate(times)
    ]


def facts(segments: list[SegmentSpan], **known: Any) -> LogFacts:
    """A log of which everything is committed and synced, with an active segment of 10 records."""
    end = segments[-1].end_offset if segments else 0
    usual: dict[str, Any] = {
        "checkpoint": None,
        "log_start_offset": 0,
        "log_end_offset": end + 10,
        "active_base": end,
        "last_stable_offset": end + 10,
        "recovery_point": end + 10,
    }
    return LogFacts(segments, **{**usual, **known})


FOUR = spans(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("known", "first_dirty", "uncleanable", "clean_bytes", "dirty_bytes"),
    [
        # Never cleaned: all but the active segment is dirty.
        ({}, 0, 40, 0, 400),
        ({"checkpoint": 20}, 20, 40, 200, 200),
        # A segment that is clean in part counts on both sides, as in Apache Kafka.
        ({"checkpoint": 25}, 25, 40, 300, 200),
        ({"checkpoint": 40}, 40, 40, 400, 0),
        # The last stable offset (or the high watermark) inside a segment keeps the whole of it away.
        ({"last_stable_offset": 35}, 0, 30, 0, 300),
        ({"last_stable_offset": 30}, 0, 30, 0, 300),
        ({"checkpoint": 20, "last_stable_offset": 5}, 20, 20, 200, 0),
        # What is not on the disk waits.
        ({"recovery_point": 29}, 0, 20, 0, 200),
        # A checkpoint below the log's start is the start.
        ({"checkpoint": 5, "log_start_offset": 12}, 12, 40, 200, 300),
        ({"log_start_offset": 12}, 12, 40, 200, 300),
        # One past the log's end is of a log that was there before.
        ({"checkpoint": 51}, 0, 40, 0, 400),
        ({"checkpoint": 50}, 50, 50, 400, 0),
    ],
)
def test_what_is_clean_what_is_dirty_and_what_may_not_be_touched(
    known: dict[str, int], first_dirty: int, uncleanable: int, clean_bytes: int, dirty_bytes: int
) -> None:
    part = find_cleanable(facts(FOUR, **known), COMPACTED, NOW_MS)
    assert (part.first_dirty_offset, part.uncleanable_offset) == (first_dirty, uncleanable)
    assert (part.clean_bytes, part.dirty_bytes) == (clean_bytes, dirty_bytes)


def test_a_checkpoint_outside_the_log_is_reported() -> None:
    assert find_cleanable(facts(FOUR, checkpoint=51), COMPACTED, NOW_MS).was_reset
    assert find_cleanable(facts(FOUR, checkpoint=5, log_start_offset=6), COMPACTED, NOW_MS).was_reset
    assert not find_cleanable(facts(FOUR, checkpoint=50), COMPACTED, NOW_MS).was_reset
    assert not find_cleanable(facts(FOUR), COMPACTED, NOW_MS).was_reset


def test_a_log_without_closed_segments_has_nothing_to_clean() -> None:
    part = find_cleanable(facts([]), COMPACTED, NOW_MS)
    assert (part.ratio, part.dirty_bytes) == (0.0, 0)
    assert not part.is_due(COMPACTED)


@pytest.mark.parametrize(
    ("checkpoint", "wanted_ratio", "is_due"),
    [(20, 0.5, False), (20, 0.49, True), (30, 0.25, False), (None, 0.99, True), (None, 1.0, False), (40, 0.0, False)],
)
def test_a_log_is_due_when_its_dirty_share_is_above_the_wanted_one(
    checkpoint: int | None, wanted_ratio: float, is_due: bool
) -> None:
    config = COMPACTED._replace(min_cleanable_dirty_ratio=wanted_ratio)
    assert find_cleanable(facts(FOUR, checkpoint=checkpoint), config, NOW_MS).is_due(config) is is_due


@pytest.mark.parametrize(
    ("times", "lag_ms", "uncleanable"),
    [
        ((100, 200, 300, 400), 600, 40),
        ((100, 200, 401, 100), 600, 20),  # What follows a young segment is kept away with it.
        ((100, 200, 400, 401), 600, 30),
        ((100, 200, 300, 400), 0, 40),
        ((-1, -1, -1, -1), 600, 40),  # Without times nothing is young.
    ],
)
def test_nothing_younger_than_the_least_lag_is_cleaned(times: tuple[int, ...], lag_ms: int, uncleanable: int) -> None:
    config = COMPACTED._replace(min_compaction_lag_ms=lag_ms)
    assert find_cleanable(facts(spans(*times)), config, 1_000).uncleanable_offset == uncleanable


def test_young_segments_that_are_clean_already_hold_nothing_up() -> None:
    config = COMPACTED._replace(min_compaction_lag_ms=600)
    part = find_cleanable(facts(spans(999, 100, 100, 999), checkpoint=10), config, 1_000)
    assert (part.first_dirty_offset, part.uncleanable_offset) == (10, 30)


@pytest.mark.parametrize(
    ("first_times", "checkpoint", "is_due"),
    [
        ((399, 500, 600, 700), 30, False),  # Old, and clean.
        ((500, 500, 500, 399), 30, True),
        ((500, 500, 500, 400), 30, False),
        ((-1, -1, -1, 0), 30, False),
        ((500, 500, 500, 399), 40, False),  # Nothing is dirty.
    ],
)
def test_a_dirty_record_older_than_the_greatest_lag_makes_a_log_due_whatever_its_ratio(
    first_times: tuple[int, ...], checkpoint: int, is_due: bool
) -> None:
    config = COMPACTED._replace(max_compaction_lag_ms=600)
    part = find_cleanable(facts(FOUR, checkpoint=checkpoint, first_times=first_times), config, 1_000)
    assert part.is_due(config) is is_due


def test_what_is_overdue_and_may_not_be_cleaned_is_not_due() -> None:
    config = COMPACTED._replace(max_compaction_lag_ms=600)
    part = find_cleanable(facts(FOUR, last_stable_offset=5, first_times=(1, 1, 1, 1)), config, 1_000)
    assert part.is_overdue
    assert not part.is_due(config)


def test_first_timestamps_are_only_read_where_they_can_matter() -> None:
    assert not needs_first_times(COMPACTED, NOW_MS)
    assert needs_first_times(COMPACTED._replace(max_compaction_lag_ms=600), NOW_MS)


def a_part(clean_bytes: int, dirty_bytes: int) -> Cleanable:
    return Cleanable(0, 10, clean_bytes, dirty_bytes, is_overdue=False, was_reset=False)


def test_the_filthiest_log_goes_first() -> None:
    assert filthiest([]) is None
    assert filthiest([a_part(50, 50), a_part(1, 99), a_part(99, 1)]) == 1
    assert filthiest([a_part(0, 7), a_part(0, 9_000)]) == 0


def test_a_task_has_the_segments_below_what_may_not_be_touched_and_its_share_of_the_buffers() -> None:
    config = CleanerConfig(
        threads=4, dedupe_buffer_bytes=128 * MIB, io_buffer_bytes=1024 * 1024, io_bytes_per_second=1000.0
    )
    known = facts(FOUR, checkpoint=10, last_stable_offset=39)
    part = find_cleanable(known, COMPACTED, NOW_MS)
    task = task_of("/data/t-0", known, part, COMPACTED, config, [(7, 0, 31)], NOW_MS)
    assert [span.base for span in task.segments] == [0, 10, 20]
    assert (task.first_dirty_offset, task.uncleanable_offset) == (10, 30)
    assert (task.map_bytes, task.io_buffer_bytes, task.io_bytes_per_second) == (32 * MIB, 128 * 1024, 250.0)
    assert task.producers == ((7, 0, 31),)
    assert (task.now_ms, task.delete_retention_ms) == (NOW_MS, 86_400_000)


def test_settings_that_another_process_wrote_past_us_into_the_store_leave_a_worker_enough_to_get_somewhere() -> None:
    config = CleanerConfig(threads=0, dedupe_buffer_bytes=5, io_buffer_bytes=0)
    known = facts(FOUR)
    task = task_of("/data/t-0", known, find_cleanable(known, COMPACTED, NOW_MS), COMPACTED, config, [], NOW_MS)
    assert (task.map_bytes, task.io_buffer_bytes) == (MIB, 64 * 1024)


def test_a_worker_is_given_time_in_proportion_to_its_bytes_and_rate() -> None:
    known = facts(spans(1, 1, size=1_000_000))
    part = find_cleanable(known, COMPACTED, NOW_MS)
    quick = task_of("/data/t-0", known, part, COMPACTED, CleanerConfig(), [], NOW_MS)
    slow = task_of("/data/t-0", known, part, COMPACTED, CleanerConfig(io_bytes_per_second=1000.0), [], NOW_MS)
    assert 120 < patience_s(quick) < 200
    assert patience_s(slow) > 2 * 6_000
