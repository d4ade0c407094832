"""Validation of administrators' requests for partitions: elections (KIP-183, KIP-460) and reassignments (KIP-455).

Pure. A request is validated against the cluster state of the controller. The result is what is to be done, or a
`Rejection` with error code and message; the order of the checks is Apache Kafka's. The response is made of the same
validation by which the machine decides.

A reassignment is valid when the brokers that it adds are live and an in-sync replica is left; how it proceeds is in
`reassignment`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sordini.protocol.errors import ErrorCode, shortened
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ClusterState, ReplicaAssignment, TopicAssignment, TopicState
from sordini.replication.controller.machine import election_algorithms
from sordini.replication.controller.machine.election_algorithms import ElectionType
from sordini.system.named_tuple import NamedTuple


class Rejection(NamedTuple):
    """Why a request is invalid: error code and message of the response."""

    code: ErrorCode
    reason: str


UNKNOWN_PARTITION = Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
NO_ELIGIBLE_LEADER = Rejection(
    ErrorCode.INVALID_REPLICA_ASSIGNMENT, "No remaining replica is in sync and eligible to lead."
)
ELECTION_REASONS = {
    ErrorCode.ELECTION_NOT_NEEDED: "The partition already has the leader that the election would choose.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred replica is not live, or not in sync.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "None of the replicas is live.",
}


class OngoingReassignment(NamedTuple):
    """A partition that is being reassigned: all its replicas, and those of them that are added and removed."""

    topic_partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def validate_election(
    cluster: ClusterState, election: ElectionType, topic_partition: TopicPartition
) -> BrokerId | Rejection:
    """The broker that wins the requested election."""
    topic = _topic_with(cluster, topic_partition)
    if topic is None:
        return UNKNOWN_PARTITION
    if topic_partition.topic in cluster.deletions:
        return Rejection(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted.")
    known = topic.states.get(topic_partition.partition)
    replicas = topic.assignment.replicas[topic_partition.partition]
    if known is None:  # No replica has been live since the partition was created.
        result: BrokerId | ErrorCode = election_algorithms.NO_WINNER_CODES[election]
    else:
        # A live leader counts as live, even where it is not eligible for election.
        leading = {broker for broker in cluster.brokers if broker == known.state.leader}
        live = cluster.electable(topic_partition) | leading
        result = election_algorithms.elect_requested(election, replicas, known.state, live)
    return Rejection(result, ELECTION_REASONS[result]) if isinstance(result, ErrorCode) else result


def validate_reassignment(
    cluster: ClusterState,
    topic_partition: TopicPartition,
    target: Sequence[BrokerId] | None,
    *,
    keep_factor: bool = False,
) -> tuple[BrokerId, ...] | Rejection:
    """The target replicas of the partition; without a target, those to which the ongoing reassignment is cancelled.

    With `keep_factor` the replication factor may not change (KIP-860).
    """
    topic = _topic_with(cluster, topic_partition)
    if target is None:
        if topic is None or not topic.assignment.is_reassigning(topic_partition.partition):
            return Rejection(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of the partition is in progress.")
        final = topic.assignment.origin_replicas(topic_partition.partition)
    else:
        final = tuple(target)
        problem = _problem_of(cluster, topic, topic_partition, final)
        if problem is not None:
            return Rejection(ErrorCode.INVALID_REPLICA_ASSIGNMENT, shortened(problem))
    if topic is None or topic_partition.topic in cluster.deletions:
        return UNKNOWN_PARTITION
    if keep_factor and len(final) != (factor := len(topic.assignment.origin_replicas(topic_partition.partition))):
        return Rejection(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor may not change from {factor} to {len(final)}.",
        )
    return final if _leaves_a_leader(cluster, topic, topic_partition, final) else NO_ELIGIBLE_LEADER


def reassign_to(assignment: TopicAssignment, partition: int, final: tuple[BrokerId, ...]) -> ReplicaAssignment:
    """The assignment during a reassignment to these replicas; the origin is that of an ongoing one, if any."""
    origin = assignment.origin_replicas(partition)
    leaving = tuple(replica for replica in origin if replica not in final)
    return ReplicaAssignment((*final, *leaving), tuple(replica for replica in final if replica not in origin), leaving)


def ongoing_reassignments(cluster: ClusterState) -> Iterator[OngoingReassignment]:
    """Every partition that is being reassigned, sorted; a former controller may have begun it."""
    for name, topic in sorted(cluster.topics.items()):
        for partition, replicas in sorted(topic.assignment.replicas.items()):
            if topic.assignment.is_reassigning(partition):
                adding, removing = topic.assignment.adding, topic.assignment.removing
                yield OngoingReassignment(
                    TopicPartition(name, partition), replicas, adding.get(partition, ()), removing.get(partition, ())
                )


def is_reassigning_to(cluster: ClusterState, topic_partition: TopicPartition, target: tuple[BrokerId, ...]) -> bool:
    """Whether the partition has exactly these replicas, or is being reassigned to them."""
    topic = _topic_with(cluster, topic_partition)
    if topic is None or topic_partition.topic in cluster.deletions:
        return False
    assignment, partition = topic.assignment, topic_partition.partition
    now = ReplicaAssignment(
        assignment.replicas[partition], assignment.adding.get(partition, ()), assignment.removing.get(partition, ())
    )
    return now == reassign_to(assignment, partition, target)


def is_reassigning(cluster: ClusterState, topic_partition: TopicPartition) -> bool:
    """Whether the partition is being reassigned."""
    topic = _topic_with(cluster, topic_partition)
    return (
        topic is not None
        and topic_partition.topic not in cluster.deletions
        and topic.assignment.is_reassigning(topic_partition.partition)
    )


def _topic_with(cluster: ClusterState, topic_partition: TopicPartition) -> TopicState | None:
    topic = cluster.topics.get(topic_partition.topic)
    return topic if topic is not None and topic_partition.partition in topic.assignment.replicas else None


def _leaves_a_leader(
    cluster: ClusterState, topic: TopicState, topic_partition: TopicPartition, final: tuple[BrokerId, ...]
) -> bool:
    """Whether an eligible in-sync replica is left without those that a new target does not need."""
    known = topic.states.get(topic_partition.partition)
    if known is None:
        return True  # The partition has no records.
    kept = reassign_to(topic.assignment, topic_partition.partition, final).replicas
    in_sync = [replica for replica in known.state.isr if replica in kept]
    if known.state.leader is None or known.state.leader in kept:
        return bool(in_sync)
    return not cluster.electable(topic_partition).isdisjoint(in_sync)


def _problem_of(
    cluster: ClusterState, topic: TopicState | None, topic_partition: TopicPartition, target: tuple[BrokerId, ...]
) -> str | None:
    """What is wrong with a target, or None."""
    if not target:
        return "A partition needs at least one replica."
    if len(set(target)) != len(target):
        return f"Duplicate replicas: {list(target)}"
    if min(target) < 0:
        return f"Broker ids must not be negative: {list(target)}"
    held = () if topic is None else topic.assignment.origin_replicas(topic_partition.partition)
    live = cluster.brokers.keys() - cluster.shutting_down
    missing = [broker for broker in target if broker not in held and broker not in live]
    if missing:
        return f"Brokers {missing} are not live; live brokers: {sorted(live)}."
    return None
