"""One step of the controller's machine in the making: the cluster as it becomes, and what is to be done about it.

A `Turn` is the scratch paper of `machine.step`: it copies what is changed once, however much is changed, and hands
out a frozen cluster at the end. It also knows how to word the three commands, each batched per broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.controller import paths, znodes
from sordini.replication.controller.cluster import (
    Broker,
    Cluster,
    DeletedPartition,
    Deletion,
    KnownState,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    StoppedReplica,
    StopReplica,
    Topic,
    TopicAssignment,
    UpdateMetadata,
    frozen,
)
from sordini.replication.controller.events import Action, NewState, Send, Write, WriteAll
from sordini.replication.ports import Create, Set


class Turn:
    """The changes and actions of one step."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = self.before = cluster
        self.brokers: Mapping[BrokerId, Broker] = cluster.brokers
        self.deletions: dict[str, Deletion] = dict(cluster.deletions)
        self._assignments: dict[str, TopicAssignment | None] = {}
        self._states: dict[str, dict[int, KnownState]] = {}
        self._actions: list[Action] = []
        self._writes: list[Write] = []

    def finish(self) -> tuple[Cluster, list[Action]]:
        """The cluster after this step, and what is to be done, in order."""
        self.flush()
        topics = self._cluster.topics
        changed = {*self._assignments, *self._states}
        if changed:
            edited = dict(topics)
            for name in changed:
                assignment = self.assignment(name)
                if assignment is None:
                    edited.pop(name, None)
                else:
                    edited[name] = Topic(assignment, frozen(dict(self.states(name))))
            topics = frozen(edited)
        cluster = replace(self._cluster, brokers=self.brokers, topics=topics, deletions=frozen(self.deletions))
        return cluster, self._actions

    # What is known.

    def names(self) -> Iterator[str]:
        """All topics, those that are being deleted included."""
        for name in [*self._cluster.topics, *(self._assignments.keys() - self._cluster.topics.keys())]:
            if self.assignment(name) is not None:
                yield name

    def kept(self) -> Iterator[TopicAssignment]:
        """The assignments of topics that nobody wants deleted."""
        for name in self.names():
            assignment = self.assignment(name)
            if assignment is not None and name not in self.deletions:
                yield assignment

    def assignment(self, name: str) -> TopicAssignment | None:
        if name in self._assignments:
            return self._assignments[name]
        topic = self._cluster.topics.get(name)
        return None if topic is None else topic.assignment

    def states(self, name: str) -> Mapping[int, KnownState]:
        if name in self._states:
            return self._states[name]
        topic = self._cluster.topics.get(name)
        return {} if topic is None else topic.states

    # What changes.

    def put_topic(self, assignment: TopicAssignment) -> None:
        self._assignments[assignment.name] = assignment

    def drop_topic(self, name: str) -> None:
        self._assignments[name] = None
        self._states[name] = {}

    def put_state(self, topic_partition: TopicPartition, known: KnownState) -> None:
        name, partition = topic_partition
        if name not in self._states:
            self._states[name] = dict(self.states(name))
        self._states[name][partition] = known

    # What is to be done.

    def write(self, *writes: Write) -> None:
        """Add writes to the batch that goes out with the next `flush`."""
        self._writes += writes

    def write_state(
        self, topic_partition: TopicPartition, state: PartitionState, *, then: tuple[BrokerId, ...] | None = None
    ) -> None:
        """Write a partition's state, on the condition that it is still the one that is known."""
        known = self.states(topic_partition.topic).get(topic_partition.partition)
        path, data = paths.state(topic_partition), znodes.encode_state(state)
        operation = Create(path, data) if known is None else Set(path, data, known.version)
        self.write(Write(operation, NewState(topic_partition, state, known is None, then)))

    def next_state(self, state: PartitionState, leader: BrokerId | None, isr: tuple[BrokerId, ...]) -> PartitionState:
        """The state after this controller's decision: every decision begins a new leader epoch."""
        epoch = LeaderEpoch(state.leader_epoch + 1)
        return replace(state, leader=leader, isr=isr, leader_epoch=epoch, controller_epoch=self._cluster.epoch)

    def first_state(self, leader: BrokerId, isr: tuple[BrokerId, ...]) -> PartitionState:
        return PartitionState(leader, LeaderEpoch(0), isr, self._cluster.epoch)

    def flush(self) -> None:
        """Put the batch of writes in its place: before what is sent from now on."""
        if self._writes:
            self._actions.append(WriteAll(tuple(self._writes)))
            self._writes = []

    def info(self, name: str, partition: int, *, is_new: bool = False) -> PartitionInfo | None:
        """What commands tell of a partition; None while it has no state."""
        assignment, known = self.assignment(name), self.states(name).get(partition)
        if assignment is None or known is None:
            return None
        replicas = assignment.replicas.get(partition, ())
        return PartitionInfo(
            TopicPartition(name, partition),
            assignment.topic_id,
            replicas,
            known.state,
            known.version,
            assignment.adding.get(partition, ()),
            assignment.removing.get(partition, ()),
            tuple(replica for replica in replicas if replica not in self.brokers),
            is_new,
        )

    def infos(self) -> list[PartitionInfo]:
        """Every partition that has a state and nobody wants deleted."""
        found = (self.info(topic.name, partition) for topic in self.kept() for partition in topic.replicas)
        return [info for info in found if info is not None]

    def send_metadata(
        self,
        receivers: Iterable[BrokerId],
        partitions: Sequence[PartitionInfo] = (),
        deleted: Sequence[DeletedPartition] = (),
    ) -> None:
        """Tell these brokers who is alive, and about these partitions."""
        live = tuple(broker for _, broker in sorted(self.brokers.items()))
        for receiver in sorted(receivers):
            command = UpdateMetadata(
                self._cluster.controller_id,
                self._cluster.epoch,
                self.brokers[receiver].epoch,
                live,
                tuple(partitions),
                tuple(deleted),
            )
            self._actions.append(Send(receiver, command))

    def send_states(self, partitions: Iterable[PartitionInfo], receivers: Collection[BrokerId]) -> None:
        """Tell each of these brokers about those of the partitions that it holds."""
        by_broker: dict[BrokerId, list[PartitionInfo]] = defaultdict(list)
        for info in partitions:
            for replica in info.replicas:
                if replica in receivers:
                    by_broker[replica].append(info)
        for receiver, held in sorted(by_broker.items()):
            leaders = sorted({info.state.leader for info in held if info.state.leader is not None})
            command = LeaderAndIsr(
                self._cluster.controller_id,
                self._cluster.epoch,
                self.brokers[receiver].epoch,
                tuple(held),
                tuple(self.brokers[leader] for leader in leaders if leader in self.brokers),
            )
            self._actions.append(Send(receiver, command))

    def send_stop(self, stopped: Mapping[BrokerId, Sequence[StoppedReplica]]) -> None:
        """Tell brokers to stop replicas. Writes decided before are carried out before."""
        self.flush()
        for receiver, replicas in sorted(stopped.items()):
            command = StopReplica(
                self._cluster.controller_id,
                self._cluster.epoch,
                self.brokers[receiver].epoch,
                tuple(replicas),
            )
            self._actions.append(Send(receiver, command))
