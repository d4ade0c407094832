"""What brokers report of their own activity, and their events of the last hour as lines of the time line.

Brokers of Apache Kafka have no such request: of them, and of brokers that do not let the visitor know, nothing is
there. An event is the broker's own: three replicas of a partition delete a segment three times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from sordini.admin.broker_activity import (
    COMPACTED,
    SEGMENTS_DELETED,
    STARTED,
    UNCLEANABLE,
    BrokerActivity,
    read_activity,
)
from sordini.admin.cluster_client import ClusterClient
from sordini.admin.parallel_requests import ParallelRequests
from sordini.cli.common.output import size_text
from sordini.client.cluster import Link
from sordini.console.readers.changes import COMPACTION, RESTART, RETENTION, Change
from sordini.protocol.messages.describe_broker_activity import BrokerEventRow
from sordini.protocol.printable import counted

REQUESTS_S: Final = 9.0


async def read_activities(
    cluster: ClusterClient, brokers: Iterable[int], since_ms: int
) -> dict[int, BrokerActivity | None]:
    """By broker, with the events since then; None for one that does not report it, none for one that is silent."""

    async def asked(link: Link, _broker: int) -> BrokerActivity | None:
        return await read_activity(link, since_ms=since_ms)

    wanted = {broker: broker for broker in brokers}
    return await ParallelRequests(cluster, wanted, REQUESTS_S).send(asked, wanted)


def event_changes(activities: Mapping[int, BrokerActivity | None]) -> list[Change]:
    """The events that are known here, in no order."""
    return [
        change
        for broker, activity in activities.items()
        if activity is not None
        for event in activity.events
        if (change := _change(broker, event)) is not None
    ]


def _change(broker: int, event: BrokerEventRow) -> Change | None:
    """None for a kind that a newer broker has."""
    where = f"{event.topic}, {counted(event.partitions, 'partition')}"
    segments, size = counted(event.segments, "segment"), size_text(event.bytes_removed)
    if event.kind == STARTED:
        return Change(event.ended_at_ms, RESTART, f"broker {broker} started")
    if event.kind == SEGMENTS_DELETED:
        return Change(event.ended_at_ms, RETENTION, f"broker {broker} deleted {segments} ({size}): {where}")
    if event.kind == COMPACTED:
        return Change(event.ended_at_ms, COMPACTION, f"broker {broker} compacted {segments}, {size} less: {where}")
    if event.kind == UNCLEANABLE:
        text = f"broker {broker} cannot compact {where}; its log has the reason"
        return Change(event.ended_at_ms, COMPACTION, text, is_bad=True)
    return None
