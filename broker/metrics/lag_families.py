"""Metrics of committed offsets and lag: of the groups coordinated here, where this broker leads the partition.

Groups times partitions may be many: the series of one family are `sordini.metrics.group.partitions.max` at most, those
of groups that are first by name, and a family counts what is left out. Reading one costs no access to a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sordini.broker.administration.lag.offset_history import AgeBounds
from sordini.broker.metrics.families import MetricFamily, MetricKind, MetricSources, Step, gauge
from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition
from sordini.replication.partition import Partition
from sordini.system.named_tuple import NamedTuple

LABELS = ("group", "topic", "partition")


class _Committed(NamedTuple):
    group: str
    name: TopicPartition
    offset: int

    @property
    def labels(self) -> tuple[str, str, str]:
        return self.group, self.name.topic, str(self.name.partition)


def _offsets(sources: MetricSources) -> Iterator[_Committed | None]:
    """All committed offsets, group by group in the order of their names, None for each group; copied one at a time."""
    names = []
    for group in list(sources.groups.groups()):
        names.append(group.group_id)
        yield None
    for group_id in sorted(names):
        yield None
        try:
            committed = sources.groups.offsets(group_id)
        except BrokerError:
            continue  # It has another coordinator now.
        for name, held in list(committed.items()):
            yield _Committed(group_id, name, held.offset)


def _served(sources: MetricSources) -> Iterator[_Committed | None]:
    """Those that have series."""
    left = sources.group_partitions_max
    for row in _offsets(sources):
        if row is not None:
            if left == 0:
                return
            left -= 1
        yield row


def _led(sources: MetricSources) -> Iterator[tuple[_Committed, Partition] | None]:
    """Only where this broker leads: elsewhere it does not know the high watermark."""
    for row in _served(sources):
        partition = None if row is None else sources.parts.replicas.get(row.name.topic, row.name.partition)
        if row is None or partition is None or partition.leader is None:
            yield None
        else:
            yield row, partition


def _committed(sources: MetricSources) -> Iterator[Step]:
    return (None if row is None else (row.labels, row.offset) for row in _served(sources))


def _lag(sources: MetricSources) -> Iterator[Step]:
    for found in _led(sources):
        if found is None or found[1].leader is None:
            yield None
        else:
            yield found[0].labels, max(0, found[1].leader.high_watermark - found[0].offset)


def _lag_seconds(sources: MetricSources) -> Iterator[Step]:
    """The least age that the next unread offset certainly has.

    It is the offset's: a marker of a transaction counts for as long as nothing is committed behind it, but not beyond
    the last stable offset.
    """
    for found in _led(sources):
        if found is None or found[1].leader is None:
            yield None
            continue
        row, partition = found
        log = partition.log
        offset = max(row.offset, log.log_start_offset)
        age = AgeBounds(0, 0)
        if offset < log.last_stable_offset(found[1].leader.high_watermark):
            age = sources.parts.lag.appends.age_of(partition, offset, sources.monotonic_ms())
        yield row.labels, (age.at_least_ms or 0) / 1000  # Before the first sample nothing is certain but that.


def _omitted(sources: MetricSources) -> Iterator[Step]:
    total = 0
    for group in list(sources.groups.groups()):
        yield None
        with suppress(BrokerError):  # It has another coordinator now.
            total += len(sources.groups.offsets(group.group_id))
    yield (), max(0, total - sources.group_partitions_max)


LAG_FAMILIES = (
    gauge(
        "sordini_group_committed_offset",
        "The offset from which a group goes on reading a partition.",
        _committed,
        *LABELS,
    ),
    gauge(
        "sordini_group_lag",
        "Records between a group's committed offset and the high watermark, where this broker leads the partition.",
        _lag,
        *LABELS,
    ),
    gauge(
        "sordini_group_lag_seconds",
        "How long ago the next offset that a group has to read was appended, at least; 0 when it has caught up. Where "
        "this broker leads the partition; after a restart counted from then.",
        _lag_seconds,
        *LABELS,
    ),
    MetricFamily(
        "sordini_group_partitions_omitted",
        MetricKind.GAUGE,
        "Committed offsets without series (beyond sordini.metrics.group.partitions.max).",
        (),
        _omitted,
    ),
)
