"""Moving partitions to other replicas (KIP-455).

    origin 1,2, target 3,1          /brokers/topics/T                  the partition's state, brokers told of it
      begun: nothing is lost yet    3,1,2  adding 3, removing 2        next epoch: 3 follows, the leader counts it
      ... 3 catches up              .                                  its leader puts 3 into the in-sync set
      led: by one that stays        .                                  next epoch
      dropped: 2 is out of sync     .                                  next epoch: brokers hear of 3,1 alone
      ended: 2 deletes its copy     3,1                                .

Every step is a write; what follows it is done when it is in the store, and can be told from what is there. So a new
controller goes on where the old one stopped: it begins another epoch, since nobody knows who was told what, or takes
the leadership if all that stay are in sync already. A state that somebody else wrote meanwhile makes the step be
decided anew on that. A partition that nobody leads waits.

Another target, or going back, may come at any time. Copies that it has no use for go first: out of the in-sync set and
out of what brokers hear, then deleted; only then it is written. Until it is, the former move is the one to go on with.

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import ReplicaAssignment, StoppedReplica, TopicAssignment, frozen
from sordini.replication.controller.machine import admin_validation, election_algorithms, leader_election
from sordini.replication.controller.machine.events import NewAssignment, NewState, Step, Write
from sordini.replication.controller.machine.transition import Transition
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Set

Brokers = tuple[BrokerId, ...]


def begin(transition: Transition, targets: Mapping[TopicPartition, Brokers | None]) -> None:
    """Begin the moves that are granted and change something; without a target the move under way is undone."""
    ready: dict[TopicPartition, Brokers] = {}
    for wanted, target in targets.items():
        end = admin_validation.validate_reassignment(transition.before, wanted, target)
        if isinstance(end, admin_validation.Rejection) or admin_validation.is_reassigning_to(
            transition.before, wanted, end
        ):
            continue
        if not _make_room(transition, wanted, end):
            ready[wanted] = end
    _assign(transition, ready, ())


def resume(transition: Transition, partitions: Iterable[TopicPartition]) -> None:
    """Take those of the partitions that are on the move a step further, and let brokers hear of it in any case."""
    for topic_partition in partitions:
        if not _is_reassigning(transition, topic_partition) or _lead(transition, topic_partition):
            continue
        state = transition.states(topic_partition.topic)[topic_partition.partition].state
        if state.leader is not None:
            transition.write_state(topic_partition, transition.next_state(state, state.leader, state.isr), Step.BEGUN)


def go_on(transition: Transition, partitions: Iterable[TopicPartition]) -> None:
    """Take those of the partitions that are on the move a step further, if all that shall stay are in sync."""
    for topic_partition in partitions:
        if _is_reassigning(transition, topic_partition):
            _lead(transition, topic_partition)


def announce_planned(transition: Transition, written: Iterable[NewState]) -> None:
    """Where room was made for another target, brokers hear already of that."""
    for new in written:
        name, partition = new.topic_partition
        known = transition.states(name).get(partition)
        if new.step is Step.ROOM and known is not None and known.state == new.state:
            plan = admin_validation.plan(_assigned(transition, new.topic_partition), partition, new.target)
            transition.announce_planned(new.topic_partition, plan)


def stepped(transition: Transition, written: Iterable[NewState]) -> None:
    """These states were written, and brokers told of them: what is next for those that are on the move?"""
    begun: dict[TopicPartition, Brokers] = {}
    ended: list[TopicPartition] = []
    stopped: dict[TopicPartition, Brokers] = {}
    for new in written:
        topic_partition = new.topic_partition
        known = transition.states(topic_partition.topic).get(topic_partition.partition)
        if topic_partition.topic in transition.deletions or known is None:
            continue
        if known.state != new.state:
            # Another state was found there, and it may stay; but brokers must hear of it in an epoch of its own.
            resume(transition, [topic_partition])
            continue
        match new.step:
            case None | Step.BEGUN:
                go_on(transition, [topic_partition])
            case Step.ROOM:
                begun[topic_partition] = new.target
                stopped[topic_partition] = _unneeded(transition, topic_partition, new.target)
            case Step.LED | Step.DROPPED:
                if _is_reassigning(transition, topic_partition) and not _drop(transition, topic_partition):
                    ended.append(topic_partition)
                    removing = _assigned(transition, topic_partition).removing
                    stopped[topic_partition] = removing.get(topic_partition.partition, ())
            case _:
                assert_never(new.step)
    _stop(transition, stopped)
    _assign(transition, begun, ended)


def assigned(transition: Transition, purpose: NewAssignment) -> None:
    """The assignment is in the store: those who hold the partitions that move from now on hear of it."""
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
            # Nobody ever held it: there is nothing to be copied.
            live = transition.brokers.keys()
            leader_election.update_states(transition, assignment, live, live, [partition])
        elif _is_reassigning(transition, topic_partition) and _lead(transition, topic_partition):
            pass  # Nothing is to be copied.
        elif set(former.replicas[partition]) <= set(assignment.replicas[partition]):
            # Where others had to make room, this was told then.
            state = transition.next_state(known.state, known.state.leader, known.state.isr)
            transition.write_state(topic_partition, state, Step.BEGUN)


def not_assigned(transition: Transition, purpose: NewAssignment) -> None:
    """Somebody else wrote the topic: what had made room for another target is needed again."""
    resume(transition, (TopicPartition(purpose.assignment.name, partition) for partition in purpose.begun))


def moving(transition: Transition, topic: TopicAssignment) -> list[TopicPartition]:
    """The partitions of a topic that are on the move."""
    return [
        TopicPartition(topic.name, partition)
        for partition in sorted({*topic.adding, *topic.removing})
        if _is_reassigning(transition, TopicPartition(topic.name, partition))
    ]


def _is_reassigning(transition: Transition, topic_partition: TopicPartition) -> bool:
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


def _unneeded(transition: Transition, topic_partition: TopicPartition, end: Brokers) -> Brokers:
    """The replicas for which another target has no use."""
    assignment, partition = _assigned(transition, topic_partition), topic_partition.partition
    kept = admin_validation.plan(assignment, partition, end).replicas
    return tuple(replica for replica in assignment.replicas[partition] if replica not in kept)


def _make_room(transition: Transition, topic_partition: TopicPartition, end: Brokers) -> bool:
    """Begin an epoch without those for which the new target has no use; false when there are none."""
    known = transition.states(topic_partition.topic).get(topic_partition.partition)
    gone = _unneeded(transition, topic_partition, end)
    if known is None or not gone:
        return False
    isr = tuple(replica for replica in known.state.isr if replica not in gone)
    leader = known.state.leader
    if leader in gone:
        kept = admin_validation.plan(_assigned(transition, topic_partition), topic_partition.partition, end).replicas
        leader = election_algorithms.elect_offline(
            kept, isr, [broker for broker in kept if transition.is_eligible(broker, topic_partition)]
        )
    transition.write_state(topic_partition, transition.next_state(known.state, leader, isr), Step.ROOM, end)
    return True


def _lead(transition: Transition, topic_partition: TopicPartition) -> bool:
    """Once all that stay are in sync, begin the epoch in which one of them leads; false when that has to wait."""
    name, partition = topic_partition
    end, state = (
        _assigned(transition, topic_partition).target_replicas(partition),
        transition.states(name)[partition].state,
    )
    if state.leader is None or not set(end) <= set(state.isr):
        return False
    leader: BrokerId | None = state.leader
    if leader not in end:
        leader = election_algorithms.elect_offline(
            end, state.isr, [one for one in end if transition.is_eligible(one, topic_partition)]
        )
    if leader is None:
        return False
    transition.write_state(topic_partition, transition.next_state(state, leader, state.isr), Step.LED)
    return True


def _drop(transition: Transition, topic_partition: TopicPartition) -> bool:
    """Write the state in which only those that stay are in sync; false when it is so already."""
    name, partition = topic_partition
    end, state = (
        _assigned(transition, topic_partition).target_replicas(partition),
        transition.states(name)[partition].state,
    )
    isr = tuple(replica for replica in state.isr if replica in end)
    if isr == state.isr:
        return False
    transition.write_state(topic_partition, transition.next_state(state, state.leader, isr), Step.DROPPED)
    return True


def _assigned(transition: Transition, topic_partition: TopicPartition) -> TopicAssignment:
    assignment = transition.assignment(topic_partition.topic)
    assert assignment is not None, "a move is of a topic that is known"
    return assignment


def _stop(transition: Transition, replicas: Mapping[TopicPartition, Brokers]) -> None:
    """Have these copies deleted, where their brokers are alive."""
    stopped: dict[BrokerId, list[StoppedReplica]] = defaultdict(list)
    for topic_partition, brokers in replicas.items():
        for broker in brokers:
            if broker in transition.brokers:
                epoch = transition.states(topic_partition.topic)[topic_partition.partition].state.leader_epoch
                stopped[broker].append(StoppedReplica(topic_partition, epoch, delete=True))
    if stopped:
        transition.send_stop(stopped)


def _assign(transition: Transition, begun: Mapping[TopicPartition, Brokers], ended: Iterable[TopicPartition]) -> None:
    """Write the assignments of moves that begin, with their targets, and of moves that end: one write for a topic."""
    plans: dict[str, dict[int, ReplicaAssignment]] = defaultdict(dict)
    for one, end in begun.items():
        assignment, known = _assigned(transition, one), transition.states(one.topic).get(one.partition)
        whole = admin_validation.plan(assignment, one.partition, end)
        plans[one.topic][one.partition] = whole if known is not None else ReplicaAssignment(end, (), ())
    for one in ended:
        plans[one.topic][one.partition] = ReplicaAssignment(
            _assigned(transition, one).target_replicas(one.partition), (), ()
        )
    for name, changed in plans.items():
        former = transition.assignment(name)
        assert former is not None, "a move is of a topic that is known"
        edited = _with(former, changed)
        operation = Set(paths.topic(name), znodes.encode_topic(edited), former.version)
        moves = sorted(partition for partition in changed if TopicPartition(name, partition) in begun)
        transition.write(
            Write(operation, NewAssignment(edited, tuple(moves), tuple(sorted(changed.keys() - set(moves)))))
        )


def _with(assignment: TopicAssignment, plans: Mapping[int, ReplicaAssignment]) -> TopicAssignment:
    """The assignment with other replicas for some partitions."""

    def merged(old: Mapping[int, Brokers], new: Mapping[int, Brokers]) -> Mapping[int, Brokers]:
        return frozen({**{p: held for p, held in old.items() if p not in plans}, **{p: r for p, r in new.items() if r}})

    return replace(
        assignment,
        replicas=frozen({**assignment.replicas, **{p: plan.replicas for p, plan in plans.items()}}),
        adding=merged(assignment.adding, {p: plan.adding for p, plan in plans.items()}),
        removing=merged(assignment.removing, {p: plan.removing for p, plan in plans.items()}),
    )
