"""A share group for its page: partitions with start offset and lag, what is in flight, and where dead letters go.

Brokers of Apache Kafka do not tell what is in flight; the page then says so and has all the rest.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient
from sordini.admin.config_requests import GROUP, Resource, describe_configs
from sordini.admin.groups.group_description import GroupDescription
from sordini.admin.shares.in_flight import ACQUIRED, AVAILABLE, InFlightPartition, InFlightRun, in_flight
from sordini.admin.shares.share_offsets import share_offset_rows
from sordini.client.errors import ClientError
from sordini.protocol.types import TopicPartition
from sordini.system.named_tuple import NamedTuple

RUNS_MAX: Final = 200
"""Of one partition."""
PARTITIONS_MAX: Final = 500
"""Of which it is read what is in flight."""
DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"


class ShareGroupState(NamedTuple):
    """One share group at a time."""

    rows: list[dict[str, Any]]
    """As `share_offset_rows`, with `acquired` and `available`: records in flight, None where it is not known."""
    runs: list[tuple[TopicPartition, InFlightRun]]
    """Those that are not done, the ones that were locked longest first."""
    deliveries: list[tuple[int, int]]
    """How many records in flight were delivered how often."""
    deliveries_max: int | None
    problem: str | None
    """Why it is not known what is in flight."""
    dead_letter_topic: str | None

    @property
    def lag(self) -> int:
        """The sum over its partitions, as far as the broker counts."""
        return sum(row["lag"] or 0 for row in self.rows)


async def read_share_group(cluster: ClusterClient, described: GroupDescription) -> ShareGroupState:
    """All that its page shows. Raises ClientError."""
    rows = await share_offset_rows(cluster, described)
    there = [TopicPartition(row["topic"], row["partition"]) for row in rows if row["end_offset"] is not None]
    found: dict[TopicPartition, InFlightPartition] = {}
    problem = None
    try:
        states = await in_flight(cluster, described.group, there[:PARTITIONS_MAX], RUNS_MAX)
        found = {one.partition: one for one in states}
    except ClientError as error:
        problem = str(error)
    for row in rows:
        one = found.get(TopicPartition(row["topic"], row["partition"]))
        row["acquired"] = None if one is None else one.offsets_in(ACQUIRED)
        row["available"] = None if one is None else one.offsets_in(AVAILABLE)
    runs = [(one.partition, run) for one in found.values() for run in one.runs if run.state in (ACQUIRED, AVAILABLE)]
    runs.sort(key=lambda pair: (-(pair[1].acquired_ago_ms or 0), pair[0], pair[1].first_offset))
    deliveries = sum((one.deliveries for one in found.values()), Counter[int]())
    limits = [one.deliveries_max for one in found.values() if one.deliveries_max is not None]
    return ShareGroupState(
        rows, runs[:RUNS_MAX], sorted(deliveries.items()), max(limits, default=None), problem,
        await _dead_letter_topic(cluster, described.group),
    )  # fmt: skip


async def _dead_letter_topic(cluster: ClusterClient, group: str) -> str | None:
    """Where the group's dead letters go, if anywhere and if the visitor may see its settings."""
    try:
        (settings,) = await describe_configs(cluster, [Resource(GROUP, group)])
    except ClientError:
        return None
    return next((row["value"] for row in settings if row["key"] == DEAD_LETTER_TOPIC), None) or None
