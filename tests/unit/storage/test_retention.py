"""Which segments go."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.records.batch import Record
from sordini.storage import batch_scan
from sordini.storage.log_config import LogConfig
from sordini.storage.retention import BUILT_IN, DeletePolicy, Retention, RetentionContext, SegmentAge
from tests.support.builders import a_batch
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_disk, a_manager
from tests.unit.storage.test_log import a_log, put

KEEP = LogConfig(retention_ms=-1, retention_bytes=-1)


def ages(*timestamps: int, size: int = 100) -> list[SegmentAge]:
    count = len(timestamps)
    return [
        SegmentAge(10 * (number + 1), size, timestamp, number == count - 1)
        for number, timestamp in enumerate(timestamps)
    ]


def context_of(
    segments: list[SegmentAge], config: LogConfig, now_ms: int = 0, high_watermark: int = 10_000, start: int = 0
) -> RetentionContext:
    total = sum(segment.size for segment in segments)
    return RetentionContext(PARTITION, now_ms, total, start, high_watermark, config)


def due(
    segments: list[SegmentAge], config: LogConfig, *, now_ms: int = 0, high_watermark: int = 10_000, start: int = 0
) -> int:
    return Retention().due(segments, context_of(segments, config, now_ms, high_watermark, start))


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


class Answering:
    """A policy of another package."""

    def __init__(self, answer: Callable[[Sequence[SegmentAge]], object]) -> None:
        self._answer = answer

    def due(self, segments: Sequence[SegmentAge], context: RetentionContext) -> int:
        return self._answer(segments)  # type: ignore[return-value]


def test_a_custom_policy_deletes_beside_the_built_in_ones() -> None:
    segments = ages(1, 2, 3, 4)
    config = KEEP._replace(retention_bytes=300)
    assert Retention([*BUILT_IN.values(), Answering(lambda _: 2)]).due(segments, context_of(segments, config)) == 2
    assert Retention([*BUILT_IN.values(), Answering(lambda _: 0)]).due(segments, context_of(segments, config)) == 1
    assert Retention([Answering(lambda _: 0)]).due(segments, context_of(segments, config)) == 0
    assert (
        Retention([Answering(lambda _: 2)]).due(segments, context_of(segments, config._replace(cleanup_delete=False)))
        == 0
    )


def test_no_policy_goes_past_the_high_watermark_nor_takes_an_empty_active_segment() -> None:
    everything: list[DeletePolicy] = [Answering(len)]
    segments = ages(1, 2, 3)
    assert Retention(everything).due(segments, context_of(segments, KEEP, high_watermark=20)) == 2
    assert Retention(everything).due(segments, context_of(segments, KEEP, high_watermark=9)) == 0
    empty = [*ages(1, 2)[:1], SegmentAge(10, 0, 0, True)]
    assert Retention(everything).due(empty, context_of(empty, KEEP)) == 1


@pytest.mark.parametrize("answer", [-1, 4, None, 1.5, True, "2"])
def test_a_policy_that_answers_nonsense_deletes_nothing_and_is_reported_once(answer: object) -> None:
    reported: list[str] = []
    retention = Retention([Answering(lambda _: answer)], reported.append)
    segments = ages(1, 2, 3)
    assert [retention.due(segments, context_of(segments, KEEP)) for _ in range(3)] == [0, 0, 0]
    assert reported == [f"delete policy Answering returned {answer!r} for 3 segments: it deletes nothing there"]


def test_a_policy_that_raises_deletes_nothing_and_the_others_go_on() -> None:
    reported: list[str] = []
    retention = Retention([Answering(lambda segments: segments[99]), BUILT_IN["size"]], reported.append)
    segments = ages(1, 2, 3)
    config = KEEP._replace(retention_bytes=100)
    assert [retention.due(segments, context_of(segments, config)) for _ in range(2)] == [2, 2]
    assert len(reported) == 1
    assert "IndexError" in reported[0]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 100)), min_size=1, max_size=12),
    st.integers(-1, 60),
    st.integers(-1, 1_000),
    st.integers(0, 130),
    st.integers(0, 130),
    st.booleans(),
)
def test_what_goes_is_bounded_by_every_limit(
    shapes: list[tuple[int, int]],
    retention_ms: int,
    retention_bytes: int,
    high_watermark: int,
    start: int,
    delete: bool,
) -> None:
    count = len(shapes)
    segments = [
        SegmentAge(10 * (number + 1), size, timestamp, number == count - 1)
        for number, (timestamp, size) in enumerate(shapes)
    ]
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes, cleanup_delete=delete)
    gone = due(segments, config, now_ms=50, high_watermark=high_watermark, start=start)
    total = sum(segment.size for segment in segments)
    for number, segment in enumerate(segments[:gone]):
        left = total - sum(other.size for other in segments[: number + 1])
        by_size = delete and retention_bytes >= 0 and left >= retention_bytes
        by_time = (
            delete
            and retention_ms >= 0
            and all(50 - other.largest_timestamp > retention_ms for other in segments[: number + 1])
        )
        by_start = segment.end_offset <= start and not segment.is_active
        assert by_size or by_time or by_start
        assert segment.end_offset <= high_watermark
        assert not (segment.is_active and segment.size == 0)


def test_a_segments_indexes_are_only_read_when_the_segment_is_checked() -> None:
    disk = a_disk()
    log = a_log(disk)
    for _ in range(20):
        put(log)
    asked: list[int] = []

    def first_alone(segments: Sequence[SegmentAge]) -> int:
        asked.append(segments[0].end_offset)
        return 0

    log.log_dir.retention = Retention([Answering(first_alone)])
    assert log.apply_retention(0, 40) == []
    assert asked == [log.segments.all()[1].base]


def test_the_youngest_record_of_a_segment_counts_and_without_times_the_file_does() -> None:
    disk = a_disk()
    disk.now_ms = lambda: 5_000
    log = a_log(disk, segment_bytes=100_000, retention_ms=1_000)
    put(log, a_batch([Record(0, 4_500, None, b""), Record(1, 100, None, b"")]))
    log.roll(0)
    put(log, a_batch([Record(0, -1, None, b"")]))
    log.roll(0)
    put(log, a_batch(1, timestamp=9_000))
    assert log.apply_retention(5_500, 4) == []
    assert log.apply_retention(5_501, 4) == [0]
    assert log.apply_retention(6_000, 4) == []
    assert log.apply_retention(6_001, 4) == [2]


async def test_a_log_start_that_was_moved_survives_a_kill_a_second_later() -> None:
    disk = a_disk()
    manager = a_manager(disk)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, SMALL)
    for _ in range(4):
        put(log)
    log.high_watermark = 8
    await manager.tick(0)
    log.advance_log_start(3)
    await manager.tick(1)
    again = a_manager(disk.killed())
    again.open(0)
    found = again.get(PARTITION)
    assert found is not None
    assert found.log_start_offset == 3


def test_a_reader_that_walks_over_segments_that_are_deleted_finishes_what_it_reads() -> None:
    disk = a_disk()
    log = a_log(disk, retention_bytes=0)
    for _ in range(12):
        put(log)
    held = log.segments.all()
    reading = batch_scan.headers(held[0].handle, 0, held[0].size)
    seen = [next(reading)[1].base_offset]
    assert log.apply_retention(0, 24)
    for path in log.take_due(1_000):
        disk.remove(path)
    assert len(held) == 2
    assert len(log.segments.all()) == 1
    seen += [header.base_offset for _, header in reading]
    assert seen == list(range(0, held[1].base, 2))
    assert not any(name.startswith(f"{0:020d}") for name in disk.list_directory(log.directory))
