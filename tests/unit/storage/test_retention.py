"""Which segments go."""

from __future__ import annotations

from sordini.storage.log_config import LogConfig
from sordini.storage.retention import SegmentAge, due_segments

KEEP = LogConfig(retention_ms=-1, retention_bytes=-1)


def ages(*timestamps: int, size: int = 100) -> list[SegmentAge]:
    count = len(timestamps)
    return [
        SegmentAge(10 * (number + 1), size, timestamp, number == count - 1)
        for number, timestamp in enumerate(timestamps)
    ]


def due(
    segments: list[SegmentAge], config: LogConfig, *, now_ms: int = 0, high_watermark: int = 10_000, start: int = 0
) -> int:
    total = sum(segment.size for segment in segments)
    return len(due_segments(segments, total, config, now_ms, high_watermark, start))


def test_segments_older_than_the_limit_go_oldest_first() -> None:
    config = KEEP._replace(retention_ms=1_000)
    assert due(ages(1, 2, 3_000), config, now_ms=1_002) == 1
    assert due(ages(1, 2, 3_000), config, now_ms=1_003) == 2


def test_a_young_segment_keeps_the_older_ones_after_it() -> None:
    assert due(ages(5_000, 1, 1), KEEP._replace(retention_ms=1_000), now_ms=5_500) == 0


def test_the_active_segment_goes_too_when_all_of_it_is_old() -> None:
    assert due(ages(1, 2), KEEP._replace(retention_ms=1_000), now_ms=9_000) == 2


def test_an_empty_active_segment_stays() -> None:
    assert due([SegmentAge(0, 0, 0, True)], KEEP._replace(retention_ms=1_000), now_ms=9_000) == 0


def test_size_deletes_only_what_leaves_at_least_the_limit() -> None:
    assert due(ages(1, 2, 3, 4), KEEP._replace(retention_bytes=200)) == 2
    assert due(ages(1, 2, 3, 4), KEEP._replace(retention_bytes=201)) == 1


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    config = KEEP._replace(retention_ms=1_000)
    assert due(ages(1, 2, 3), config, now_ms=9_000, high_watermark=20) == 2
    assert due(ages(1, 2, 3), config, now_ms=9_000, high_watermark=19) == 1


def test_segments_below_the_log_start_go_whatever_the_policy() -> None:
    assert due(ages(1, 2, 3), KEEP._replace(cleanup_delete=False), start=20) == 2


def test_a_compacted_topic_keeps_old_and_large_segments() -> None:
    config = LogConfig(retention_ms=1, retention_bytes=1, cleanup_delete=False)
    assert due(ages(1, 2, 3), config, now_ms=9_000) == 0
