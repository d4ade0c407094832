"""Plans to move partitions: the JSON of Apache Kafka's reassignment tool, and what follows from it.

    {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 1]}]}

Pure. `log_dirs` and other keys are read over: in which directory a copy lies is each broker's affair.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller.machine.placement import Racks, place_from, start_of

Replicas = tuple[BrokerId, ...]
ReassignmentPlan = dict[TopicPartition, Replicas]
"""Who shall hold each partition, the preferred leader first."""


class MoveState(StrEnum):
    """Where a partition of a plan is."""

    DONE = "done"
    MOVING = "moving"
    DIVERTED = "diverted"
    OTHER = "other"
    MISSING = "missing"


class ReplicaAssignment(NamedTuple):
    """A partition's replicas now: while it moves, those of its end and then those that leave."""

    replicas: Replicas
    adding: Replicas = ()
    removing: Replicas = ()

    @property
    def origin(self) -> Replicas:
        """Without those that a move adds."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    @property
    def end(self) -> Replicas:
        """Without those that a move takes away."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)


class ThrottledReplicas(NamedTuple):
    """What a topic's settings list while its partitions move: partition:broker pairs."""

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
            raise ValueError(f"{name} is in it twice")
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
    """The plan as the tool reads it."""
    rows = [{"topic": name, "partition": p, "replicas": list(held)} for (name, p), held in sorted(plan.items())]
    return {"version": 1, "partitions": rows}


def generate_plan(current: ReassignmentPlan, racks: Racks, replication_factor: int | None) -> ReassignmentPlan:
    """The partitions of these topics over these brokers, by the rule by which new topics are placed.

    Each topic begins where it begins now, or beside that; without a factor it keeps its own. Every broker has a rack
    or none has. Raises ValueError for a factor above the number of brokers.
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


def move_state(target: Replicas, standing: ReplicaAssignment | None) -> MoveState:
    """How far a partition has come; `standing` is None for one that is not there."""
    if standing is None:
        return MoveState.MISSING
    if standing.is_moving:
        return MoveState.MOVING if standing.end == target else MoveState.DIVERTED
    return MoveState.DONE if standing.replicas == target else MoveState.OTHER


def emptied_brokers(plan: ReassignmentPlan, standings: Mapping[TopicPartition, ReplicaAssignment]) -> list[BrokerId]:
    """The brokers that a plan takes replicas from and that it gives and leaves none."""
    holding = {broker for one in plan if one in standings for broker in standings[one].replicas}
    return sorted(holding - {broker for target in plan.values() for broker in target})


def throttled_replicas(
    plan: ReassignmentPlan, current: Mapping[TopicPartition, Replicas]
) -> dict[str, ThrottledReplicas]:
    """Per topic, who sends and who fetches what the plan has to be copied."""
    leaders, followers = defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    for (name, partition), target in sorted(plan.items()):
        held = current.get(TopicPartition(name, partition), ())
        coming = [broker for broker in target if broker not in held]
        if coming:
            leaders[name] += [f"{partition}:{broker}" for broker in held]
            followers[name] += [f"{partition}:{broker}" for broker in coming]
    return {name: ThrottledReplicas(",".join(leaders[name]), ",".join(followers[name])) for name in leaders}


def brokers_involved(plan: ReassignmentPlan, current: Mapping[TopicPartition, Replicas]) -> Sequence[BrokerId]:
    """Everybody who sends or fetches for the plan."""
    return sorted({broker for one, target in plan.items() for broker in (*target, *current.get(one, ()))})
