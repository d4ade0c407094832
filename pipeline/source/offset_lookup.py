"""Looks up the partitions of a subscription, their first and end offsets, and where a query starts.

Requests go through a port, `OffsetBroker`; `client.Client` implements it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from sordini.pipeline.errors import BadSetting, PipelineError, UnknownTopic
from sordini.pipeline.source.options import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    Edge,
    OffsetsOrEdge,
    SourceOptions,
    Subscription,
    Timestamps,
)
from sordini.pipeline.source.positions import Offsets, Position
from sordini.protocol.types import TopicPartition


class OffsetBroker(Protocol):
    """The requests to a cluster."""

    def topics(self) -> list[str]:
        """All topics that may be read, without internal ones."""

    def partitions(self, topics: Iterable[str]) -> dict[str, list[int]]:
        """Raises UnknownTopic."""

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Each topic's id; empty where the cluster has no ids."""

    def offsets(self, at: Mapping[TopicPartition, int], *, read_committed: bool = False) -> dict[TopicPartition, int]:
        """The offset for each partition's time: -2 is the log start, -1 the log end, else the first at or after it."""


class NoRecordsSince(PipelineError):
    """A partition has no record at or after the time at which a query starts."""


def subscribed(broker: OffsetBroker, subscription: Subscription) -> dict[str, list[int]]:
    """The partitions of each topic; raises UnknownTopic, and BadSetting for a missing assigned partition."""
    if subscription.pattern:
        pattern = re.compile(subscription.pattern)
        return _existing(broker, [topic for topic in broker.topics() if pattern.fullmatch(topic)])
    if subscription.topics:
        return broker.partitions(subscription.topics)
    assignment = {topic: list(numbers) for topic, numbers in subscription.assignment}
    for topic, known in broker.partitions(assignment).items():
        unknown = sorted(set(assignment[topic]) - set(known))
        if unknown:
            raise BadSetting(f"assign: {topic!r} has no partition {', '.join(map(str, unknown))}")
    return assignment


def _existing(broker: OffsetBroker, names: list[str]) -> dict[str, list[int]]:
    """The partitions of the topics of a pattern: one that was deleted since they were listed is none of them."""
    try:
        return broker.partitions(names)
    except UnknownTopic as gone:
        left = [name for name in names if name not in gone.topics]
        if len(left) == len(names):
            raise
        return broker.partitions(left)


def ends(broker: OffsetBroker, options: SourceOptions) -> Position:
    """The log end offsets of the subscription now; the last stable offsets for read_committed."""
    return _position(broker, options, Edge.LATEST, "latest")


def start(broker: OffsetBroker, options: SourceOptions) -> Position:
    """Where a query without a checkpoint starts; raises NothingSoYoung and BadSetting."""
    found = _position(broker, options, options.starting, "starting")
    return found._replace(started_at=found.offsets)


def stop(broker: OffsetBroker, options: SourceOptions) -> Position:
    """Where a batch read ends; raises BadSetting for offsets that do not fit."""
    return _position(broker, options, options.ending, "ending")


def _position(broker: OffsetBroker, options: SourceOptions, where: OffsetsOrEdge, end: str) -> Position:
    known = subscribed(broker, options.subscription)
    every = [TopicPartition(topic, number) for topic, numbers in known.items() for number in numbers]
    asked = _asked(where, every, end)
    to_ask = {partition: offset for partition, offset in asked.items() if _is_asked(where, offset)}
    found = dict(asked)
    if to_ask:
        found |= broker.offsets(to_ask, read_committed=options.read_committed)
    if isinstance(where, Timestamps):
        found |= _latest_instead(broker, options, where, found)
    topic_ids = {topic: topic_id for topic, topic_id in broker.topic_ids(known).items() if topic_id}
    return Position(_by_topic(known, found), topic_ids)


def _asked(where: OffsetsOrEdge, every: Sequence[TopicPartition], end: str) -> dict[TopicPartition, int]:
    """For each partition the time to request from the broker, or the given offset."""
    match where:
        case Edge.EARLIEST:
            return dict.fromkeys(every, EARLIEST_OFFSET)
        case Edge.LATEST:
            return dict.fromkeys(every, LATEST_OFFSET)
        case Timestamps(of_all=int(timestamp)):
            return dict.fromkeys(every, timestamp)
        case Timestamps():
            given, option = where.of_each, f"{end}OffsetsByTimestamp"
        case _:
            given, option = where, f"{end}Offsets"
    named = {TopicPartition(topic, number): at for topic, each in given.items() for number, at in each.items()}
    _check_whole(set(named), set(every), option)
    return named


def _check_whole(named: set[TopicPartition], subscribed_to: set[TopicPartition], option: str) -> None:
    """A map must name every partition: whether a missing one is read in full or not at all would be ambiguous."""
    for what, partitions in (("leaves out", subscribed_to - named), ("names besides", named - subscribed_to)):
        if partitions:
            listed = ", ".join(map(str, sorted(partitions)))
            raise BadSetting(f"{option} has to name every partition that is read and no other: it {what} {listed}")


def _is_asked(where: OffsetsOrEdge, offset: int) -> bool:
    return isinstance(where, Edge | Timestamps) or offset < 0


def _latest_instead(
    broker: OffsetBroker, options: SourceOptions, where: Timestamps, found: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The end offsets of the partitions without a record at or after the requested time."""
    too_old = [partition for partition, offset in found.items() if offset < 0]
    if not too_old:
        return {}
    if not where.or_latest:
        raise NoRecordsSince(
            f"{', '.join(map(str, sorted(too_old)))} has no record of the requested time or later; set"
            " startingOffsetsByTimestampStrategy to latest to start there at the end"
        )
    return broker.offsets(dict.fromkeys(too_old, LATEST_OFFSET), read_committed=options.read_committed)


def _by_topic(known: Mapping[str, Sequence[int]], found: Mapping[TopicPartition, int]) -> Offsets:
    return {
        topic: {number: found[TopicPartition(topic, number)] for number in numbers} for topic, numbers in known.items()
    }
