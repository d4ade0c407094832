"""How much of a log's files is read to find a record: the cost of a lookup does not grow with the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sordini.protocol.records.batch import Record, build_batch, read_header
from sordini.storage import batch_scan
from sordini.storage.log import Log
from tests.support.builders import writable
from tests.support.log_model import PARTITION, SMALL, TOPIC_ID, a_manager
from tests.support.watched_disk import Watched

EACH = 8
"""Records in a batch, 1 ms apart."""
NEVER_INDEXED = 1 << 20


def a_log(
    disk: Watched,
    batches: int,
    value_bytes: int,
    *,
    interval_bytes: int = 4_096,
    time_of: Callable[[int], int] = lambda offset: 1_000 + offset,
) -> Log:
    disk.make_directory("/data")
    config = SMALL._replace(segment_bytes=1 << 30, index_interval_bytes=interval_bytes, segment_index_bytes=1 << 20)
    manager = a_manager(disk, config)
    manager.open(0)
    log = manager.create(PARTITION, TOPIC_ID, config)
    for first in range(0, batches * EACH, EACH):
        records = [Record(at, time_of(first + at), None, bytes(value_bytes)) for at in range(EACH)]
        buffer = writable(build_batch(records))
        log.append(buffer, [(0, read_header(buffer))], 0, 0)
    log.segments.recent.clear()  # Of an older log: the newest batches are found without the index.
    return log


@pytest.mark.parametrize("batches", [50, 500, 5_000])
def test_a_read_anywhere_takes_three_reads_at_most_of_a_page_each(batches: int) -> None:
    disk = Watched()
    log = a_log(disk, batches, 1_024)
    for offset in range(0, log.log_end_offset, 128):
        piece = log.read(offset, 1, log.log_end_offset, whole_first=True)
        assert piece is not None
        piece.release()
    disk.reads.clear()
    for number in range(50):
        offset = number * 7_919 % log.log_end_offset
        piece = log.read(offset, 1, log.log_end_offset, whole_first=True)
        assert piece is not None
        assert piece.base == offset // EACH * EACH
        piece.release()
    assert len(disk.reads) <= 3 * 50, "one of the index, one of the batch before, one of the batch"
    assert max(size for _, size in disk.reads) <= 8_192


@pytest.mark.parametrize("batches", [50, 500, 5_000])
def test_a_lookup_by_time_takes_five_reads_at_most_and_one_of_a_whole_batch(batches: int) -> None:
    disk = Watched()
    log = a_log(disk, batches, 2_048)
    for timestamp in range(1_000, 1_000 + log.log_end_offset, 128):
        assert log.find_timestamp(timestamp, log.log_end_offset) is not None
    disk.reads.clear()
    for number in range(50):
        offset = number * 7_919 % log.log_end_offset
        found = log.find_timestamp(1_000 + offset, log.log_end_offset)
        assert found is not None
        assert found.offset == offset
    assert len(disk.reads) <= 5 * 50, "two indexes; the headers of two batches; the records"
    assert len([size for _, size in disk.reads if size > 8_192]) == 50


@pytest.mark.parametrize("late_ms", [0, 199])
def test_a_lookup_by_time_among_small_batches_walks_from_the_index_entry_before_and_rebuilds_nothing(
    late_ms: int,
) -> None:
    disk = Watched()
    # With `late_ms` the first record of each 200 is the latest of them.
    log = a_log(disk, 2_000, 32, time_of=lambda offset: 1_000 + offset + (late_ms if offset % 200 == 0 else 0))
    for offset in range(0, log.log_end_offset, 97):
        disk.reads.clear()
        found = log.find_timestamp(1_000 + offset, log.log_end_offset)
        assert found is not None
        assert found.offset == (offset // 200 * 200 if late_ms else offset)
        assert sum(size for _, size in disk.reads) <= 4 * 8_192 + 2 * 64 * 1024


@pytest.mark.parametrize(("value_bytes", "bytes_max"), [(8_192, 50 * 4_096), (16, 2 * 64 * 1024)])
def test_a_scan_of_headers_skips_large_batches_and_reads_small_ones_together(value_bytes: int, bytes_max: int) -> None:
    disk = Watched()
    log = a_log(disk, 50, value_bytes, interval_bytes=NEVER_INDEXED)
    segment = log.segments.active
    disk.reads.clear()
    found = [header.base_offset for _, header in batch_scan.headers(segment.handle, 0, segment.size)]
    assert found == list(range(0, 50 * EACH, EACH))
    assert sum(size for _, size in disk.reads) <= bytes_max
