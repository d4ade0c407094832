"""How far a plan to move partitions is: what moves, how much is to be copied, and what the brokers it empties hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from sordini.cli.cluster import Cluster
from sordini.cli.commands.reassign.reassign_requests import ReplicaAssignments
from sordini.cli.commands.reassign.reassignment_plan import MoveState, ReassignmentPlan, move_state
from sordini.cli.common.options import Failure
from sordini.cli.common.output import size_text
from sordini.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.printable import counted
from sordini.protocol.types import BrokerId, TopicPartition

SIZES_SECONDS_MAX: Final = 5.0
"""For a broker's answer on how far its copies are. Without it the bytes that are left are not known."""

Sizes = Mapping[BrokerId, Mapping[TopicPartition, int]]


class PlanProgress(NamedTuple):
    """How far a plan is."""

    total: int
    moving: int
    strays: list[str]
    """Partitions that are where the plan does not want them and do not move there."""
    bytes_left: int | None
    held: dict[BrokerId, int]
    """How many replicas the brokers that the plan empties hold, in the whole cluster."""
    leaderless: int
    absent: list[BrokerId]
    """Brokers that copies go to and that do not run."""
    moves_elsewhere: bool
    """Whether partitions outside of the plan move, or some of it to other brokers."""

    def __str__(self) -> str:
        left = "" if self.bytes_left is None else f", {size_text(self.bytes_left)} to copy"
        parts = [f"{self.moving} of {counted(self.total, 'partition')} left{left}", *held_replicas_texts(self.held)]
        if self.leaderless:
            parts.append(f"{self.leaderless} of them without a leader")
        parts += [f"broker {broker} does not run" for broker in self.absent]
        if self.strays:
            parts.append(f"{len(self.strays)} not on the way any more")
        return "; ".join(parts)


async def fetch_progress(
    cluster: Cluster,
    plan: ReassignmentPlan,
    empty: Sequence[BrokerId],
    found: MetadataResponse,
    now: ReplicaAssignments,
) -> PlanProgress:
    """Ask for what the cluster's metadata do not say, and put all of it together."""
    return progress_of(plan, empty, found, now, await _sizes(cluster, _asked(plan, found, now)))


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


def _asked(
    plan: ReassignmentPlan, found: MetadataResponse, now: ReplicaAssignments
) -> dict[BrokerId, list[TopicPartition]]:
    """Which logs' sizes tell how much is to be copied: those of leaders and of replicas that are added."""
    leaders = _leaders(found)
    asked: dict[BrokerId, list[TopicPartition]] = {}
    for one in sorted(plan):
        if one in now and now[one].adding and leaders[one] >= 0:
            for broker in (BrokerId(leaders[one]), *now[one].adding):
                asked.setdefault(broker, []).append(one)
    return asked


async def _sizes(cluster: Cluster, asked: Mapping[BrokerId, Sequence[TopicPartition]]) -> Sizes:
    """The bytes of these logs on each broker; nothing of one that does not answer."""
    answers = await asyncio.gather(*(_sizes_of(cluster, broker, ones) for broker, ones in asked.items()))
    return {broker: sizes for broker, sizes in zip(asked, answers, strict=True) if sizes is not None}


async def _sizes_of(
    cluster: Cluster, broker: BrokerId, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int] | None:
    topics: dict[str, DescribableLogDirTopic] = {}
    for name, number in partitions:
        topics.setdefault(name, DescribableLogDirTopic(topic=name, partitions=[])).partitions.append(number)
    try:
        async with asyncio.timeout(SIZES_SECONDS_MAX):
            link = await cluster.broker(broker)
            answer: DescribeLogDirsResponse = await link.ask(DescribeLogDirsRequest(topics=list(topics.values())))
    except (Failure, TimeoutError):
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
    """What the copies lack of their leaders' logs; None when a leader or a copy's broker does not say.

    A copy in sync lacks nothing, though its segments may be smaller than the leader's.
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
