"""The requests of `sordini reassign`: assignments, reassignments, throttles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from sordini.admin.cluster_client import ClusterClient, error_text, topic_advice
from sordini.admin.config_requests import BROKER, TOPIC, Resource, alter_configs
from sordini.admin.failure import Failure
from sordini.admin.retried_changes import MAY_HAVE_BEEN_APPLIED
from sordini.cli.commands.reassign.broker_drain import drain_brokers
from sordini.cli.commands.reassign.reassignment_plan import (
    ReassignmentPlan,
    ReplicaAssignment,
    Replicas,
    brokers_involved,
    generate_plan,
    move_state,
    throttled_replicas,
)
from sordini.client.errors import Disconnected, check
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from sordini.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.replica_placement import Racks, brokers_without_rack, without_racks

REQUEST_TIMEOUT_MS: Final = 15_000
MOVES: Final = ("adding", "removing")
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LISTS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
MoveRow = dict[str, Any]
ReplicaAssignments = dict[TopicPartition, ReplicaAssignment]


async def current_plan(cluster: ClusterClient, names: Iterable[str]) -> ReassignmentPlan:
    """The current replicas of these topics' partitions, including those being added and removed."""
    return {
        TopicPartition(topic.name or "", row.partition_index): tuple(BrokerId(broker) for broker in row.replica_nodes)
        for topic in await cluster.topics(names)
        for row in topic.partitions
    }


async def all_names(cluster: ClusterClient) -> list[str]:
    """Every topic of the cluster, internal ones included."""
    return sorted(topic.name for topic in (await cluster.retry(lambda: cluster.metadata(None))).topics if topic.name)


async def fetch_assignments(
    cluster: ClusterClient, names: Iterable[str] | None
) -> tuple[MetadataResponse, ReplicaAssignments]:
    """The assignments of the topics that exist (None: all topics), and the metadata they were read from.

    Both responses are the controller's: other brokers learn of a completed reassignment a little later.
    """

    async def attempt() -> MetadataResponse:
        return await cluster.metadata(names, await cluster.controller())

    moving = await list_reassignments(cluster)
    found = await cluster.retry(attempt)
    return found, {
        one: ReplicaAssignment(
            _ids(row.replica_nodes), *(_ids(moving[one][key]) if one in moving else () for key in MOVES)
        )
        for topic in found.topics
        for row in topic.partitions
        for one in [TopicPartition(topic.name or "", row.partition_index)]
    }


async def drain_plan(
    cluster: ClusterClient,
    names: Sequence[str] | None,
    leaving: Collection[int],
    brokers: Collection[int] | None,
    *,
    ignore_racks: bool,
) -> ReassignmentPlan:
    """The partitions of these topics (None: all) off the leaving brokers, all else unchanged. Raises Failure.

    A partition that is already being moved off them is in the plan with its current target.
    """
    if names is not None:
        await cluster.topics(names)
    found, assignments = await fetch_assignments(cluster, None)
    racks = {BrokerId(broker.node_id): broker.rack for broker in found.brokers}
    drained = frozenset(map(BrokerId, leaving))
    known = racks.keys() | {broker for one in assignments.values() for broker in one.replicas}
    if unknown := sorted(drained - known):
        raise Failure(f"no broker {_listed(unknown)} is live or has a replica (live: {_listed(sorted(racks))})")
    staying = {broker: rack for broker, rack in racks.items() if broker not in drained}
    targets = _chosen(staying, brokers)
    if ignore_racks:
        staying = dict(without_racks(staying))
    _check_racks(staying)
    held = {one: now.target for one, now in assignments.items() if now.target}
    wanted = [
        one
        for one in held
        if (names is None or one.topic in names) and not drained.isdisjoint(assignments[one].replicas)
    ]
    if not wanted:
        where = "" if names is None else f" of {', '.join(names)}"
        raise Failure(f"no replica{where} is on broker {_listed(sorted(drained))}: there is nothing to move")
    try:
        moved = drain_brokers(held, wanted, drained, staying, targets)
    except ValueError as error:
        raise Failure(*error.args) from None
    return {one: moved.get(one, held[one]) for one in wanted}


async def new_plan(
    cluster: ClusterClient,
    names: Sequence[str],
    brokers: Collection[int] | None,
    replication_factor: int | None,
    *,
    ignore_racks: bool,
) -> ReassignmentPlan:
    """A new assignment of these topics over these brokers, or over all. Raises Failure."""
    current = await current_plan(cluster, names)
    racks = {BrokerId(broker.node_id): broker.rack for broker in (await cluster.metadata([])).brokers}
    chosen = _chosen(racks, brokers)
    if ignore_racks:
        chosen = dict(without_racks(chosen))
    _check_racks(chosen)
    try:
        return generate_plan(current, chosen, replication_factor)
    except ValueError as error:
        raise Failure(str(error)) from None


async def set_throttles(
    cluster: ClusterClient, plan: ReassignmentPlan, current: ReassignmentPlan, bytes_per_second: int
) -> None:
    """Throttle the replication that the plan causes, on each broker that sends or fetches it.

    `current` has the replicas before the move. A broker that is not running replicates nothing and is skipped.
    """
    rate = [(key, "", str(bytes_per_second)) for key in RATES]
    running = await cluster.retry(cluster.brokers)
    brokers = [Resource(BROKER, str(broker)) for broker in brokers_involved(plan, current) if broker in running]
    await alter_configs(cluster, brokers, rate, (), validate_only=False)
    for name, lists in throttled_replicas(plan, current).items():
        # Appended, so that entries of other reassignments of the topic stay.
        changes = [(key, "+", pairs) for key, pairs in zip(LISTS, lists, strict=True)]
        await alter_configs(cluster, [Resource(TOPIC, name)], changes, (), validate_only=False)


async def remove_throttles(cluster: ClusterClient, plan: Iterable[TopicPartition]) -> None:
    """Remove the throttles of these partitions' topics, and the rates of all brokers."""
    topics = [Resource(TOPIC, name) for name in _topics(plan)]
    await alter_configs(cluster, topics, (), LISTS, validate_only=False)
    brokers = [Resource(BROKER, str(broker)) for broker in await cluster.retry(cluster.brokers)]
    await alter_configs(cluster, brokers, (), RATES, validate_only=False)


async def alter_reassignments(
    cluster: ClusterClient, targets: Mapping[TopicPartition, Replicas | None]
) -> list[MoveRow]:
    """Begin the reassignment of partitions, or cancel it (None); a result for each."""
    by_topic: dict[str, list[ReassignablePartition]] = defaultdict(list)
    for (name, partition), replicas in sorted(targets.items()):
        held: list[int] | None = None if replicas is None else [*replicas]
        by_topic[name].append(ReassignablePartition(partition_index=partition, replicas=held))
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=REQUEST_TIMEOUT_MS,
        topics=[ReassignableTopic(name=name, partitions=rows) for name, rows in by_topic.items()],
    )

    may_be_applied = False

    async def attempt() -> AlterPartitionReassignmentsResponse:
        nonlocal may_be_applied
        link = await cluster.controller()
        try:
            answer: AlterPartitionReassignmentsResponse = await link.ask(request)
        except Disconnected:
            may_be_applied = True
            raise
        may_be_applied = may_be_applied or answer.error_code in MAY_HAVE_BEEN_APPLIED
        check("the reassignment", answer.error_code, answer.error_message)
        return answer

    results = []
    for topic in (await cluster.retry(attempt)).responses:
        for row in topic.partitions:
            one = TopicPartition(topic.name, row.partition_index)
            target = targets.get(one)
            if may_be_applied and target is None and row.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                row.error_code = ErrorCode.NONE.value  # Cancelled by an earlier attempt.
            reason = topic_advice(row.error_code) or row.error_message
            results.append(
                {
                    "topic": one.topic,
                    "partition": one.partition,
                    "replicas": None if target is None else list(target),
                    "error": error_text(f"partition {one}", row.error_code, reason),
                }
            )
    return results


async def list_reassignments(cluster: ClusterClient) -> dict[TopicPartition, MoveRow]:
    """Every partition of the cluster that is being reassigned."""

    async def attempt() -> ListPartitionReassignmentsResponse:
        link = await cluster.controller()
        answer: ListPartitionReassignmentsResponse = await link.ask(
            ListPartitionReassignmentsRequest(timeout_ms=REQUEST_TIMEOUT_MS)
        )
        check("the list of reassignments", answer.error_code, answer.error_message)
        return answer

    return {
        TopicPartition(topic.name, row.partition_index): {
            "topic": topic.name,
            "partition": row.partition_index,
            "replicas": row.replicas,
            "adding": row.adding_replicas,
            "removing": row.removing_replicas,
        }
        for topic in (await cluster.retry(attempt)).topics
        for row in topic.partitions
    }


async def plan_states(cluster: ClusterClient, plan: ReassignmentPlan) -> tuple[list[MoveRow], bool]:
    """The state of each partition of a plan (`MoveState`), and whether any reassignment is in progress.

    Raises Refused for a topic that does not exist.
    """
    await cluster.topics(_topics(plan))
    _, assignments = await fetch_assignments(cluster, None)
    rows = []
    for partition, target in sorted(plan.items()):
        now = assignments.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "state": move_state(target, now).value,
                "target": list(target),
                "replicas": None if now is None else list(now.replicas),
            }
        )
    return rows, any(now.is_moving for now in assignments.values())


def _chosen(racks: Racks, brokers: Collection[int] | None) -> dict[BrokerId, str | None]:
    """The named brokers, or all. Raises Failure for one that is not live."""
    missing = sorted(set(brokers or ()) - racks.keys())
    if missing:
        raise Failure(f"brokers {_listed(missing)} are not live (live: {_listed(sorted(racks))})")
    return {broker: rack for broker, rack in racks.items() if brokers is None or broker in brokers}


def _check_racks(racks: Racks) -> None:
    if lacking := brokers_without_rack(racks):
        raise Failure(f"brokers {_listed(lacking)} have no rack and others have one; --ignore-racks ignores racks")


def _ids(numbers: Iterable[int]) -> Replicas:
    return tuple(map(BrokerId, numbers))


def _topics(plan: Iterable[TopicPartition]) -> list[str]:
    return sorted({topic for topic, _ in plan})


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
