"""The progress of a plan: moving partitions, bytes left to copy, and replicas on the brokers that the plan empties.

What counts as moving is `reassignment_plan.move_state`, as for `reassign verify`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.cli.commands.reassign.reassign_requests import ReplicaAssignments
from sordini.cli.commands.reassign.reassignment_plan import MoveState, ReassignmentPlan, move_state
from sordini.cli.common.output import size_text
from sordini.client.errors import ClientError
from sordini.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.printable import counted
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.system.named_tuple import NamedTuple

SIZES_SECONDS_MAX: Final = 5.0
"""For a broker's DescribeLogDirs response. Without it the bytes left to copy are unknown."""

Sizes = Mapping[BrokerId, Mapping[TopicPartition, int]]


class PlanProgress(NamedTuple):
    """The progress of a plan at one time."""

    total: int
    moving: int
    strays: list[str]
    """Partitions that are not on the plan's brokers and are not being moved there."""
    bytes_left: int | None
    held: dict[BrokerId, int]
    """The number of replicas, in the whole cluster, on each broker that the plan empties."""
    leaderless: int
    absent: list[BrokerId]
    """Brokers to which replicas are moved and which are not live."""
    moves_elsewhere: bool
    """Whether partitions outside of the plan are moving, or partitions of the plan to other brokers."""

    def __str__(self) -> str:
        left = "" if self.bytes_left is None else f", {size_text(self.bytes_left)} to copy"
        parts = [f"{self.moving} of {counted(self.total, 'partition')} left{left}", *held_replicas_texts(self.held)]
        if self.leaderless:
            parts.append(f"{self.leaderless} of them without a leader")
        parts += [f"broker {broker} is not running" for broker in self.absent]
        if self.strays:
            parts.append(f"{len(self.strays)} no longer being moved")
        return "; ".join(parts)


async def fetch_progress(
    cluster: ClusterClient,
    plan: ReassignmentPlan,
    empty: Sequence[BrokerId],
    found: MetadataResponse,
    now: ReplicaAssignments,
) -> PlanProgress:
    """The progress, from metadata and assignments, and from the log sizes of the brokers."""
    return progress_of(plan, empty, found, now, await _sizes(cluster, _logs_to_size(plan, found, now)))


def held_replicas_texts(held: Mapping[BrokerId, int]) -> list[str]:
    """`broker 2 holds 12 replicas`, for each."""
    return [
        f"broker {broker} holds {counted(number, 'replica') if number else 'no replica'}"
        for broker, number in held.items()
    ]


def progress_of(
    plan: ReassignmentPlan, empty: Sequence[BrokerId], found: MetadataResponse, now: ReplicaAssignments, sizes: Sizes
) -> PlanProgress:
    states = {one: move_state(target, now.get(one)) for one, target in plan.items()}
    moving = [one for one, state in states.items() if state is MoveState.MOVING]
    strays = [str(one) for one, state in sorted(states.items()) if state not in (MoveState.MOVING, MoveState.DONE)]
    leaders = _leaders(found)
    running = {broker.node_id for broker in found.brokers}
    return PlanProgress(
        len(plan),
        len(moving),
        strays,
        _bytes_left(moving, found, now, sizes),
        {broker: sum(broker in one.replicas for one in now.values()) for broker in empty},
        sum(leaders[one] < 0 for one in moving),
        sorted({broker for one in moving for broker in now[one].adding} - running),
        any(one.is_moving and states.get(name) is not MoveState.MOVING for name, one in now.items()),
    )


def _leaders(found: MetadataResponse) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic.name or "", row.partition_index): row.leader_id
        for topic in found.topics
        for row in topic.partitions
    }


def _logs_to_size(
    plan: ReassignmentPlan, found: MetadataResponse, now: ReplicaAssignments
) -> dict[BrokerId, list[TopicPartition]]:
    """The logs whose sizes are needed: those of leaders and of replicas being added, by broker."""
    leaders = _leaders(found)
    logs: dict[BrokerId, list[TopicPartition]] = {}
    for one in sorted(plan):
        if one in now and now[one].adding and leaders[one] >= 0:
            for broker in (BrokerId(leaders[one]), *now[one].adding):
                logs.setdefault(broker, []).append(one)
    return logs


async def _sizes(cluster: ClusterClient, logs: Mapping[BrokerId, Sequence[TopicPartition]]) -> Sizes:
    """The sizes of these logs on each broker that answers."""
    answers = await asyncio.gather(*(_sizes_of(cluster, broker, ones) for broker, ones in logs.items()))
    return {broker: sizes for broker, sizes in zip(logs, answers, strict=True) if sizes is not None}


async def _sizes_of(
    cluster: ClusterClient, broker: BrokerId, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int] | None:
    topics: dict[str, DescribableLogDirTopic] = {}
    for name, number in partitions:
        topics.setdefault(name, DescribableLogDirTopic(topic=name, partitions=[])).partitions.append(number)
    try:
        async with asyncio.timeout(SIZES_SECONDS_MAX):
            link = await cluster.broker(broker)
            answer: DescribeLogDirsResponse = await link.ask(DescribeLogDirsRequest(topics=list(topics.values())))
    except (ClientError, TimeoutError):
        cluster.forget(broker)
        return None
    return {
        TopicPartition(topic.name, row.partition_index): row.partition_size
        for directory in answer.results
        for topic in directory.topics
        for row in topic.partitions
        if not row.is_future_key
    }


def _bytes_left(
    moving: Iterable[TopicPartition], found: MetadataResponse, now: ReplicaAssignments, sizes: Sizes
) -> int | None:
    """The bytes that new replicas lack of their leaders' logs; None if the size of either is unknown.

    A replica in sync lacks nothing, though its segments may be smaller than the leader's.
    """
    leaders, total = _leaders(found), 0
    in_sync = {
        TopicPartition(topic.name or "", row.partition_index): row.isr_nodes
        for topic in found.topics
        for row in topic.partitions
    }
    for one in moving:
        for broker in now[one].adding:
            if broker in in_sync[one]:
                continue
            whole = sizes.get(BrokerId(leaders[one]), {}).get(one)
            if whole is None or broker not in sizes:
                return None
            total += max(whole - sizes[broker].get(one, 0), 0)
    return total
