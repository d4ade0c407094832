"""Granting what administrators wish for partitions (see `wishes`): an election is one write, a move is up to three.

A move first takes the leadership and the in-sync set to the replicas that stay; only when that is in the store does
it write the topic's assignment, and only when that is, are brokers told of it, in a leader epoch of its own, and the
replicas that went deleted. A write that meets another state ends the move: what was in sync is where it was.

A move that another controller began, by adding replicas, goes on here when all that shall stay are in sync.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.controller import elections, paths, wishes, znodes
from sordini.replication.controller.cluster import StoppedReplica, TopicAssignment, frozen
from sordini.replication.controller.events import ElectionsWanted, Moved, MovesWanted, NewState, Write
from sordini.replication.controller.turn import Turn
from sordini.replication.ports import Set


def elect(turn: Turn, event: ElectionsWanted) -> None:
    """Write the states of those whose election is granted."""
    for wanted in dict.fromkeys(event.partitions):
        winner = wishes.judge_election(turn.before, event.election, wanted)
        known = turn.states(wanted.topic).get(wanted.partition)
        if isinstance(winner, wishes.Declined) or known is None:
            continue
        # Who was not in sync leads alone: what others have beyond its log is not to be believed.
        isr = known.state.isr if winner in known.state.isr else (winner,)
        turn.write_state(wanted, turn.next_state(known.state, winner, isr))


def begin(turn: Turn, event: MovesWanted) -> None:
    """Begin the moves that are granted and change something."""
    ready: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for wanted, target in event.targets.items():
        end = wishes.judge_move(turn.before, wanted, target)
        if isinstance(end, wishes.Declined) or wishes.is_settled(turn.before, wanted, end):
            continue
        if not _narrow(turn, wanted, end):
            ready[wanted] = end
    _assign(turn, ready)


def go_on(turn: Turn, partitions: Iterable[TopicPartition]) -> None:
    """End the moves of those partitions that are on the move, and whose target is in sync by now."""
    ready: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for topic_partition in partitions:
        end = _target(turn, topic_partition)
        if end is not None and not _narrow(turn, topic_partition, end):
            ready[topic_partition] = end
    _assign(turn, ready)


def narrowed(turn: Turn, written: Iterable[NewState]) -> None:
    """States that were written for a move can be followed by the assignment, unless another was found there."""
    _assign(
        turn,
        {
            new.topic_partition: new.then
            for new in written
            if new.then is not None
            and turn.states(new.topic_partition.topic)[new.topic_partition.partition].state == new.state
        },
    )


def assigned(turn: Turn, assignment: TopicAssignment, partitions: tuple[int, ...]) -> None:
    """The assignment is in the store: begin an epoch in which brokers hear of it, and delete the replicas that went."""
    former = turn.assignment(assignment.name)
    if former is None:
        return
    turn.put_topic(assignment)
    stopped: dict[BrokerId, list[StoppedReplica]] = defaultdict(list)
    for partition in partitions:
        topic_partition = TopicPartition(assignment.name, partition)
        known = turn.states(assignment.name)[partition].state
        state = turn.next_state(known, known.leader, known.isr)
        turn.write_state(topic_partition, state)
        for replica in former.replicas[partition]:
            if replica not in assignment.replicas[partition] and replica in turn.brokers:
                stopped[replica].append(StoppedReplica(topic_partition, state.leader_epoch, delete=True))
    if stopped:
        turn.send_stop(stopped)


def _target(turn: Turn, topic_partition: TopicPartition) -> tuple[BrokerId, ...] | None:
    """The replicas that a partition on the move is to have, if all are in sync; None otherwise."""
    assignment = turn.assignment(topic_partition.topic)
    known = turn.states(topic_partition.topic).get(topic_partition.partition)
    if assignment is None or known is None or topic_partition.topic in turn.deletions:
        return None
    partition = topic_partition.partition
    removing = assignment.removing.get(partition, ())
    if not removing and not assignment.adding.get(partition):
        return None
    end = tuple(replica for replica in assignment.replicas.get(partition, ()) if replica not in removing)
    return end if end and known.state.leader is not None and set(end) <= set(known.state.isr) else None


def _narrow(turn: Turn, topic_partition: TopicPartition, end: tuple[BrokerId, ...]) -> bool:
    """Write the state that takes leadership and in-sync set to these replicas; false when it is so already."""
    state = turn.states(topic_partition.topic)[topic_partition.partition].state
    isr = tuple(replica for replica in state.isr if replica in end)
    leader = state.leader
    if leader not in end:
        leader = elections.offline(end, isr, [broker for broker in end if turn.may_join(broker, topic_partition)])
    if (leader, isr) == (state.leader, state.isr):
        return False
    turn.write_state(topic_partition, turn.next_state(state, leader, isr), then=end)
    return True


def _assign(turn: Turn, replicas: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> None:
    """Write these partitions' replicas, one write for each topic."""
    changed: dict[str, dict[int, tuple[BrokerId, ...]]] = defaultdict(dict)
    for (name, partition), held in replicas.items():
        changed[name][partition] = held
    for name, moved in changed.items():
        assignment = turn.assignment(name)
        assert assignment is not None, "a granted move is of a topic that is known"
        edited = _with(assignment, moved)
        operation = Set(paths.topic(name), znodes.encode_topic(edited), assignment.version)
        turn.write(Write(operation, Moved(edited, tuple(sorted(moved)))))


def _with(assignment: TopicAssignment, replicas: dict[int, tuple[BrokerId, ...]]) -> TopicAssignment:
    """The assignment with other replicas for some partitions, which no longer move."""
    return replace(
        assignment,
        replicas=frozen({**assignment.replicas, **replicas}),
        adding=frozen({p: held for p, held in assignment.adding.items() if p not in replicas}),
        removing=frozen({p: held for p, held in assignment.removing.items() if p not in replicas}),
    )
