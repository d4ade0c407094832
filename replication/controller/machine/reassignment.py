"""Reassignment of partitions to other replicas (KIP-455).

    origin 1,2, target 3,1          /brokers/topics/T                  the partition's state, sent to brokers
      STARTED                       3,1,2  adding 3, removing 2        next epoch: 3 follows
      ... 3 catches up              .                                  its leader adds 3 to the ISR
      LEADER_MOVED                  .                                  next epoch: 3 or 1 leads
      ISR_SHRUNK                    .                                  next epoch: ISR 3,1; brokers are sent 3,1 alone
      completed: 2 is deleted       3,1                                .

Every step is a write. The next step follows once it is in the store, and depends only on what the store contains. So a
new controller continues where the old one stopped: it begins another epoch, since it does not know which brokers got
which commands, or elects a target replica if all of them are in sync. If another writer changed the state, the step is
decided again on that. A partition without a leader waits.

A new target, or a cancellation, may be requested at any time. First the replicas that it does not need are removed from
the ISR and from what brokers are sent (UNNEEDED_DROPPED), and deleted; then the new assignment is written. Until that
write the former reassignment is the ongoing one.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import assert_never

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ReplicaAssignment, StoppedReplica, TopicAssignment, frozen
from sordini.replication.controller.machine import admin_validation, election_algorithms, leader_election
from sordini.replication.controller.machine.events import NewAssignment, NewState, ReassignmentStep, StoreWrite
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Set

Brokers = tuple[BrokerId, ...]


def begin(transition: ControllerTransition, targets: Mapping[TopicPartition, Brokers | None]) -> None:
    """Begin the valid reassignments that change something; without a target the ongoing one is cancelled."""
    ready: dict[TopicPartition, Brokers] = {}
    for one, requested in targets.items():
        target = admin_validation.validate_reassignment(transition.before, one, requested)
        if isinstance(target, admin_validation.Rejection) or admin_validation.is_reassigning_to(
            transition.before, one, target
        ):
            continue
        if not _drop_unneeded(transition, one, target):
            ready[one] = target
    _assign(transition, ready, ())


def resume(transition: ControllerTransition, partitions: Iterable[TopicPartition]) -> None:
    """Advance those of the partitions that are being reassigned, and send their state to brokers in any case."""
    for topic_partition in partitions:
        if not _is_reassigning(transition, topic_partition) or _lead(transition, topic_partition):
            continue
        state = transition.states(topic_partition.topic)[topic_partition.partition].state
        if state.leader is not None:
            transition.write_state(
                topic_partition, transition.next_state(state, state.leader, state.isr), ReassignmentStep.STARTED
            )


def advance(transition: ControllerTransition, partitions: Iterable[TopicPartition]) -> None:
    """Advance those of the partitions that are being reassigned, if all target replicas are in sync."""
    for topic_partition in partitions:
        if _is_reassigning(transition, topic_partition):
            _lead(transition, topic_partition)


def announce_planned(transition: ControllerTransition, written: Iterable[NewState]) -> None:
    """Where unneeded replicas were dropped, brokers are sent the new target's assignment already."""
    for new in written:
        name, partition = new.topic_partition
        known = transition.states(name).get(partition)
        if new.step is ReassignmentStep.UNNEEDED_DROPPED and known is not None and known.state == new.state:
            assignment = admin_validation.reassign_to(_assigned(transition, new.topic_partition), partition, new.target)
            transition.announce_planned(new.topic_partition, assignment)


def states_written(transition: ControllerTransition, written: Iterable[NewState]) -> None:
    """These states were written and sent to brokers: continue the reassignments among them."""
    begun: dict[TopicPartition, Brokers] = {}
    ended: list[TopicPartition] = []
    stopped: dict[TopicPartition, Brokers] = {}
    for new in written:
        topic_partition = new.topic_partition
        known = transition.states(topic_partition.topic).get(topic_partition.partition)
        if topic_partition.topic in transition.deletions or known is None:
            continue
        if known.state != new.state:
            # Another writer's state was found and may stay, but it must reach brokers in a new epoch.
            resume(transition, [topic_partition])
            continue
        match new.step:
            case None | ReassignmentStep.STARTED:
                advance(transition, [topic_partition])
            case ReassignmentStep.UNNEEDED_DROPPED:
                begun[topic_partition] = new.target
                stopped[topic_partition] = _unneeded(transition, topic_partition, new.target)
            case ReassignmentStep.LEADER_MOVED | ReassignmentStep.ISR_SHRUNK:
                if _is_reassigning(transition, topic_partition) and not _drop(transition, topic_partition):
                    ended.append(topic_partition)
                    removing = _assigned(transition, topic_partition).removing
                    stopped[topic_partition] = removing.get(topic_partition.partition, ())
            case _:
                assert_never(new.step)
    _stop(transition, stopped)
    _assign(transition, begun, ended)


def assignment_written(transition: ControllerTransition, purpose: NewAssignment) -> None:
    """The assignment is in the store: send it to the replicas of the partitions whose reassignment begins."""
    former, assignment = transition.assignment(purpose.assignment.name), purpose.assignment
    if former is None:
        return
    transition.put_topic(assignment)
    for partition in purpose.begun:
        topic_partition, known = (
            TopicPartition(assignment.name, partition),
            transition.states(assignment.name).get(partition),
        )
        if known is None:
            # No replica ever existed: there is nothing to copy.
            live = transition.brokers.keys()
            leader_election.update_states(transition, assignment, live, live, [partition])
        elif _is_reassigning(transition, topic_partition) and _lead(transition, topic_partition):
            pass  # All target replicas are in sync.
        elif set(former.replicas[partition]) <= set(assignment.replicas[partition]):
            # Where unneeded replicas were dropped, this was sent then.
            state = transition.next_state(known.state, known.state.leader, known.state.isr)
            transition.write_state(topic_partition, state, ReassignmentStep.STARTED)


def assignment_not_written(transition: ControllerTransition, purpose: NewAssignment) -> None:
    """Another writer changed the topic: the former assignment stays, with the replicas that were dropped."""
    resume(transition, (TopicPartition(purpose.assignment.name, partition) for partition in purpose.begun))


def reassigning(transition: ControllerTransition, topic: TopicAssignment) -> list[TopicPartition]:
    """The partitions of a topic that are being reassigned."""
    return [
        TopicPartition(topic.name, partition)
        for partition in sorted({*topic.adding, *topic.removing})
        if _is_reassigning(transition, TopicPartition(topic.name, partition))
    ]


def _is_reassigning(transition: ControllerTransition, topic_partition: TopicPartition) -> bool:
    name, partition = topic_partition
    assignment = transition.assignment(name)
    return (
        assignment is not None
        and assignment.is_reassigning(partition)
        and name not in transition.deletions
        and partition in transition.states(name)
        and partition in assignment.replicas
        and bool(assignment.target_replicas(partition))
    )


def _unneeded(transition: ControllerTransition, topic_partition: TopicPartition, target: Brokers) -> Brokers:
    """The replicas that a new target does not need."""
    assignment, partition = _assigned(transition, topic_partition), topic_partition.partition
    kept = admin_validation.reassign_to(assignment, partition, target).replicas
    return tuple(replica for replica in assignment.replicas[partition] if replica not in kept)


def _drop_unneeded(transition: ControllerTransition, topic_partition: TopicPartition, target: Brokers) -> bool:
    """Begin an epoch without the replicas that the new target does not need; false when there are none."""
    known = transition.states(topic_partition.topic).get(topic_partition.partition)
    gone = _unneeded(transition, topic_partition, target)
    if known is None or not gone:
        return False
    isr = tuple(replica for replica in known.state.isr if replica not in gone)
    leader = known.state.leader
    if leader in gone:
        kept = admin_validation.reassign_to(
            _assigned(transition, topic_partition), topic_partition.partition, target
        ).replicas
        leader = election_algorithms.elect_offline(
            kept, isr, [broker for broker in kept if transition.is_eligible(broker, topic_partition)]
        )
    transition.write_state(
        topic_partition, transition.next_state(known.state, leader, isr), ReassignmentStep.UNNEEDED_DROPPED, target
    )
    return True


def _lead(transition: ControllerTransition, topic_partition: TopicPartition) -> bool:
    """Once all target replicas are in sync, begin the epoch in which one of them leads; false when that has to wait."""
    name, partition = topic_partition
    target, state = (
        _assigned(transition, topic_partition).target_replicas(partition),
        transition.states(name)[partition].state,
    )
    if state.leader is None or not set(target) <= set(state.isr):
        return False
    leader: BrokerId | None = state.leader
    if leader not in target:
        leader = election_algorithms.elect_offline(
            target, state.isr, [one for one in target if transition.is_eligible(one, topic_partition)]
        )
    if leader is None:
        return False
    transition.write_state(
        topic_partition, transition.next_state(state, leader, state.isr), ReassignmentStep.LEADER_MOVED
    )
    return True


def _drop(transition: ControllerTransition, topic_partition: TopicPartition) -> bool:
    """Write the state in which only target replicas are in sync; false when it is so already."""
    name, partition = topic_partition
    target, state = (
        _assigned(transition, topic_partition).target_replicas(partition),
        transition.states(name)[partition].state,
    )
    isr = tuple(replica for replica in state.isr if replica in target)
    if isr == state.isr:
        return False
    transition.write_state(
        topic_partition, transition.next_state(state, state.leader, isr), ReassignmentStep.ISR_SHRUNK
    )
    return True


def _assigned(transition: ControllerTransition, topic_partition: TopicPartition) -> TopicAssignment:
    assignment = transition.assignment(topic_partition.topic)
    assert assignment is not None, "a reassigned topic is known"
    return assignment


def _stop(transition: ControllerTransition, replicas: Mapping[TopicPartition, Brokers]) -> None:
    """Have these replicas deleted on live brokers."""
    stopped: dict[BrokerId, list[StoppedReplica]] = defaultdict(list)
    for topic_partition, brokers in replicas.items():
        for broker in brokers:
            if broker in transition.brokers:
                epoch = transition.states(topic_partition.topic)[topic_partition.partition].state.leader_epoch
                stopped[broker].append(StoppedReplica(topic_partition, epoch, delete=True))
    if stopped:
        transition.send_stop(stopped)


def _assign(
    transition: ControllerTransition, begun: Mapping[TopicPartition, Brokers], ended: Iterable[TopicPartition]
) -> None:
    """Write the assignments of reassignments that begin, with their targets, or complete: one write per topic."""
    assignments: dict[str, dict[int, ReplicaAssignment]] = defaultdict(dict)
    for one, target in begun.items():
        assignment, known = _assigned(transition, one), transition.states(one.topic).get(one.partition)
        whole = admin_validation.reassign_to(assignment, one.partition, target)
        assignments[one.topic][one.partition] = whole if known is not None else ReplicaAssignment(target, (), ())
    for one in ended:
        assignments[one.topic][one.partition] = ReplicaAssignment(
            _assigned(transition, one).target_replicas(one.partition), (), ()
        )
    for name, changed in assignments.items():
        former = transition.assignment(name)
        assert former is not None, "a reassigned topic is known"
        edited = _with_replicas(former, changed)
        operation = Set(paths.topic(name), znodes.encode_topic(edited), former.version)
        started = sorted(partition for partition in changed if TopicPartition(name, partition) in begun)
        transition.write(
            StoreWrite(operation, NewAssignment(edited, tuple(started), tuple(sorted(changed.keys() - set(started)))))
        )


def _with_replicas(assignment: TopicAssignment, assignments: Mapping[int, ReplicaAssignment]) -> TopicAssignment:
    """The assignment with other replicas for some partitions."""

    def merged(old: Mapping[int, Brokers], new: Mapping[int, Brokers]) -> Mapping[int, Brokers]:
        return frozen(
            {**{p: held for p, held in old.items() if p not in assignments}, **{p: r for p, r in new.items() if r}}
        )

    return assignment._replace(
        replicas=frozen(
            {**assignment.replicas, **{p: replica_assignment.replicas for p, replica_assignment in assignments.items()}}
        ),
        adding=merged(
            assignment.adding, {p: replica_assignment.adding for p, replica_assignment in assignments.items()}
        ),
        removing=merged(
            assignment.removing, {p: replica_assignment.removing for p, replica_assignment in assignments.items()}
        ),
    )
