"""What the topics of mirrors say: aliases, separators, and topics with their progress."""

from __future__ import annotations

from sordini.console.readers.mirrors import MirroredTopic, MirrorSource, _alias, _separator, _topics
from sordini.mirror.formats import Position
from sordini.mirror.naming import Names
from sordini.protocol.types import TopicPartition


def at(topic: str, partition: int, offset: int, time_ms: int) -> tuple[Position | None, int]:
    return Position(TopicPartition(topic, partition), offset), time_ms


def test_an_alias_is_in_the_name_of_the_topic_of_positions() -> None:
    assert _alias("mm2-offsets.east.internal") == "east"
    assert _alias("mm2-offsets.far.east.internal") == "far.east"
    assert _alias("mm2-offset-syncs.east.internal") is None
    assert _alias("orders") is None


def test_the_separator_is_that_of_the_copied_heartbeats() -> None:
    assert _separator("east", ["heartbeats", "east-heartbeats", "east-orders"]) == "-"
    assert _separator("east", ["eastheartbeats", "orders"]) == "."


def test_topics_have_the_last_position_of_each_partition_and_the_time_of_the_newest() -> None:
    written = [
        at("orders", 0, 5, 100),
        at("orders", 1, 7, 300),
        at("orders", 0, 9, 200),
        (None, 400),
        at("payments", 0, 1, 50),
        at("gone", 0, 2, 60),
    ]
    counts = {"east.orders": 3, "payments": 1, "orders": 9}
    assert _topics(written, Names("east", ""), counts) == [
        MirroredTopic("gone", None, 1, 0, 2, 60, None),
        MirroredTopic("orders", "east.orders", 2, 3, 16, 300, None),
        MirroredTopic("payments", "payments", 1, 1, 1, 50, None),
    ]


def test_a_mirror_without_a_heartbeat_for_half_a_minute_is_silent() -> None:
    source = MirrorSource("east", [], 0, [], 0, beat_ms=1_000, copied_beat_ms=None)
    assert not source.is_silent(31_000)
    assert source.is_silent(31_001)
    assert not source._replace(beat_ms=None).is_silent(10**12), "a mirror may write none"
