"""Deleting topics: how far a deletion may go, and what the next step is.

    somebody creates /admin/delete_topics/T
      -> brokers forget T (metadata), stop its replicas, its partitions lose their leaders
      -> every replica removes its data and says so; one on a dead broker blocks the deletion until it is back
      -> T's nodes are removed, its mark last: a controller that comes in between starts over and gets to the end

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import EPOCH_OF_DELETION, DeletedPartition, Deletion, StoppedReplica, StopReplica
from sordini.replication.controller.machine.events import Answered, MarkGone, TopicGone, Write
from sordini.replication.controller.machine.transition import Turn
from sordini.replication.metadata_store import paths
from sordini.replication.ports import Delete


def begin(turn: Turn, names: Iterable[str]) -> None:
    """Start the deletion of these topics, or drop the wish where there is no such topic, or none may be deleted."""
    for name in sorted(names):
        if name in turn.deletions:
            continue
        if turn.assignment(name) is None or not turn.before.conventions.deletes_topics:
            turn.write(Write(Delete(paths.delete_topic(name))))
        else:
            _begin(turn, name)


def _begin(turn: Turn, name: str) -> None:
    assignment = turn.assignment(name)
    assert assignment is not None
    held = {(replica, partition) for partition, replicas in assignment.replicas.items() for replica in replicas}
    waiting = frozenset((replica, partition) for replica, partition in held if replica in turn.brokers)
    turn.deletions[name] = Deletion(waiting, frozenset(held - waiting))
    forget = [
        DeletedPartition(TopicPartition(name, partition), assignment.topic_id)
        for partition in sorted(assignment.replicas)
    ]
    turn.send_metadata(turn.brokers, deleted=forget)
    _stop(turn, name, waiting, delete=False)
    for partition, known in sorted(turn.states(name).items()):
        if known.state.leader is not None:
            leaderless = turn.next_state(known.state, None, known.state.isr[-1:])
            turn.write_state(TopicPartition(name, partition), leaderless)
    _stop(turn, name, waiting, delete=True)
    _advance(turn, name)


def brokers_left(turn: Turn, gone: Collection[BrokerId]) -> None:
    """What these brokers were to delete has to wait until they are back."""
    for name, deletion in list(turn.deletions.items()):
        lost = frozenset(one for one in deletion.waiting if one[0] in gone)
        if lost:
            turn.deletions[name] = Deletion(deletion.waiting - lost, deletion.blocked | lost)


def brokers_came(turn: Turn, came: Collection[BrokerId]) -> None:
    """Go on with what these brokers still have to delete."""
    for name, deletion in list(turn.deletions.items()):
        again = frozenset(one for one in deletion.blocked if one[0] in came)
        if again:
            turn.deletions[name] = Deletion(deletion.waiting | again, deletion.blocked - again)
            _stop(turn, name, again, delete=True)


def answered(turn: Turn, event: Answered) -> None:
    """A broker says which replicas it has deleted."""
    broker, command = turn.brokers.get(event.broker_id), event.command
    if not isinstance(command, StopReplica) or broker is None or broker.epoch != command.broker_epoch:
        return  # Nothing hangs on other answers, or it is the answer of a former life.
    done, refused = defaultdict[str, set[tuple[BrokerId, int]]](set), defaultdict[str, set[tuple[BrokerId, int]]](set)
    for stopped in command.partitions:
        if stopped.delete:
            failed = event.answer.error or event.answer.partitions.get(stopped.topic_partition, 0)
            ended = refused if failed else done
            ended[stopped.topic_partition.topic].add((event.broker_id, stopped.topic_partition.partition))
    for name in sorted(done.keys() | refused.keys()):
        deletion = turn.deletions.get(name)
        if deletion is None or not deletion.waiting & (done[name] | refused[name]):
            continue
        blocked = deletion.blocked | (refused[name] & deletion.waiting)
        turn.deletions[name] = Deletion(deletion.waiting - done[name] - refused[name], blocked)
        _advance(turn, name)


def topic_gone(turn: Turn, name: str) -> None:
    """The topic's own nodes are removed; now the mark."""
    turn.write(Write(Delete(paths.delete_topic(name)), MarkGone(name)))


def mark_gone(turn: Turn, name: str) -> None:
    turn.deletions.pop(name, None)
    turn.drop_topic(name)


def _advance(turn: Turn, name: str) -> None:
    """Once all replicas are deleted, remove the nodes, children before parents."""
    deletion, assignment = turn.deletions[name], turn.assignment(name)
    if deletion.waiting or deletion.blocked or assignment is None:
        return
    for partition in sorted(assignment.replicas):
        topic_partition = TopicPartition(name, partition)
        turn.write(Write(Delete(paths.state(topic_partition))), Write(Delete(paths.partition(topic_partition))))
    turn.write(
        Write(Delete(paths.partitions(name))),
        Write(Delete(paths.topic(name)), TopicGone(name)),
        Write(Delete(paths.topic_config(name))),
    )


def _stop(turn: Turn, name: str, replicas: Iterable[tuple[BrokerId, int]], *, delete: bool) -> None:
    by_broker: dict[BrokerId, list[StoppedReplica]] = defaultdict(list)
    for replica, partition in sorted(replicas):
        stopped = StoppedReplica(TopicPartition(name, partition), EPOCH_OF_DELETION, delete)
        by_broker[replica].append(stopped)
    turn.send_stop(by_broker)
