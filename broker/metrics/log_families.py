"""Metrics of log directories, partitions and consumer groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sordini.broker.metrics.families import Kind, MetricFamily, MetricSources, Sample, single
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition
from sordini.storage.disk_space import DiskSpace
from sordini.storage.log import Log

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


def _per_log(value: Callable[[Log], float]) -> Callable[[MetricSources], Iterable[Sample]]:
    """One sample for each log, but for those of offline directories."""

    def read(sources: MetricSources) -> Iterator[Sample]:
        for log in sources.parts.logs.logs():
            if log.log_dir.failure is None:
                yield (log.topic_partition.topic, str(log.topic_partition.partition)), value(log)

    return read


def _partitions(condition: Callable[[Partition], bool]) -> Callable[[MetricSources], Iterable[Sample]]:
    return single(lambda sources: sum(map(condition, sources.parts.replicas)))


def _group_states(sources: MetricSources) -> Iterator[Sample]:
    counts = Counter(group.state.value for group in sources.groups.groups())
    return (((state,), count) for state, count in sorted(counts.items()))


def _group_members(sources: MetricSources) -> Iterator[Sample]:
    return (((group.group_id,), len(group.members)) for group in list(sources.groups.groups()))


def _offsets(sources: MetricSources) -> Iterator[tuple[str, TopicPartition, int]]:
    """Group, partition and offset of all committed offsets; copied one group at a time."""
    for group in list(sources.groups.groups()):
        try:
            committed = sources.groups.offsets(group.group_id)
        except BrokerError:
            continue  # It has another coordinator now.
        for name, held in list(committed.items()):
            yield group.group_id, name, held.offset


def _committed(sources: MetricSources) -> Iterator[Sample]:
    return (((group, name.topic, str(name.partition)), offset) for group, name, offset in _offsets(sources))


def _lag(sources: MetricSources) -> Iterator[Sample]:
    """Only where this broker leads: elsewhere it does not know the high watermark."""
    for group, name, offset in _offsets(sources):
        partition = sources.parts.replicas.get(name.topic, name.partition)
        if partition is not None and partition.leader is not None:
            yield (group, name.topic, str(name.partition)), max(0, partition.leader.high_watermark - offset)


def _rebalances(sources: MetricSources) -> Iterator[Sample]:
    completed = sources.parts.groups.rebalances.completed
    return (((cause.name.lower(),), count) for cause, count in sorted(completed.items()))


def _rebalance_durations(sources: MetricSources) -> Iterator[Sample]:
    return (((group,), ms / 1000) for group, ms in list(sources.parts.groups.last_rebalances()))


def _text(path: str) -> str:
    """A path from the command line may contain bytes that are not UTF-8."""
    return path.encode(errors="backslashreplace").decode()


LOG_FAMILIES = (
    MetricFamily(
        "sordini_log_directory_online",
        Kind.GAUGE,
        "1 while a log directory works, 0 once it has failed: its partitions are not served.",
        ("directory",),
        _directories,
    ),
    MetricFamily(
        "sordini_log_directory_full",
        Kind.GAUGE,
        "1 from when a log directory has no room left until appends succeed there again: they are refused meanwhile.",
        ("directory",),
        _room(lambda room: room.is_full),
    ),
    MetricFamily(
        "sordini_log_directory_refused_total",
        Kind.COUNTER,
        "Appends and other calls that a log directory refused for want of room.",
        ("directory",),
        _room(lambda room: room.refused_total),
    ),
    MetricFamily(
        "sordini_open_segment_files",
        Kind.GAUGE,
        "Segment files that are open (bounded by sordini.open.segments.max).",
        (),
        single(lambda sources: sources.parts.logs.files.open_count),
    ),
    MetricFamily(
        "sordini_partitions", Kind.GAUGE, "Partitions with a copy on this broker.", (), _partitions(lambda _: True)
    ),
    MetricFamily(
        "sordini_partitions_led",
        Kind.GAUGE,
        "Partitions that this broker leads.",
        (),
        _partitions(lambda partition: partition.leader is not None),
    ),
    MetricFamily(
        "sordini_partitions_under_min_isr",
        Kind.GAUGE,
        "Led partitions with fewer in-sync replicas than min.insync.replicas: acks=all is refused there.",
        (),
        _partitions(lambda partition: partition.is_under_min_isr),
    ),
    MetricFamily(
        "sordini_partitions_under_replicated",
        Kind.GAUGE,
        "Led partitions with replicas that are not in sync.",
        (),
        _partitions(
            lambda partition: partition.leader is not None and len(partition.leader.isr) < len(partition.replicas)
        ),
    ),
    MetricFamily(
        "sordini_producer_ids",
        Kind.GAUGE,
        "Idempotent producers that are remembered, counted once for each partition they wrote to.",
        (),
        single(lambda sources: sum(len(log.producers) for log in sources.parts.logs.logs())),
    ),
    MetricFamily(
        "sordini_log_size_bytes",
        Kind.GAUGE,
        "Bytes of records in a partition's log.",
        PARTITION_LABELS,
        _per_log(lambda log: log.size),
    ),
    MetricFamily(
        "sordini_log_segments",
        Kind.GAUGE,
        "Segments of a partition's log.",
        PARTITION_LABELS,
        _per_log(lambda log: len(log.segments)),
    ),
    MetricFamily(
        "sordini_log_start_offset",
        Kind.GAUGE,
        "The first offset that is still there.",
        PARTITION_LABELS,
        _per_log(lambda log: log.log_start_offset),
    ),
    MetricFamily(
        "sordini_log_end_offset",
        Kind.GAUGE,
        "The offset that the next record gets; its rate is the records written per second.",
        PARTITION_LABELS,
        _per_log(lambda log: log.log_end_offset),
    ),
    MetricFamily(
        "sordini_high_watermark",
        Kind.GAUGE,
        "The offset below which records are replicated and can be read.",
        PARTITION_LABELS,
        _per_log(lambda log: log.high_watermark),
    ),
    MetricFamily(
        "sordini_groups", Kind.GAUGE, "Consumer groups coordinated here, by state.", ("state",), _group_states
    ),
    MetricFamily("sordini_group_members", Kind.GAUGE, "Members of a consumer group.", ("group",), _group_members),
    MetricFamily(
        "sordini_group_rebalances_total",
        Kind.COUNTER,
        "Completed rebalances of groups coordinated here, by what started them (see `sordini groups history`).",
        ("reason",),
        _rebalances,
    ),
    MetricFamily(
        "sordini_group_last_rebalance_seconds",
        Kind.GAUGE,
        "Duration of a consumer group's last completed rebalance, from its first cause to its assignment.",
        ("group",),
        _rebalance_durations,
    ),
    MetricFamily(
        "sordini_group_committed_offset",
        Kind.GAUGE,
        "The offset from which a group goes on reading a partition.",
        ("group", *PARTITION_LABELS),
        _committed,
    ),
    MetricFamily(
        "sordini_group_lag",
        Kind.GAUGE,
        "Records between a group's committed offset and the high watermark, where this broker leads the partition.",
        ("group", *PARTITION_LABELS),
        _lag,
    ),
)
