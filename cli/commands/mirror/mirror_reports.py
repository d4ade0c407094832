"""`sordini mirror status` and `groups`: read from both clusters, whether or not the mirror runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from sordini.admin.failure import Failure
from sordini.cli.common.output import table
from sordini.client.record_requests import EARLIEST, LATEST
from sordini.mirror.cluster import Cluster
from sordini.mirror.formats import Checkpoint, Position, read_checkpoint, read_heartbeat, read_position
from sordini.mirror.groups import committed_offsets
from sordini.mirror.internal_topics import offsets_of, read_all
from sordini.mirror.naming import HEARTBEATS, Names, is_copied
from sordini.mirror.plan import Plan, Source
from sordini.protocol.types import TopicPartition
from sordini.system.clock import utc_text

T = TypeVar("T")

HEARTBEATS_MAX: Final = 1_000
"""Of the newest heartbeats, which come every second from each source, so many are read."""
PAUSE_S: Final = 0.5


def within(work: Coroutine[Any, Any, T], timeout_s: float) -> T:
    """The result of work on the clusters. Raises Failure."""

    async def bounded() -> T:
        async with asyncio.timeout(timeout_s):
            return await work

    try:
        return asyncio.run(bounded())
    except TimeoutError:
        raise Failure(f"gave up after {timeout_s:g} s: a cluster did not answer") from None


async def status_of(plan: Plan) -> list[dict[str, Any]]:
    """A row for each topic of each source. Raises ClientError."""
    rows = []
    async with Cluster(plan.target) as target:
        found = await read_all(target, HEARTBEATS, read_heartbeat, newest=HEARTBEATS_MAX)
        beats = {source: time_ms for source, _, time_ms in found}
        for source in plan.sources:
            async with Cluster(source.access) as upstream:
                names = Names(source.access.alias, plan.target.alias, plan.naming, plan.separator)
                read = await read_all(target, names.positions_topic, read_position)
                positions = {one.partition: one for one in read if one is not None}
                beat = beats.get(names.source)
                rows += [
                    {**row, "heartbeat": None if beat is None else utc_text(beat)}
                    for row in await _topics(upstream, source, names, positions)
                ]
    return rows


async def _topics(
    upstream: Cluster, source: Source, names: Names, positions: dict[TopicPartition, Position]
) -> list[dict[str, Any]]:
    topics = [
        topic
        for topic in (await upstream.metadata(None)).topics
        if not topic.is_internal and not topic.error_code and _is_reported(topic.name or "", names, source)
    ]
    rows = []
    for topic in sorted(topics, key=lambda one: one.name or ""):
        partitions = [TopicPartition(topic.name or "", row.partition_index) for row in topic.partitions]
        led = [partition for partition in partitions if upstream.leader_of(partition) >= 0]
        ends = await offsets_of(upstream, led, LATEST)
        starts = await offsets_of(upstream, led, EARLIEST)
        empty = {one for one in led if ends[one] == starts[one]}  # No position is written of these.
        behind = sum(
            max(0, ends[one] - (positions[one].next_offset if one in positions else starts[one])) for one in led
        )
        rows.append(
            {
                "source": names.source,
                "topic": topic.name,
                "target": names.remote_topic(topic.name or ""),
                "partitions": len(partitions),
                "copied": sum(one in positions or one in empty for one in partitions),
                "behind": behind,
            }
        )
    return rows


def _is_reported(topic: str, names: Names, source: Source) -> bool:
    """Heartbeats are never copied to the last one."""
    return topic != HEARTBEATS and is_copied(topic, names, source.topics)


async def status_until(plan: Plan, wait_s: float) -> list[dict[str, Any]]:
    """As `status_of`, once all is copied or after so many seconds. Raises ClientError."""
    clock = asyncio.get_running_loop()
    deadline = clock.time() + wait_s
    while True:
        rows = await status_of(plan)
        if (rows and not behind(rows)) or clock.time() >= deadline:
            return rows
        await asyncio.sleep(PAUSE_S)


def behind(rows: list[dict[str, Any]]) -> int:
    """How many records are not copied."""
    return sum(row["behind"] for row in rows)


def status_text(rows: list[dict[str, Any]]) -> str:
    head = ["SOURCE", "TOPIC", "TARGET", "PARTITIONS", "COPIED", "BEHIND", "HEARTBEAT"]
    return table(head, [list(row.values()) for row in rows])


async def groups_of(plan: Plan) -> list[dict[str, Any]]:
    """A row for each checkpoint. Raises ClientError."""
    rows = []
    async with Cluster(plan.target) as target:
        for source in plan.sources:
            names = Names(source.access.alias, plan.target.alias, plan.naming, plan.separator)
            found: dict[tuple[str, TopicPartition], Checkpoint] = {}
            for one in await read_all(target, names.checkpoints_topic, read_checkpoint):
                found[one.group, one.partition] = one
            committed = {
                group: await committed_offsets(target, group) for group in {one.group for one in found.values()}
            }
            rows += [
                {
                    "source": names.source,
                    "group": one.group,
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "upstream": one.upstream,
                    "downstream": one.downstream,
                    "committed": committed[one.group].get(one.partition),
                }
                for _, one in sorted(found.items())
            ]
    return rows


def groups_text(rows: list[dict[str, Any]]) -> str:
    head = ["SOURCE", "GROUP", "TOPIC", "PARTITION", "UPSTREAM", "DOWNSTREAM", "COMMITTED"]
    return table(head, [list(row.values()) for row in rows])
