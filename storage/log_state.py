"""The values that go into a log and come out of it."""

from __future__ import annotations

from typing import NamedTuple

from sordini.protocol.types import TopicId
from sordini.storage.epoch_cache import EpochCache
from sordini.storage.producer_state import ProducerState
from sordini.storage.segment import Segment


class Appended(NamedTuple):
    """Where records went. For a duplicate: where they already are."""

    base_offset: int
    end_offset: int
    append_time_ms: int
    """-1 where the topic keeps the producers' own times."""
    log_start_offset: int
    duplicate: bool


class LogContents(NamedTuple):
    """What was found in, or made for, a partition's directory."""

    topic_id: TopicId
    segments: list[Segment]
    producers: ProducerState
    epochs: EpochCache
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    is_new: bool
    """Made just now: not even the directory's name is known to be on the disk."""
    names_are_synced: bool
