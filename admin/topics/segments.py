"""Logs and segments of partitions, from the brokers that lead them. Only a Sordini reports them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sordini.admin.cluster_client import ClusterClient, error_text
from sordini.admin.parallel_requests import ParallelRequests
from sordini.client.cluster import Link
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.describe_segments import (
    DescribeSegmentsRequest,
    DescribeSegmentsResponse,
    SegmentRow,
    SegmentsPartition,
    SegmentsPartitionResult,
    SegmentsTopic,
)
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

REQUESTS_S: Final = 9.0


class LocatedSegment(NamedTuple):
    """A segment and its partition."""

    partition: int
    row: SegmentRow


class PartitionSegments(NamedTuple):
    """The whole log of a partition, at its leader."""

    segments: int
    log_bytes: int


class SegmentPage(NamedTuple):
    """Some segments of a topic, in the order of partitions and offsets."""

    rows: list[LocatedSegment]
    following: tuple[int, int] | None
    """Partition and base offset of the first segment after these; None for none."""
    totals: dict[int, PartitionSegments]
    """By partition, of those from where the page begins."""
    problems: list[str]
    """Why partitions are missing."""
    is_reported: bool
    """False if no broker knows the request."""


class LogState(NamedTuple):
    """The log of a partition, at its leader."""

    high_watermark: int
    log_end_offset: int
    appended_per_s: float | None
    """Offsets, over the last minute; None while the leader has not watched for long enough."""


async def read_logs(cluster: ClusterClient, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogState]:
    """The logs of partitions, by the broker that leads each; those that are not reported are left out."""
    wanted: dict[int, dict[str, list[SegmentsPartition]]] = {}
    for name, leader in leaders.items():
        rows = wanted.setdefault(leader, {}).setdefault(name.topic, [])
        rows.append(SegmentsPartition(partition_index=name.partition))
    found = {}
    for answer in (await ParallelRequests(cluster, wanted, REQUESTS_S).send(_described, wanted)).values():
        for topic in answer.topics if answer is not None else ():
            for row in topic.partitions:
                if not row.error_code:
                    rate = row.appended * 1000 / row.window_ms if row.window_ms > 0 else None
                    name = TopicPartition(topic.name, row.partition_index)
                    found[name] = LogState(row.high_watermark, row.log_end_offset, rate)
    return found


async def _described(
    link: Link, wanted: Mapping[str, Sequence[SegmentsPartition]], segments_max: int = 0
) -> DescribeSegmentsResponse | None:
    """None from a broker that does not know the request."""
    if not link.serves(ApiKey.DESCRIBE_SEGMENTS):
        return None
    topics = [SegmentsTopic(name=name, partitions=list(rows)) for name, rows in wanted.items()]
    answer: DescribeSegmentsResponse = await link.ask(DescribeSegmentsRequest(topics=topics, segments_max=segments_max))
    return answer


async def read_segments(
    cluster: ClusterClient,
    topic: str,
    leaders: Mapping[int, int],
    start: tuple[int, int],
    rows_max: int,
) -> SegmentPage:
    """At most `rows_max` segments, from a partition and an offset on; `leaders` has the broker of each partition.

    A broker that is silent is a problem of its partitions.
    """
    wanted: dict[int, list[SegmentsPartition]] = {}
    for partition, leader in sorted(leaders.items()):
        if partition >= start[0]:
            first = start[1] if partition == start[0] else -1
            wanted.setdefault(leader, []).append(SegmentsPartition(partition_index=partition, from_offset=first))

    async def asked(link: Link, rows: Sequence[SegmentsPartition]) -> DescribeSegmentsResponse | None:
        return await _described(link, {topic: rows}, rows_max)

    requests = ParallelRequests(cluster, wanted, REQUESTS_S)
    answers = await requests.send(asked, wanted)
    reported = [answer for answer in answers.values() if answer is not None]
    found = [row for answer in reported for one in answer.topics for row in one.partitions]
    problems = [f"broker {broker}: {reason}" for broker, reason in sorted(requests.silent.items())]
    quiet = [broker for broker, answer in answers.items() if answer is None]
    if quiet and len(quiet) < len(wanted):
        problems.append(f"not reported by {', '.join(f'broker {broker}' for broker in sorted(quiet))}")
    return _page(topic, found, rows_max, problems, is_reported=not wanted or len(quiet) < len(wanted))


def _page(
    topic: str, found: Iterable[SegmentsPartitionResult], rows_max: int, problems: list[str], *, is_reported: bool
) -> SegmentPage:
    rows: list[LocatedSegment] = []
    totals: dict[int, PartitionSegments] = {}
    following: list[tuple[int, int]] = []
    for one in sorted(found, key=lambda one: one.partition_index):
        problem = error_text(f"partition {topic}-{one.partition_index}", one.error_code, one.error_message)
        if problem is not None:
            problems.append(problem)
            continue
        totals[one.partition_index] = PartitionSegments(one.segment_count, one.log_bytes)
        rows += [LocatedSegment(one.partition_index, row) for row in one.segments]
        if one.next_offset >= 0:
            following.append((one.partition_index, one.next_offset))
    # Each broker gave the first of its own: what is after the end of one of them may be incomplete.
    if following:
        rows = [one for one in rows if (one.partition, one.row.base_offset) < min(following)]
    following += [(one.partition, one.row.base_offset) for one in rows[rows_max:]]
    return SegmentPage(rows[:rows_max], min(following, default=None), totals, problems, is_reported)
