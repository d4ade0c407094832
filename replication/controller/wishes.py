"""What administrators ask of the reigning controller for single partitions: elections (KIP-183, KIP-460), and moves
to other replicas (KIP-455).

Pure. A wish is judged on the cluster as the controller knows it: it comes out as what will be, or as the code and
the words by which it is declined; the order of the checks is Apache Kafka's. The machine grants by the same judgement
by which the answer is worded.

A move can drop replicas and change their order, which is done at once. One that would have to wait until a new replica
has caught up is declined: this controller ends such moves when another one has begun them, and begins none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sordini.protocol.errors import ErrorCode, shortened
from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller import elections
from sordini.replication.controller.cluster import Cluster, Topic
from sordini.replication.controller.elections import Election


class Declined(NamedTuple):
    """A wish that is not granted, and why."""

    code: ErrorCode
    reason: str


NO_PARTITION = Declined(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "There is no such partition.")
REASONS = {
    ErrorCode.ELECTION_NOT_NEEDED: "The partition has the leader that it should have.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred replica is not alive, or not in sync.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "None of the replicas is alive.",
}


class OngoingMove(NamedTuple):
    """A partition that is on the move: all its replicas, and those among them that come and go."""

    topic_partition: TopicPartition
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


def judge_election(cluster: Cluster, election: Election, wanted: TopicPartition) -> BrokerId | Declined:
    """Who wins the election that is asked for."""
    topic = _topic_with(cluster, wanted)
    if topic is None:
        return NO_PARTITION
    if wanted.topic in cluster.deletions:
        return Declined(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted.")
    known = topic.states.get(wanted.partition)
    replicas = topic.assignment.replicas[wanted.partition]
    if known is None:  # Never led: none of its replicas was alive since it was made.
        verdict: BrokerId | ErrorCode = elections.NOBODY[election]
    else:
        # A leader that is alive leads, even one that would not be elected again.
        leading = {broker for broker in cluster.brokers if broker == known.state.leader}
        verdict = elections.judge(election, replicas, known.state, cluster.electable(wanted) | leading)
    return Declined(verdict, REASONS[verdict]) if isinstance(verdict, ErrorCode) else verdict


def judge_move(
    cluster: Cluster, wanted: TopicPartition, target: Sequence[BrokerId] | None, *, keep_factor: bool = False
) -> tuple[BrokerId, ...] | Declined:
    """The replicas that the partition shall have; without a target the move under way is to be undone.

    With `keep_factor` there must be as many as before (KIP-860).
    """
    topic = _topic_with(cluster, wanted)
    if target is None:
        if topic is None or not _is_moving(topic, wanted.partition):
            return Declined(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No reassignment of the partition is in progress.")
        end = _origin(topic, wanted.partition)
    else:
        end = tuple(target)
        fault = _fault_of(cluster, topic, wanted, end)
        if fault is not None:
            return Declined(ErrorCode.INVALID_REPLICA_ASSIGNMENT, shortened(fault))
    if topic is None or wanted.topic in cluster.deletions:
        return NO_PARTITION
    if keep_factor and len(end) != (factor := len(_origin(topic, wanted.partition))):
        return Declined(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor may not change from {factor} to {len(end)}."
        )
    if _moves_nothing(topic, wanted.partition, end):
        return end
    known = topic.states.get(wanted.partition)
    isr = () if known is None else known.state.isr
    kept = [replica for replica in end if replica in isr]
    # What is gone back to need not be whole; what is newly wanted is, from the start.
    if not kept or (target is not None and len(kept) < len(end)):
        return Declined(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Only replicas that are in sync can be moved to, {list(isr)} are: this controller has no new ones copied.",
        )
    return end


def ongoing_moves(cluster: Cluster) -> Iterator[OngoingMove]:
    """Every partition on the move, by topic and number: another broker's controller may have left some."""
    for name, topic in sorted(cluster.topics.items()):
        for partition, replicas in sorted(topic.assignment.replicas.items()):
            if _is_moving(topic, partition):
                adding, removing = topic.assignment.adding, topic.assignment.removing
                yield OngoingMove(
                    TopicPartition(name, partition), replicas, adding.get(partition, ()), removing.get(partition, ())
                )


def is_settled(cluster: Cluster, wanted: TopicPartition, target: tuple[BrokerId, ...]) -> bool:
    """Whether the partition has these replicas and is not on the move."""
    topic = _topic_with(cluster, wanted)
    return topic is not None and _moves_nothing(topic, wanted.partition, target)


def _topic_with(cluster: Cluster, wanted: TopicPartition) -> Topic | None:
    topic = cluster.topics.get(wanted.topic)
    return topic if topic is not None and wanted.partition in topic.assignment.replicas else None


def _is_moving(topic: Topic, partition: int) -> bool:
    return bool(topic.assignment.adding.get(partition) or topic.assignment.removing.get(partition))


def _origin(topic: Topic, partition: int) -> tuple[BrokerId, ...]:
    """The replicas without those that a move under way adds."""
    adding = topic.assignment.adding.get(partition, ())
    return tuple(replica for replica in topic.assignment.replicas[partition] if replica not in adding)


def _moves_nothing(topic: Topic, partition: int, end: tuple[BrokerId, ...]) -> bool:
    return topic.assignment.replicas[partition] == end and not _is_moving(topic, partition)


def _fault_of(
    cluster: Cluster, topic: Topic | None, wanted: TopicPartition, target: tuple[BrokerId, ...]
) -> str | None:
    """What is wrong with a target in itself."""
    if not target:
        return "A partition needs a replica."
    if len(set(target)) != len(target):
        return f"A broker holds a partition once, not twice: {list(target)}"
    if min(target) < 0:
        return f"A broker's id is not negative: {list(target)}"
    held = () if topic is None else topic.assignment.replicas[wanted.partition]
    missing = [broker for broker in target if broker not in held and broker not in cluster.brokers]
    if missing:
        return f"Brokers {missing} are not alive, {sorted(cluster.brokers)} are."
    return None
