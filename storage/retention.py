"""Which segments are due to be deleted. Pure: ages and sizes are arguments, the log carries the verdict out.

Only a run of oldest segments may go, never one that holds a record at or above the high watermark, and never an
active segment without records. Deleting the active one means rolling it first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sordini.storage.log_config import UNLIMITED, LogConfig


class SegmentAge(NamedTuple):
    """What decides about one segment; `end_offset` is the first offset of the next."""

    end_offset: int
    size: int
    largest_timestamp: int
    """ms; the file's modification time for a segment without timestamps."""
    is_active: bool


def due_segments(
    segments: Iterable[SegmentAge],
    log_bytes: int,
    config: LogConfig,
    now_ms: int,
    high_watermark: int,
    log_start_offset: int,
) -> list[SegmentAge]:
    """The oldest segments that are to be deleted. `segments` come oldest first, and are asked for only so far."""
    excess = 0
    if config.cleanup_delete and config.retention_bytes != UNLIMITED:
        excess = log_bytes - config.retention_bytes
    due = []
    for segment in segments:
        if segment.end_offset > high_watermark or (segment.is_active and segment.size == 0):
            break
        # The start offset was moved (DeleteRecords): the segment has nothing left that may be read.
        passed = segment.end_offset <= log_start_offset and not segment.is_active
        if not (passed or _is_old(segment, config, now_ms) or excess >= segment.size):
            break
        excess -= segment.size
        due.append(segment)
    return due


def _is_old(segment: SegmentAge, config: LogConfig, now_ms: int) -> bool:
    if not config.cleanup_delete or config.retention_ms == UNLIMITED:
        return False
    return now_ms - segment.largest_timestamp > config.retention_ms
