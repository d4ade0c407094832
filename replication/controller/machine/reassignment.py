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
from sordini.replication.cluster_model import Plan, StoppedReplica, TopicAssignment, frozen
from sordini.replication.controller.machine import admin_validation, election_algorithms, leader_election
from sordini.replication.controller.machine.events import Moved, NewState, Step, Write
from sordini.replication.controller.machine.transition import Turn
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Set

Brokers = tuple[BrokerId, ...]


def begin(turn: Turn, targets: Mapping[TopicPartition, Brokers | None]) -> None:
    """Begin the moves that are granted and change something; without a target the move under way is undone."""
    ready: dict[TopicPartition, Brokers] = {}
    for wanted, target in targets.items():
        end = admin_validation.judge_move(turn.before, wanted, target)
        if isinstance(end, admin_validation.Declined) or admin_validation.is_under_way(turn.before, wanted, end):
            continue
        if not _make_room(turn, wanted, end):
            ready[wanted] = end
    _assign(turn, ready, ())


def resume(turn: Turn, partitions: Iterable[TopicPartition]) -> None:
    """Take those of the partitions that are on the move a step further, and let brokers hear of it in any case."""
    for topic_partition in partitions:
        if not _is_moving(turn, topic_partition) or _lead(turn, topic_partition):
            continue
        state = turn.states(topic_partition.topic)[topic_partition.partition].state
        if state.leader is not None:
            turn.write_state(topic_partition, turn.next_state(state, state.leader, state.isr), Step.BEGUN)


def go_on(turn: Turn, partitions: Iterable[TopicPartition]) -> None:
    """Take those of the partitions that are on the move a step further, if all that shall stay are in sync."""
    for topic_partition in partitions:
        if _is_moving(turn, topic_partition):
            _lead(turn, topic_partition)


def tell_planned(turn: Turn, written: Iterable[NewState]) -> None:
    """Where room was made for another target, brokers hear already of that."""
    for new in written:
        name, partition = new.topic_partition
        known = turn.states(name).get(partition)
        if new.step is Step.ROOM and known is not None and known.state == new.state:
            plan = admin_validation.plan(_assigned(turn, new.topic_partition), partition, new.target)
            turn.tell_planned(new.topic_partition, plan)


def stepped(turn: Turn, written: Iterable[NewState]) -> None:
    """These states were written, and brokers told of them: what is next for those that are on the move?"""
    begun: dict[TopicPartition, Brokers] = {}
    ended: list[TopicPartition] = []
    stopped: dict[TopicPartition, Brokers] = {}
    for new in written:
        topic_partition = new.topic_partition
        known = turn.states(topic_partition.topic).get(topic_partition.partition)
        if topic_partition.topic in turn.deletions or known is None:
            continue
        if known.state != new.state:
            # Another state was found there, and it may stay; but brokers must hear of it in an epoch of its own.
            resume(turn, [topic_partition])
            continue
        match new.step:
            case None | Step.BEGUN:
                go_on(turn, [topic_partition])
            case Step.ROOM:
                begun[topic_partition] = new.target
                stopped[topic_partition] = _unneeded(turn, topic_partition, new.target)
            case Step.LED | Step.DROPPED:
                if _is_moving(turn, topic_partition) and not _drop(turn, topic_partition):
                    ended.append(topic_partition)
                    removing = _assigned(turn, topic_partition).removing
                    stopped[topic_partition] = removing.get(topic_partition.partition, ())
            case _:
                assert_never(new.step)
    _stop(turn, stopped)
    _assign(turn, begun, ended)


def assigned(turn: Turn, purpose: Moved) -> None:
    """The assignment is in the store: those who hold the partitions that move from now on hear of it."""
    former, assignment = turn.assignment(purpose.assignment.name), purpose.assignment
    if former is None:
        return
    turn.put_topic(assignment)
    for partition in purpose.begun:
        topic_partition, known = TopicPartition(assignment.name, partition), turn.states(assignment.name).get(partition)
        if known is None:
            # Nobody ever held it: there is nothing to be copied.
            live = turn.brokers.keys()
            leader_election.decide(turn, assignment, live, live, [partition])
        elif _is_moving(turn, topic_partition) and _lead(turn, topic_partition):
            pass  # Nothing is to be copied.
        elif set(former.replicas[partition]) <= set(assignment.replicas[partition]):
            # Where others had to make room, this was told then.
            state = turn.next_state(known.state, known.state.leader, known.state.isr)
            turn.write_state(topic_partition, state, Step.BEGUN)


def not_assigned(turn: Turn, purpose: Moved) -> None:
    """Somebody else wrote the topic: what had made room for another target is needed again."""
    resume(turn, (TopicPartition(purpose.assignment.name, partition) for partition in purpose.begun))


def moving(turn: Turn, topic: TopicAssignment) -> list[TopicPartition]:
    """The partitions of a topic that are on the move."""
    return [
        TopicPartition(topic.name, partition)
        for partition in sorted({*topic.adding, *topic.removing})
        if _is_moving(turn, TopicPartition(topic.name, partition))
    ]


def _is_moving(turn: Turn, topic_partition: TopicPartition) -> bool:
    name, partition = topic_partition
    assignment = turn.assignment(name)
    return (
        assignment is not None
        and assignment.is_moving(partition)
        and name not in turn.deletions
        and partition in turn.states(name)
        and partition in assignment.replicas
        and bool(assignment.end(partition))
    )


def _unneeded(turn: Turn, topic_partition: TopicPartition, end: Brokers) -> Brokers:
    """The replicas for which another target has no use."""
    assignment, partition = _assigned(turn, topic_partition), topic_partition.partition
    kept = admin_validation.plan(assignment, partition, end).replicas
    return tuple(replica for replica in assignment.replicas[partition] if replica not in kept)


def _make_room(turn: Turn, topic_partition: TopicPartition, end: Brokers) -> bool:
    """Begin an epoch without those for which the new target has no use; false when there are none."""
    known = turn.states(topic_partition.topic).get(topic_partition.partition)
    gone = _unneeded(turn, topic_partition, end)
    if known is None or not gone:
        return False
    isr = tuple(replica for replica in known.state.isr if replica not in gone)
    leader = known.state.leader
    if leader in gone:
        kept = admin_validation.plan(_assigned(turn, topic_partition), topic_partition.partition, end).replicas
        leader = election_algorithms.offline(kept, isr, [broker for broker in kept if turn.may_join(broker, topic_partition)])
    turn.write_state(topic_partition, turn.next_state(known.state, leader, isr), Step.ROOM, end)
    return True


def _lead(turn: Turn, topic_partition: TopicPartition) -> bool:
    """Once all that stay are in sync, begin the epoch in which one of them leads; false when that has to wait."""
    name, partition = topic_partition
    end, state = _assigned(turn, topic_partition).end(partition), turn.states(name)[partition].state
    if state.leader is None or not set(end) <= set(state.isr):
        return False
    leader: BrokerId | None = state.leader
    if leader not in end:
        leader = election_algorithms.offline(end, state.isr, [one for one in end if turn.may_join(one, topic_partition)])
    if leader is None:
        return False
    turn.write_state(topic_partition, turn.next_state(state, leader, state.isr), Step.LED)
    return True


def _drop(turn: Turn, topic_partition: TopicPartition) -> bool:
    """Write the state in which only those that stay are in sync; false when it is so already."""
    name, partition = topic_partition
    end, state = _assigned(turn, topic_partition).end(partition), turn.states(name)[partition].state
    isr = tuple(replica for replica in state.isr if replica in end)
    if isr == state.isr:
        return False
    turn.write_state(topic_partition, turn.next_state(state, state.leader, isr), Step.DROPPED)
    return True


def _assigned(turn: Turn, topic_partition: TopicPartition) -> TopicAssignment:
    assignment = turn.assignment(topic_partition.topic)
    assert assignment is not None, "a move is of a topic that is known"
    return assignment


def _stop(turn: Turn, replicas: Mapping[TopicPartition, Brokers]) -> None:
    """Have these copies deleted, where their brokers are alive."""
    stopped: dict[BrokerId, list[StoppedReplica]] = defaultdict(list)
    for topic_partition, brokers in replicas.items():
        for broker in brokers:
            if broker in turn.brokers:
                epoch = turn.states(topic_partition.topic)[topic_partition.partition].state.leader_epoch
                stopped[broker].append(StoppedReplica(topic_partition, epoch, delete=True))
    if stopped:
        turn.send_stop(stopped)


def _assign(turn: Turn, begun: Mapping[TopicPartition, Brokers], ended: Iterable[TopicPartition]) -> None:
    """Write the assignments of moves that begin, with their targets, and of moves that end: one write for a topic."""
    plans: dict[str, dict[int, Plan]] = defaultdict(dict)
    for one, end in begun.items():
        assignment, known = _assigned(turn, one), turn.states(one.topic).get(one.partition)
        whole = admin_validation.plan(assignment, one.partition, end)
        plans[one.topic][one.partition] = whole if known is not None else Plan(end, (), ())
    for one in ended:
        plans[one.topic][one.partition] = Plan(_assigned(turn, one).end(one.partition), (), ())
    for name, changed in plans.items():
        former = turn.assignment(name)
        assert former is not None, "a move is of a topic that is known"
        edited = _with(former, changed)
        operation = Set(paths.topic(name), znodes.encode_topic(edited), former.version)
        moves = sorted(partition for partition in changed if TopicPartition(name, partition) in begun)
        turn.write(Write(operation, Moved(edited, tuple(moves), tuple(sorted(changed.keys() - set(moves))))))


def _with(assignment: TopicAssignment, plans: Mapping[int, Plan]) -> TopicAssignment:
    """The assignment with other replicas for some partitions."""

    def merged(old: Mapping[int, Brokers], new: Mapping[int, Brokers]) -> Mapping[int, Brokers]:
        return frozen({**{p: held for p, held in old.items() if p not in plans}, **{p: r for p, r in new.items() if r}})

    return replace(
        assignment,
        replicas=frozen({**assignment.replicas, **{p: plan.replicas for p, plan in plans.items()}}),
        adding=merged(assignment.adding, {p: plan.adding for p, plan in plans.items()}),
        removing=merged(assignment.removing, {p: plan.removing for p, plan in plans.items()}),
    )
