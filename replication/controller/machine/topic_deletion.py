"""Topic deletion, step by step.

    /admin/delete_topics/T is created
      -> UpdateMetadata removes T, StopReplica stops its replicas, its partitions lose their leaders
      -> StopReplica deletes every replica; one on a failed broker blocks the deletion until the broker is registered
      -> T's nodes are deleted, /admin/delete_topics/T last: a controller elected in between starts over and completes

Pure, like the machine it belongs to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import (
    EPOCH_DURING_DELETION,
    DeletedPartition,
    Deletion,
    StoppedReplica,
    StopReplica,
)
from sordini.replication.controller.machine.events import CommandAnswered, DeletionMarkRemoved, StoreWrite, TopicRemoved
from sordini.replication.controller.machine.transition import ControllerTransition
from sordini.replication.metadata_store import paths
from sordini.replication.ports import Delete


def begin(transition: ControllerTransition, names: Iterable[str]) -> None:
    """Start the deletion of these topics; drop the request for an unknown topic, and while deletion is disabled."""
    for name in sorted(names):
        if name in transition.deletions:
            continue
        if transition.assignment(name) is None or not transition.before.cluster_settings.deletes_topics:
            transition.write(StoreWrite(Delete(paths.delete_topic(name))))
        else:
            _begin(transition, name)


def _begin(transition: ControllerTransition, name: str) -> None:
    assignment = transition.assignment(name)
    assert assignment is not None
    held = {(replica, partition) for partition, replicas in assignment.replicas.items() for replica in replicas}
    pending = frozenset((replica, partition) for replica, partition in held if replica in transition.brokers)
    transition.deletions[name] = Deletion(pending, frozenset(held - pending))
    forget = [
        DeletedPartition(TopicPartition(name, partition), assignment.topic_id)
        for partition in sorted(assignment.replicas)
    ]
    transition.send_metadata(transition.brokers, deleted=forget)
    _stop(transition, name, pending, delete=False)
    for partition, known in sorted(transition.states(name).items()):
        if known.state.leader is not None:
            leaderless = transition.next_state(known.state, None, known.state.isr[-1:])
            transition.write_state(TopicPartition(name, partition), leaderless)
    _stop(transition, name, pending, delete=True)
    _advance(transition, name)


def brokers_failed(transition: ControllerTransition, failed: Collection[BrokerId]) -> None:
    """Deletions on these brokers are blocked until they register again."""
    for name, deletion in list(transition.deletions.items()):
        blocked = frozenset(one for one in deletion.pending if one[0] in failed)
        if blocked:
            transition.deletions[name] = Deletion(deletion.pending - blocked, deletion.blocked | blocked)


def brokers_registered(transition: ControllerTransition, came: Collection[BrokerId]) -> None:
    """Continue the deletions on these brokers."""
    for name, deletion in list(transition.deletions.items()):
        again = frozenset(one for one in deletion.blocked if one[0] in came)
        if again:
            transition.deletions[name] = Deletion(deletion.pending | again, deletion.blocked - again)
            _stop(transition, name, again, delete=True)


def answered(transition: ControllerTransition, event: CommandAnswered) -> None:
    """A broker answered a StopReplica: some replicas are deleted."""
    broker, command = transition.brokers.get(event.broker_id), event.command
    if not isinstance(command, StopReplica) or broker is None or broker.epoch != command.broker_epoch:
        return  # Another command, or an answer of a former incarnation.
    done, refused = defaultdict[str, set[tuple[BrokerId, int]]](set), defaultdict[str, set[tuple[BrokerId, int]]](set)
    for stopped in command.partitions:
        if stopped.delete:
            failed = event.answer.error or event.answer.partitions.get(stopped.topic_partition, 0)
            ended = refused if failed else done
            ended[stopped.topic_partition.topic].add((event.broker_id, stopped.topic_partition.partition))
    for name in sorted(done.keys() | refused.keys()):
        deletion = transition.deletions.get(name)
        if deletion is None or not deletion.pending & (done[name] | refused[name]):
            continue
        blocked = deletion.blocked | (refused[name] & deletion.pending)
        transition.deletions[name] = Deletion(deletion.pending - done[name] - refused[name], blocked)
        _advance(transition, name)


def topic_removed(transition: ControllerTransition, name: str) -> None:
    """The topic's own nodes are deleted: delete the request for its deletion."""
    transition.write(StoreWrite(Delete(paths.delete_topic(name)), DeletionMarkRemoved(name)))


def mark_removed(transition: ControllerTransition, name: str) -> None:
    transition.deletions.pop(name, None)
    transition.drop_topic(name)


def _advance(transition: ControllerTransition, name: str) -> None:
    """Once all replicas are deleted, delete the nodes, children before parents."""
    deletion, assignment = transition.deletions[name], transition.assignment(name)
    if deletion.pending or deletion.blocked or assignment is None:
        return
    for partition in sorted(assignment.replicas):
        topic_partition = TopicPartition(name, partition)
        transition.write(
            StoreWrite(Delete(paths.state(topic_partition))), StoreWrite(Delete(paths.partition(topic_partition)))
        )
    transition.write(
        StoreWrite(Delete(paths.partitions(name))),
        StoreWrite(Delete(paths.topic(name)), TopicRemoved(name)),
        StoreWrite(Delete(paths.topic_config(name))),
    )


def _stop(
    transition: ControllerTransition, name: str, replicas: Iterable[tuple[BrokerId, int]], *, delete: bool
) -> None:
    by_broker: dict[BrokerId, list[StoppedReplica]] = defaultdict(list)
    for replica, partition in sorted(replicas):
        stopped = StoppedReplica(TopicPartition(name, partition), EPOCH_DURING_DELETION, delete)
        by_broker[replica].append(stopped)
    transition.send_stop(by_broker)
