"""Reassignment plans: the JSON of Apache Kafka's reassignment tool, plan generation, states, throttle lists.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 1]}]}

Pure. `log_dirs` and other keys are ignored: each broker chooses the log directory of a replica itself.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.replica_placement import Racks, place_from, start_of
from sordini.system.named_tuple import NamedTuple

Replicas = tuple[BrokerId, ...]
ReassignmentPlan = dict[TopicPartition, Replicas]
"""The target replicas of each partition, the preferred leader first."""


class MoveState(StrEnum):
    """The state of a partition of a plan, as `reassign verify` prints it."""

    DONE = "done"
    MOVING = "moving"
    DIVERTED = "diverted"
    """It is being moved to other brokers than the plan's."""
    OTHER = "other"
    """It is on other brokers, and is not being moved."""
    MISSING = "missing"


class ReplicaAssignment(NamedTuple):
    """A partition's current replicas; during a reassignment the target replicas, then those being removed."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def original(self) -> Replicas:
        """The replicas without those being added."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def target(self) -> Replicas:
        """The replicas without those being removed."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


class ThrottledReplicas(NamedTuple):
    """A topic's throttled replicas during a reassignment, as partition:broker pairs."""

    leaders: str
    followers: str


def read_plan(text: str) -> ReassignmentPlan:
    """Raises ValueError, which says what is wrong."""
    try:
        whole = json.loads(text)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from None
    rows = whole.get("partitions") if isinstance(whole, dict) else None
    if not isinstance(rows, list) or not rows:
        raise ValueError('no list of "partitions"')
    plan: ReassignmentPlan = {}
    for row in rows:
        name, replicas = _read_row(row)
        if name in plan:
            raise ValueError(f"it has {name} twice")
        plan[name] = replicas
    return plan


def _read_row(row: Any) -> tuple[TopicPartition, Replicas]:
    match row:
        case {"topic": str(topic), "partition": int(partition), "replicas": list(replicas)} if replicas and all(
            isinstance(broker, int) for broker in replicas
        ):
            return TopicPartition(topic, partition), tuple(BrokerId(broker) for broker in replicas)
    raise ValueError(f'{json.dumps(row)} is not {{"topic": ..., "partition": ..., "replicas": [...]}}')


def plan_json(plan: ReassignmentPlan) -> dict[str, Any]:
    """The plan in the tool's JSON."""
    rows = [{"topic": name, "partition": p, "replicas": list(held)} for (name, p), held in sorted(plan.items())]
    return {"version": 1, "partitions": rows}


def generate_plan(current: ReassignmentPlan, racks: Racks, replication_factor: int | None) -> ReassignmentPlan:
    """The partitions of these topics over these brokers, placed as those of new topics are.

    The first replica of each topic's first partition stays, or moves to the next broker; without a replication factor
    the topic keeps its own. Either all brokers have a rack or none. Raises ValueError for too large a factor.
    """
    topics: dict[str, list[int]] = defaultdict(list)
    for name, partition in sorted(current):
        topics[name].append(partition)
    plan: ReassignmentPlan = {}
    for name, partitions in topics.items():
        first = current[TopicPartition(name, partitions[0])]
        factor = len(first) if replication_factor is None else replication_factor
        if factor > len(racks):
            raise ValueError(f"{factor} replicas of {name} do not fit on {len(racks)} brokers")
        placed = place_from(start_of(first[0], racks), racks, range(partitions[-1] + 1), factor)
        plan |= {TopicPartition(name, partition): placed[partition] for partition in partitions}
    return plan


def move_state(target: Replicas, now: ReplicaAssignment | None) -> MoveState:
    """The state of a partition; `now` is None for one that does not exist."""
    if now is None:
        return MoveState.MISSING
    if now.is_moving:
        return MoveState.MOVING if now.target == target else MoveState.DIVERTED
    return MoveState.DONE if now.replicas == target else MoveState.OTHER


def emptied_brokers(plan: ReassignmentPlan, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> list[BrokerId]:
    """The brokers from which the plan removes replicas and which have none of its partitions afterwards."""
    holding = {broker for one in plan if one in assignments for broker in assignments[one].replicas}
    return sorted(holding - {broker for target in plan.values() for broker in target})


def throttled_replicas(
    plan: ReassignmentPlan, current: Mapping[TopicPartition, Replicas]
) -> dict[str, ThrottledReplicas]:
    """Per topic, the leaders and followers of the replication that the plan causes."""
    leaders, followers = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for (name, partition), target in sorted(plan.items()):
        held = current.get(TopicPartition(name, partition), ())
        coming = [broker for broker in target if broker not in held]
        if coming:
            leaders[name] += [f"{partition}:{broker}" for broker in held]
            followers[name] += [f"{partition}:{broker}" for broker in coming]
    return {name: ThrottledReplicas(",".join(leaders[name]), ",".join(followers[name])) for name in leaders}


def brokers_involved(plan: ReassignmentPlan, current: Mapping[TopicPartition, Replicas]) -> Sequence[BrokerId]:
    """All brokers that send or fetch replicas for the plan."""
    return sorted({broker for one, target in plan.items() for broker in (*target, *current.get(one, ()))})
