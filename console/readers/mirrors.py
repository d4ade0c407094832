"""Mirrors that copy into this cluster, as far as the cluster knows: by the topics that they keep here.

Sordini's mirrors and Apache Kafka's MirrorMaker 2 keep the same ones. They have positions in the source and no end of
it: how many records are missing is known to `sordini mirror status`, which reaches both clusters. What is known here is
time: a mirror writes a heartbeat into its source each second and copies that topic as any other, so the newest copied
one says how old what arrives is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.partition_offsets import LARGEST_TIMESTAMP, offsets_for_times
from sordini.client.errors import ClientError
from sordini.console.readers.cluster_state import ClusterState
from sordini.mirror.cluster import Cluster as MirrorCluster
from sordini.mirror.formats import (
    Checkpoint,
    KeyValue,
    Position,
    read_checkpoint,
    read_heartbeat,
    read_position,
)
from sordini.mirror.internal_topics import read_all
from sordini.mirror.naming import HEARTBEATS, OFFSETS_PATTERN, Names, Naming
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

RECORDS_MAX: Final = 20_000
"""Of an internal topic the newest so many are read; compaction leaves one for each partition or group."""
HEARTBEATS_MAX: Final = 1_000
SOURCES_MAX: Final = 20
TOPICS_MAX: Final = 100
"""Of one source."""
GROUPS_MAX: Final = 100
"""Translated offsets of one source, of single partitions."""
SILENT_MS: Final = 30_000
"""Without a heartbeat for so long, a mirror is taken for stopped."""


class MirroredTopic(NamedTuple):
    """One topic of a source."""

    source_topic: str
    target_topic: str | None
    """None where it is not here, or not shown to this visitor."""
    partitions: int
    """With a position."""
    target_partitions: int
    offset_sum: int
    """Over the partitions: up to where the source is copied."""
    progress_ms: int | None
    """When a position was written last."""
    newest_ms: int | None
    """The newest time of a record here; None where the brokers do not report it."""


class MirrorSource(NamedTuple):
    """One source of a mirror."""

    alias: str
    topics: list[MirroredTopic]
    topics_omitted: int
    checkpoints: list[Checkpoint]
    checkpoints_omitted: int
    beat_ms: int | None
    """The newest heartbeat that its mirror wrote here."""
    copied_beat_ms: int | None
    """The newest heartbeat that was written in the source and has been copied."""
    problem: str | None = None

    def is_silent(self, now_ms: int) -> bool:
        return self.beat_ms is not None and now_ms - self.beat_ms > SILENT_MS


class Mirrors(NamedTuple):
    """All that the topics here say."""

    sources: list[MirrorSource]
    readers: list[tuple[str, int]]
    """Aliases of clusters whose mirrors wrote a heartbeat here and have no positions here, with its time: they copy
    from this cluster."""
    problem: str | None


async def read_mirrors(cluster: ClusterClient, mirrors: MirrorCluster, state: ClusterState) -> Mirrors:
    """Raises ClientError. What a visitor may not read is a problem of its part."""
    counts = {row.topic: row.partitions for row in state.topics}
    aliases = sorted(alias for name in counts if (alias := _alias(name)) is not None)[:SOURCES_MAX]
    beats: dict[str, int] = {}
    problem = None
    if HEARTBEATS in counts:
        try:
            found = await read_all(mirrors, HEARTBEATS, read_heartbeat, newest=HEARTBEATS_MAX)
        except ClientError as error:
            problem = str(error)
        else:
            for source, _, time_ms in found:
                beats[source] = max(time_ms, beats.get(source, 0))
    sources = await asyncio.gather(*(_source(cluster, mirrors, one, counts, beats.get(one)) for one in aliases))
    readers = sorted((alias, time_ms) for alias, time_ms in beats.items() if alias not in aliases)
    return Mirrors(list(sources), readers, problem)


def _alias(topic: str) -> str | None:
    """The source whose positions a topic has; None for other topics."""
    if OFFSETS_PATTERN.fullmatch(topic) is None:
        return None
    return topic.removeprefix("mm2-offsets.").removesuffix(".internal")


async def _source(
    cluster: ClusterClient, mirrors: MirrorCluster, alias: str, counts: dict[str, int], beat_ms: int | None
) -> MirrorSource:
    names = Names(alias, "", Naming.PREFIX, _separator(alias, counts))
    beats_topic = names.remote_topic(HEARTBEATS)
    try:
        written = await read_all(mirrors, names.positions_topic, _timed_position, newest=RECORDS_MAX)
        checkpoints = await read_all(mirrors, names.checkpoints_topic, read_checkpoint, newest=RECORDS_MAX)
        copied = await read_all(mirrors, beats_topic, read_heartbeat, newest=HEARTBEATS_MAX)
    except ClientError as error:
        return MirrorSource(alias, [], 0, [], 0, beat_ms, None, str(error))
    rows = _topics(written, names, counts)
    shown = [await _with_newest(cluster, row) for row in rows[:TOPICS_MAX]]
    latest = {(one.group, one.partition): one for one in checkpoints}
    translated = [latest[key] for key in sorted(latest)]
    return MirrorSource(
        alias,
        shown,
        len(rows) - len(shown),
        translated[:GROUPS_MAX],
        max(len(translated) - GROUPS_MAX, 0),
        beat_ms,
        max((time_ms for _, _, time_ms in copied), default=None),
    )


def _separator(alias: str, topics: Iterable[str]) -> str:
    """Between the alias and the name of a copied topic; known from the heartbeats, which have it with any naming."""
    for topic in topics:
        if topic.startswith(alias) and topic.endswith(HEARTBEATS) and len(topic) > len(alias) + len(HEARTBEATS):
            return topic[len(alias) : -len(HEARTBEATS)]
    return "."


def _timed_position(record: KeyValue) -> tuple[Position | None, int]:
    return read_position(record), record.timestamp_ms


def _topics(
    written: Iterable[tuple[Position | None, int]], names: Names, counts: dict[str, int]
) -> list[MirroredTopic]:
    """The topics by name; of a partition the last position counts."""
    positions: dict[TopicPartition, tuple[int, int]] = {}
    for position, time_ms in written:
        if position is not None:
            positions[position.partition] = position.next_offset, time_ms
    by_topic: dict[str, list[tuple[int, int]]] = {}
    for partition, reached in positions.items():
        by_topic.setdefault(partition.topic, []).append(reached)
    rows = []
    for topic, reached_here in sorted(by_topic.items()):
        merged = topic if topic in counts else None
        target = names.remote_topic(topic) if names.remote_topic(topic) in counts else merged
        rows.append(
            MirroredTopic(
                topic,
                target,
                len(reached_here),
                0 if target is None else counts[target],
                sum(offset for offset, _ in reached_here),
                max(time_ms for _, time_ms in reached_here),
                None,
            )
        )
    return rows


async def _with_newest(cluster: ClusterClient, row: MirroredTopic) -> MirroredTopic:
    if row.target_topic is None:
        return row
    wanted = {TopicPartition(row.target_topic, one): LARGEST_TIMESTAMP for one in range(row.target_partitions)}
    try:
        found = await offsets_for_times(cluster, wanted)
    except ClientError:  # Older brokers do not serve it; a leader may move, and the visitor may lack the right.
        return row
    times = [one.timestamp for one in found.values() if one.timestamp is not None]
    return row._replace(newest_ms=max(times, default=None))
