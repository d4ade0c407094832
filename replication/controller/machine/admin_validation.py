"""What administrators ask of the reigning controller for single partitions: elections (KIP-183, KIP-460), and moves
to other replicas (KIP-455).

Pure. A wish is judged on the cluster as the controller knows it: it comes out as what will be, or as the code and
the words by which it is declined; the order of the checks is Apache Kafka's. The machine grants by the same judgement
by which the answer is worded.

A move is granted when the brokers that it brings in are alive; how it is carried out is in `moves`. What is refused is
to go on without any replica that is in sync.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sordini.protocol.errors import ErrorCode, shortened
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ClusterState, ReplicaAssignment, TopicAssignment, TopicState
from sordini.replication.controller.machine import election_algorithms
from sordini.replication.controller.machine.election_algorithms import ElectionType


class Rejection(NamedTuple):
    """A wish that is not granted, and why."""

    code: ErrorCode
    reason: str


NO_PARTITION = Rejection(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
WITHOUT_LEADER = Rejection(
    ErrorCode.INVALID_REPLICA_ASSIGNMENT, "No replica that would be left is in sync and may lead."
)
REASONS = {
    ErrorCode.ELECTION_NOT_NEEDED: "The partition has the leader that it should have.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred replica is not alive, or not in sync.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "None of the replicas is alive.",
}


class OngoingReassignment(NamedTuple):
    """A partition that is on the move: all its replicas, and those among them that come and go."""

    topic_partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def validate_election(cluster: ClusterState, election: ElectionType, wanted: TopicPartition) -> BrokerId | Rejection:
    """Who wins the election that is asked for."""
    topic = _topic_with(cluster, wanted)
    if topic is None:
        return NO_PARTITION
    if wanted.topic in cluster.deletions:
        return Rejection(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted.")
    known = topic.states.get(wanted.partition)
    replicas = topic.assignment.replicas[wanted.partition]
    if known is None:  # Never led: none of its replicas was alive since it was made.
        verdict: BrokerId | ErrorCode = election_algorithms.NO_WINNER_CODES[election]
    else:
        # A leader that is alive leads, even one that would not be elected again.
        leading = {broker for broker in cluster.brokers if broker == known.state.leader}
        verdict = election_algorithms.elect_requested(
            election, replicas, known.state, cluster.electable(wanted) | leading
        )
    return Rejection(verdict, REASONS[verdict]) if isinstance(verdict, ErrorCode) else verdict


def validate_reassignment(
    cluster: ClusterState, wanted: TopicPartition, target: Sequence[BrokerId] | None, *, keep_factor: bool = False
) -> tuple[BrokerId, ...] | Rejection:
    """The replicas that the partition shall have; without a target the move under way is to be undone.

    With `keep_factor` there must be as many as before (KIP-860).
    """
    topic = _topic_with(cluster, wanted)
    if target is None:
        if topic is None or not topic.assignment.is_reassigning(wanted.partition):
            return Rejection(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of the partition is in progress.")
        end = topic.assignment.origin_replicas(wanted.partition)
    else:
        end = tuple(target)
        fault = _fault_of(cluster, topic, wanted, end)
        if fault is not None:
            return Rejection(ErrorCode.INVALID_REPLICA_ASSIGNMENT, shortened(fault))
    if topic is None or wanted.topic in cluster.deletions:
        return NO_PARTITION
    if keep_factor and len(end) != (factor := len(topic.assignment.origin_replicas(wanted.partition))):
        return Rejection(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor may not change from {factor} to {len(end)}."
        )
    return end if _leaves_a_leader(cluster, topic, wanted, end) else WITHOUT_LEADER


def plan(assignment: TopicAssignment, partition: int, end: tuple[BrokerId, ...]) -> ReplicaAssignment:
    """How a partition gets to these replicas from those it had before any move that is under way."""
    origin = assignment.origin_replicas(partition)
    leaving = tuple(replica for replica in origin if replica not in end)
    return ReplicaAssignment((*end, *leaving), tuple(replica for replica in end if replica not in origin), leaving)


def ongoing_reassignments(cluster: ClusterState) -> Iterator[OngoingReassignment]:
    """Every partition on the move, by topic and number: another broker's controller may have left some."""
    for name, topic in sorted(cluster.topics.items()):
        for partition, replicas in sorted(topic.assignment.replicas.items()):
            if topic.assignment.is_reassigning(partition):
                adding, removing = topic.assignment.adding, topic.assignment.removing
                yield OngoingReassignment(
                    TopicPartition(name, partition), replicas, adding.get(partition, ()), removing.get(partition, ())
                )


def is_reassigning_to(cluster: ClusterState, wanted: TopicPartition, target: tuple[BrokerId, ...]) -> bool:
    """Whether the partition has these replicas and no others, or is moving to them."""
    topic = _topic_with(cluster, wanted)
    if topic is None or wanted.topic in cluster.deletions:
        return False
    assignment, partition = topic.assignment, wanted.partition
    now = ReplicaAssignment(
        assignment.replicas[partition], assignment.adding.get(partition, ()), assignment.removing.get(partition, ())
    )
    return now == plan(assignment, partition, target)


def is_reassigning(cluster: ClusterState, wanted: TopicPartition) -> bool:
    """Whether a move of the partition is under way."""
    topic = _topic_with(cluster, wanted)
    return (
        topic is not None
        and wanted.topic not in cluster.deletions
        and topic.assignment.is_reassigning(wanted.partition)
    )


def _topic_with(cluster: ClusterState, wanted: TopicPartition) -> TopicState | None:
    topic = cluster.topics.get(wanted.topic)
    return topic if topic is not None and wanted.partition in topic.assignment.replicas else None


def _leaves_a_leader(
    cluster: ClusterState, topic: TopicState, wanted: TopicPartition, end: tuple[BrokerId, ...]
) -> bool:
    """Whether somebody in sync is left to lead when those go that a change of plans needs no more."""
    known = topic.states.get(wanted.partition)
    if known is None:
        return True  # Nothing was ever written to it.
    kept = plan(topic.assignment, wanted.partition, end).replicas
    in_sync = [replica for replica in known.state.isr if replica in kept]
    if known.state.leader is None or known.state.leader in kept:
        return bool(in_sync)
    return not cluster.electable(wanted).isdisjoint(in_sync)


def _fault_of(
    cluster: ClusterState, topic: TopicState | None, wanted: TopicPartition, target: tuple[BrokerId, ...]
) -> str | None:
    """What is wrong with a target in itself."""
    if not target:
        return "A partition needs a replica."
    if len(set(target)) != len(target):
        return f"A broker holds a partition once, not twice: {list(target)}"
    if min(target) < 0:
        return f"A broker's id is not negative: {list(target)}"
    held = () if topic is None else topic.assignment.origin_replicas(wanted.partition)
    alive = cluster.brokers.keys() - cluster.shutting_down
    missing = [broker for broker in target if broker not in held and broker not in alive]
    if missing:
        return f"Brokers {missing} are not alive, {sorted(alive)} are."
    return None
