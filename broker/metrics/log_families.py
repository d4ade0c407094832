"""Metrics of log directories, partitions and consumer groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sordini.broker.metrics.families import MetricFamily, MetricSources, Sample, Step, counter, gauge, tally
from sordini.replication.partition import Partition
from sordini.storage.disk_space import DiskSpace
from sordini.storage.log import Log
from sordini.storage.log_manager import LogDirDescription

PARTITION_LABELS = ("topic", "partition")


def _directories(sources: MetricSources) -> Iterator[Sample]:
    for path in sources.parts.logs.online_directories:
        yield (_text(path),), 1
    for path in sources.parts.logs.offline_directories:
        yield (_text(path),), 0


def _room(value: Callable[[DiskSpace], float]) -> Callable[[MetricSources], Iterable[Sample]]:
    """One sample for each online log directory."""

    def read(sources: MetricSources) -> Iterator[Sample]:
        for room in sources.parts.logs.disk_spaces:
            yield (_text(room.path),), value(room)

    return read


def _volume(value: Callable[[LogDirDescription], int | None]) -> Callable[[MetricSources], Iterable[Sample]]:
    """One sample for each online log directory whose file system says it."""

    def read(sources: MetricSources) -> Iterator[Sample]:
        for found in sources.parts.logs.describe_log_dirs():
            number = value(found)
            if number is not None:
                yield (_text(found.path),), number

    return read


def per_log(value: Callable[[Log], float]) -> Callable[[MetricSources], Iterable[Step]]:
    """One sample for each log, but for those of offline directories."""

    def read(sources: MetricSources) -> Iterator[Step]:
        for log in sources.parts.logs.logs():
            if log.log_dir.failure is None:
                yield (log.topic_partition.topic, str(log.topic_partition.partition)), value(log)
            else:
                yield None

    return read


def partitions_that(name: str, meaning: str, condition: Callable[[Partition], bool]) -> MetricFamily:
    """The number of partitions with a replica here of which it holds."""
    return tally(name, meaning, lambda sources: sources.parts.replicas, condition)


def is_under_replicated(partition: Partition) -> bool:
    """Whether this broker leads it, and replicas of it are not in sync."""
    return partition.leader is not None and len(partition.leader.isr) < len(partition.replicas)


def leaderless(sources: MetricSources) -> Iterator[bool]:
    """Of each partition of the cluster, whether it has no leader; and False for each topic, which is a step, too."""
    for topic in list(sources.parts.metadata.topics.values()):
        yield False
        for known in list(topic.partitions.values()):
            yield known.leader < 0


def _group_states(sources: MetricSources) -> Iterator[Step]:
    counts: Counter[str] = Counter()
    for group in sources.groups.groups():
        counts[group.state.value] += 1
        yield None
    for state, count in sorted(counts.items()):
        yield (state,), count


def _group_members(sources: MetricSources) -> Iterator[Sample]:
    return (((group.group_id,), len(group.members)) for group in list(sources.groups.groups()))


def _rebalances(sources: MetricSources) -> Iterator[Sample]:
    completed = sources.parts.groups.rebalances.completed
    return (((cause.name.lower(),), count) for cause, count in sorted(completed.items()))


def _rebalance_durations(sources: MetricSources) -> Iterator[Sample]:
    return (((group,), ms / 1000) for group, ms in list(sources.parts.groups.last_rebalances()))


def _text(path: str) -> str:
    """A path from the command line may contain bytes that are not UTF-8."""
    return path.encode(errors="backslashreplace").decode()


LOG_FAMILIES = (
    gauge(
        "sordini_log_directory_online",
        "1 while a log directory works, 0 once it has failed: its partitions are not served.",
        _directories,
        "directory",
    ),
    gauge(
        "sordini_log_directory_full",
        "1 from when a log directory has no room left until appends succeed there again: they are refused meanwhile.",
        _room(lambda room: room.is_full),
        "directory",
    ),
    counter(
        "sordini_log_directory_refused_total",
        "Appends and other calls that a log directory refused for want of room.",
        _room(lambda room: room.refused_total),
        "directory",
    ),
    gauge(
        "sordini_log_directory_size_bytes",
        "Size of the file system of an online log directory.",
        _volume(lambda found: found.total_bytes),
        "directory",
    ),
    gauge(
        "sordini_log_directory_free_bytes",
        "Bytes that may still be written to the file system of an online log directory.",
        _volume(lambda found: found.usable_bytes),
        "directory",
    ),
    gauge(
        "sordini_open_segment_files",
        "Segment files that are open (bounded by sordini.open.segments.max).",
        lambda sources: sources.parts.logs.files.open_count,
    ),
    partitions_that("sordini_partitions", "Partitions with a copy on this broker.", lambda _: True),
    partitions_that(
        "sordini_partitions_led",
        "Partitions that this broker leads.",
        lambda partition: partition.leader is not None,
    ),
    partitions_that(
        "sordini_partitions_under_min_isr",
        "Led partitions with fewer in-sync replicas than min.insync.replicas: acks=all is refused there.",
        lambda partition: partition.is_under_min_isr,
    ),
    partitions_that(
        "sordini_partitions_under_replicated", "Led partitions with replicas that are not in sync.", is_under_replicated
    ),
    counter(
        "sordini_isr_shrinks_total",
        "Changes by which replicas left the in-sync set of a led partition.",
        lambda sources: sources.parts.replicas.isr_changes.shrinks,
    ),
    counter(
        "sordini_isr_expands_total",
        "Changes by which replicas joined the in-sync set of a led partition.",
        lambda sources: sources.parts.replicas.isr_changes.expansions,
    ),
    tally(
        "sordini_partitions_leaderless",
        "Partitions of the whole cluster that have no leader, as far as this broker knows.",
        leaderless,
        int,
    ),
    tally(
        "sordini_producer_ids",
        "Idempotent producers that are remembered, counted once for each partition they wrote to.",
        lambda sources: sources.parts.logs.logs(),
        lambda log: len(log.producers),
    ),
    gauge(
        "sordini_log_size_bytes",
        "Bytes of records in a partition's log.",
        per_log(lambda log: log.size),
        *PARTITION_LABELS,
    ),
    gauge(
        "sordini_log_segments",
        "Segments of a partition's log.",
        per_log(lambda log: len(log.segments)),
        *PARTITION_LABELS,
    ),
    gauge(
        "sordini_log_start_offset",
        "The first offset that is still there.",
        per_log(lambda log: log.log_start_offset),
        *PARTITION_LABELS,
    ),
    gauge(
        "sordini_log_end_offset",
        "The offset that the next record gets; its rate is the records written per second.",
        per_log(lambda log: log.log_end_offset),
        *PARTITION_LABELS,
    ),
    gauge(
        "sordini_high_watermark",
        "The offset below which records are replicated and can be read.",
        per_log(lambda log: log.high_watermark),
        *PARTITION_LABELS,
    ),
    gauge(
        "sordini_groups",
        "Groups coordinated here, by state; Assigning and Reconciling are of consumer groups (KIP-848).",
        _group_states,
        "state",
    ),
    gauge("sordini_group_members", "Members of a consumer group.", _group_members, "group"),
    counter(
        "sordini_group_rebalances_total",
        "Rebalances that ended, of the groups coordinated here, by what started them (see `sordini groups history`).",
        _rebalances,
        "reason",
    ),
    gauge(
        "sordini_group_last_rebalance_seconds",
        "Duration of a group's last completed rebalance, from its first cause until all members had their assignments.",
        _rebalance_durations,
        "group",
    ),
)
