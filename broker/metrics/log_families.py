"""Metrics of what the broker keeps: log directories, partitions, consumer groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from sordini.broker.metrics.families import Family, Kind, Row, Sources, one
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition
from sordini.storage.disk_space import DiskSpace
from sordini.storage.log import Log

PARTITION_LABELS = ("topic", "partition")


def _directories(sources: Sources) -> Iterator[Row]:
    for path in sources.parts.logs.online_directories:
        yield (_text(path),), 1
    for path in sources.parts.logs.offline_directories:
        yield (_text(path),), 0


def _room(value: Callable[[DiskSpace], float]) -> Callable[[Sources], Iterable[Row]]:
    """One row for each log directory that is online."""

    def read(sources: Sources) -> Iterator[Row]:
        for room in sources.parts.logs.disk_spaces:
            yield (_text(room.path),), value(room)

    return read


def _per_log(value: Callable[[Log], float]) -> Callable[[Sources], Iterable[Row]]:
    """One row for each log; those of offline directories cannot be vouched for and are left out."""

    def read(sources: Sources) -> Iterator[Row]:
        for log in sources.parts.logs.logs():
            if log.log_dir.failure is None:
                yield (log.topic_partition.topic, str(log.topic_partition.partition)), value(log)

    return read


def _partitions(does_count: Callable[[Partition], bool]) -> Callable[[Sources], Iterable[Row]]:
    return one(lambda sources: sum(map(does_count, sources.parts.replicas)))


def _group_states(sources: Sources) -> Iterator[Row]:
    counts = Counter(group.state.value for group in sources.groups.groups())
    return (((state,), count) for state, count in sorted(counts.items()))


def _group_members(sources: Sources) -> Iterator[Row]:
    return (((group.group_id,), len(group.members)) for group in list(sources.groups.groups()))


def _offsets(sources: Sources) -> Iterator[tuple[str, TopicPartition, int]]:
    """Group, partition and offset of all that is committed; copied a group at a time."""
    for group in list(sources.groups.groups()):
        try:
            committed = sources.groups.offsets(group.group_id)
        except BrokerError:
            continue  # It has another coordinator by now.
        for name, held in list(committed.items()):
            yield group.group_id, name, held.offset


def _committed(sources: Sources) -> Iterator[Row]:
    return (((group, name.topic, str(name.partition)), offset) for group, name, offset in _offsets(sources))


def _lag(sources: Sources) -> Iterator[Row]:
    """Only where this broker leads: elsewhere it does not know how far the partition has come."""
    for group, name, offset in _offsets(sources):
        partition = sources.parts.replicas.get(name.topic, name.partition)
        if partition is not None and partition.leader is not None:
            yield (group, name.topic, str(name.partition)), max(0, partition.leader.high_watermark - offset)


def _text(path: str) -> str:
    """A path from the command line may hold bytes that are no text."""
    return path.encode(errors="backslashreplace").decode()


LOG_FAMILIES = (
    Family(
        "sordini_log_directory_online",
        Kind.GAUGE,
        "1 while a log directory works, 0 once it has failed: its partitions are not served.",
        ("directory",),
        _directories,
    ),
    Family(
        "sordini_log_directory_full",
        Kind.GAUGE,
        "1 from when a log directory has no room left until appends succeed there again: they are refused meanwhile.",
        ("directory",),
        _room(lambda room: room.is_full),
    ),
    Family(
        "sordini_log_directory_refused_total",
        Kind.COUNTER,
        "Appends and other calls that a log directory refused for want of room.",
        ("directory",),
        _room(lambda room: room.refused_total),
    ),
    Family(
        "sordini_open_segment_files",
        Kind.GAUGE,
        "Segment files that are open (bounded by sordini.open.segments.max).",
        (),
        one(lambda sources: sources.parts.logs.files.open_count),
    ),
    Family("sordini_partitions", Kind.GAUGE, "Partitions with a copy on this broker.", (), _partitions(lambda _: True)),
    Family(
        "sordini_partitions_led",
        Kind.GAUGE,
        "Partitions that this broker leads.",
        (),
        _partitions(lambda partition: partition.leader is not None),
    ),
    Family(
        "sordini_partitions_under_min_isr",
        Kind.GAUGE,
        "Led partitions with fewer in-sync replicas than min.insync.replicas: acks=all is refused there.",
        (),
        _partitions(lambda partition: partition.is_under_min_isr),
    ),
    Family(
        "sordini_partitions_under_replicated",
        Kind.GAUGE,
        "Led partitions with replicas that are not in sync.",
        (),
        _partitions(
            lambda partition: partition.leader is not None and len(partition.leader.isr) < len(partition.replicas)
        ),
    ),
    Family(
        "sordini_producer_ids",
        Kind.GAUGE,
        "Idempotent producers that are remembered, counted once for each partition they wrote to.",
        (),
        one(lambda sources: sum(len(log.producers) for log in sources.parts.logs.logs())),
    ),
    Family(
        "sordini_log_size_bytes",
        Kind.GAUGE,
        "Bytes of records in a partition's log.",
        PARTITION_LABELS,
        _per_log(lambda log: log.size),
    ),
    Family(
        "sordini_log_segments",
        Kind.GAUGE,
        "Segments of a partition's log.",
        PARTITION_LABELS,
        _per_log(lambda log: len(log.segments)),
    ),
    Family(
        "sordini_log_start_offset",
        Kind.GAUGE,
        "The first offset that is still there.",
        PARTITION_LABELS,
        _per_log(lambda log: log.log_start_offset),
    ),
    Family(
        "sordini_log_end_offset",
        Kind.GAUGE,
        "The offset that the next record gets; its rate is the records written per second.",
        PARTITION_LABELS,
        _per_log(lambda log: log.log_end_offset),
    ),
    Family(
        "sordini_high_watermark",
        Kind.GAUGE,
        "The offset below which records are replicated and can be read.",
        PARTITION_LABELS,
        _per_log(lambda log: log.high_watermark),
    ),
    Family("sordini_groups", Kind.GAUGE, "Consumer groups coordinated here, by state.", ("state",), _group_states),
    Family("sordini_group_members", Kind.GAUGE, "Members of a consumer group.", ("group",), _group_members),
    Family(
        "sordini_group_committed_offset",
        Kind.GAUGE,
        "The offset from which a group goes on reading a partition.",
        ("group", *PARTITION_LABELS),
        _committed,
    ),
    Family(
        "sordini_group_lag",
        Kind.GAUGE,
        "Records between a group's committed offset and the high watermark, where this broker leads the partition.",
        ("group", *PARTITION_LABELS),
        _lag,
    ),
)
