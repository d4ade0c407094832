"""Topics, and one topic: partitions, configuration, consumers."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from sordini.admin.cluster_client import check_topic
from sordini.admin.config_requests import TOPIC, Resource, describe_configs
from sordini.admin.partition_offsets import OffsetRange, offset_ranges
from sordini.admin.topics.segments import LogState, read_logs, read_segments
from sordini.cli.commands.groups.lag_texts import group_order
from sordini.client.errors import ClientError
from sordini.console.pages.paging import Paging
from sordini.console.readers.cluster_state import ClusterState, PartitionRow, read_state, state_of
from sordini.console.readers.disks import Disks, read_disks
from sordini.console.readers.group_lags import read_lags
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit
from sordini.protocol.types import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_text

PAGE_ROWS: Final = 100
YES_NO: Final = ("no", "yes")


def routes(gate: LoginGate) -> list[Route]:
    return [
        gate.get("/topics", show_topics),
        gate.get("/topic", show_topic),
        gate.get("/topic/segments", show_segments),
        gate.get("/topic/configuration", show_configuration),
        gate.get("/topic/consumers", show_consumers),
    ]


async def show_topics(visit: Visit) -> Response:
    """The list."""
    sought, internal = visit.field("find").strip(), visit.choice("internal", YES_NO)
    state = await read_state(visit.cluster)
    sizes = (await read_disks(visit.cluster, [row.broker for row in state.brokers])).topic_sizes()
    rows = [row for row in state.topics if sought in row.topic and (internal == "yes" or not row.is_internal)]
    hidden = sum(row.is_internal for row in state.topics) if internal == "no" else 0
    paging = Paging.of(rows, visit.number("page", 1, 1, 100_000), PAGE_ROWS)
    return visit.page("topics.html", paging=paging, sizes=sizes, find=sought, internal=internal, hidden=hidden)


async def read_topic(visit: Visit) -> tuple[str, ClusterState, str | None]:
    """The topic of a page: its name, its partitions, its id. Raises Refused for one that is not there."""
    name = visit.needed("name")
    found = await visit.cluster.retry(lambda: visit.cluster.metadata([name]))
    for topic in found.topics:
        check_topic(topic.name or name, topic.error_code)
    topic_id = next((topic.topic_id for topic in found.topics), NO_TOPIC_ID)
    return name, state_of(found), None if topic_id == NO_TOPIC_ID else topic_id_text(TopicId(topic_id))


async def show_topic(visit: Visit) -> Response:
    """Partitions with their offsets and sizes."""
    name, state, topic_id = await read_topic(visit)
    rows = sorted(state.partitions, key=lambda row: row.partition)
    led = [row.name for row in rows if row.leader is not None]
    try:
        ranges = await offset_ranges(visit.cluster, led)
    except ClientError:  # A visitor may describe a topic and not read it; a leader may move.
        ranges = {}
    logs = await read_logs(visit.cluster, {row.name: row.leader for row in rows if row.leader is not None})
    rates = [log.appended_per_s for log in logs.values() if log.appended_per_s is not None]
    disks = await read_disks(visit.cluster, {broker for row in rows for broker in row.replicas}, name, len(rows))
    return visit.page(
        "topic.html",
        name=name,
        topic_id=topic_id,
        tab="partitions",
        rows=[_row(row, ranges.get(row.name), logs.get(row.name), disks) for row in rows],
        rate=sum(rates) if rates else None,
        total=_total(ranges),
        size=sum(disks.sizes.values()) if disks.sizes else None,
        replication=max((len(row.replicas) for row in rows), default=0),
    )


def _row(row: PartitionRow, offsets: OffsetRange | None, log: LogState | None, disks: Disks) -> dict[str, Any]:
    return {
        "at": row,
        "earliest": offsets.earliest if offsets else None,
        "latest": offsets.latest if offsets else None,
        "rate": log.appended_per_s if log else None,
        "records": offsets.latest - offsets.earliest if offsets else None,
        "size": None if row.leader is None else disks.sizes.get((row.name, row.leader)),
    }


def _total(ranges: dict[TopicPartition, OffsetRange]) -> int | None:
    return sum(one.latest - one.earliest for one in ranges.values()) if ranges else None


async def show_segments(visit: Visit) -> Response:
    """The segments of its partitions, from a partition and an offset on."""
    name, state, topic_id = await read_topic(visit)
    partition, offset = visit.number("partition", 0, 0, 2**31 - 1), visit.number("offset", 0, 0, 2**63 - 1)
    leaders = {row.partition: row.leader for row in state.partitions if row.leader is not None}
    page = await read_segments(visit.cluster, name, leaders, (partition, offset), PAGE_ROWS)
    page.problems.extend(f"partition {row.partition} has no leader" for row in state.partitions if row.leader is None)
    return visit.page(
        "topic_segments.html",
        name=name,
        topic_id=topic_id,
        tab="segments",
        page=page,
        partition=partition,
        offset=offset,
    )


async def show_configuration(visit: Visit) -> Response:
    """Settings with their sources; those of the topic's own first."""
    name, _, topic_id = await read_topic(visit)
    (settings,) = await describe_configs(visit.cluster, [Resource(TOPIC, name)])
    settings.sort(key=lambda row: (row["source"] != "topic", row["key"]))
    key = visit.field("key")
    edited = next((row for row in settings if row["key"] == key), None)
    return visit.page(
        "topic_configuration.html", name=name, topic_id=topic_id, tab="configuration", settings=settings, edited=edited
    )


async def show_consumers(visit: Visit) -> Response:
    """Groups with committed offsets or members in the topic; those that have waited longest first."""
    name, _, topic_id = await read_topic(visit)
    rows = [lag for lag in (await read_lags(visit.cluster, None, topic=name)).values() if lag.partitions]
    rows.sort(key=group_order)
    return visit.page("topic_consumers.html", name=name, topic_id=topic_id, tab="consumers", rows=rows)
