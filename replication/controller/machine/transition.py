"""One step of the controller's machine in the making: the cluster as it becomes, and what is to be done about it.

A `Transition` is the scratch paper of `machine.step`: it copies what is changed once, however much is changed, and hands
out a frozen cluster at the end. It also knows how to word the three commands, each batched per broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import BrokerId, LeaderEpoch, TopicPartition
from sordini.replication.cluster_model import (
    Broker,
    ClusterState,
    DeletedPartition,
    Deletion,
    KnownState,
    LeaderAndIsr,
    PartitionInfo,
    PartitionState,
    Replica,
    ReplicaAssignment,
    StoppedReplica,
    StopReplica,
    TopicAssignment,
    TopicState,
    UpdateMetadata,
    frozen,
)
from sordini.replication.controller.machine.events import (
    Action,
    IsrChange,
    NewIsr,
    NewState,
    ReadStates,
    ReadUncleanSettings,
    Reply,
    Send,
    Step,
    Write,
    WriteAll,
)
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import Create, Set


class Transition:
    """The changes and actions of one step."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = self.before = cluster
        self.brokers: Mapping[BrokerId, Broker] = cluster.brokers
        self.deletions: dict[str, Deletion] = dict(cluster.deletions)
        self.shutting_down = cluster.shutting_down
        self.offline = cluster.offline
        self.zk_reassignments = cluster.zk_reassignments
        self._assignments: dict[str, TopicAssignment | None] = {}
        self._states: dict[str, dict[int, KnownState]] = {}
        self._planned: dict[TopicPartition, ReplicaAssignment] = {}
        self._actions: list[Action] = []
        self._to_ask: dict[TopicPartition, None] = {}
        self._writes: list[Write] = []

    def finish(self) -> tuple[ClusterState, list[Action]]:
        """The cluster after this step, and what is to be done, in order."""
        self.flush()
        if self._to_ask:
            self._actions.append(ReadUncleanSettings(tuple(self._to_ask)))
            self._to_ask = {}
        topics = self._cluster.topics
        changed = {*self._assignments, *self._states}
        if changed:
            edited = dict(topics)
            for name in changed:
                assignment = self.assignment(name)
                if assignment is None:
                    edited.pop(name, None)
                else:
                    edited[name] = TopicState(assignment, frozen(dict(self.states(name))))
            topics = frozen(edited)
        cluster = replace(
            self._cluster,
            brokers=self.brokers,
            topics=topics,
            deletions=frozen(self.deletions),
            shutting_down=self.shutting_down,
            offline=self.offline,
            zk_reassignments=self.zk_reassignments,
        )
        return cluster, self._actions

    # What is known.

    def topic_names(self) -> Iterator[str]:
        """All topics, those that are being deleted included."""
        for name in [*self._cluster.topics, *(self._assignments.keys() - self._cluster.topics.keys())]:
            if self.assignment(name) is not None:
                yield name

    def active_topics(self) -> Iterator[TopicAssignment]:
        """The assignments of topics that nobody wants deleted."""
        for name in self.topic_names():
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

    def is_online(self, broker_id: BrokerId, topic_partition: TopicPartition) -> bool:
        """Whether a broker is alive, and its copy of the partition in a sound log directory."""
        return broker_id in self.brokers and Replica(broker_id, topic_partition) not in self.offline

    def is_eligible(self, broker_id: BrokerId, topic_partition: TopicPartition) -> bool:
        """Whether a broker may lead the partition or be in sync with its leader, as far as it is concerned."""
        return broker_id not in self.shutting_down and self.is_online(broker_id, topic_partition)

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

    @property
    def has_writes(self) -> bool:
        """Whether this step writes anything: then another follows, with what became of that."""
        return bool(self._writes) or any(isinstance(action, WriteAll) for action in self._actions)

    def write_state(
        self,
        topic_partition: TopicPartition,
        state: PartitionState,
        step: Step | None = None,
        target: tuple[BrokerId, ...] = (),
    ) -> None:
        """Write a partition's state, on the condition that it is still the one that is known."""
        known = self.states(topic_partition.topic).get(topic_partition.partition)
        path, data = paths.state(topic_partition), znodes.encode_state(state)
        operation = Create(path, data) if known is None else Set(path, data, known.version)
        self.write(Write(operation, NewState(topic_partition, state, known is None, step, target)))

    def write_isr(self, topic_partition: TopicPartition, known: KnownState, change: IsrChange) -> None:
        """Write the in-sync set that a leader asks for; that is no decision of ours, and begins no leader epoch."""
        state = replace(known.state, isr=change.isr, recovering=change.recovering, controller_epoch=self._cluster.epoch)
        operation = Set(paths.state(topic_partition), znodes.encode_state(state), known.version)
        self.write(Write(operation, NewIsr(topic_partition, state, change)))

    def announce_planned(self, topic_partition: TopicPartition, plan: ReplicaAssignment) -> None:
        """Let brokers hear in this step of the replicas that the partition's assignment is about to have."""
        self._planned[topic_partition] = plan

    def reply(self, change: IsrChange | None, verdict: KnownState | ProducerIdBlock | ErrorCode) -> None:
        """Answer a part of what was asked, now: what is written in this step has not come about yet."""
        self._actions.append(Reply(change, verdict))

    def read_states(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these states read again."""
        wanted = tuple(dict.fromkeys(partitions))
        if wanted:
            self._actions.append(ReadStates(wanted))

    def read_unclean_setting(self, topic_partition: TopicPartition) -> None:
        """Have it found out whether a replica that is not in sync may lead; decided in the step after that."""
        self._to_ask[topic_partition] = None

    def next_state(self, state: PartitionState, leader: BrokerId | None, isr: tuple[BrokerId, ...]) -> PartitionState:
        """The state after this controller's decision: every decision begins a new leader epoch."""
        epoch = LeaderEpoch(state.leader_epoch + 1)
        return replace(state, leader=leader, isr=isr, leader_epoch=epoch, controller_epoch=self._cluster.epoch)

    def unclean_state(self, state: PartitionState, leader: BrokerId) -> PartitionState:
        """The state after a replica that was not in sync was elected.

        It leads alone: what others have beyond its log is not to be believed.
        """
        return replace(
            self.next_state(state, leader, (leader,)), recovering=self._cluster.cluster_settings.marks_recovery
        )

    def first_state(self, leader: BrokerId, isr: tuple[BrokerId, ...]) -> PartitionState:
        return PartitionState(leader, LeaderEpoch(0), isr, self._cluster.epoch)

    def flush(self) -> None:
        """Put the batch of writes in its place: before what is sent from now on."""
        if self._writes:
            self._actions.append(WriteAll(tuple(self._writes)))
            self._writes = []

    def partition_info(self, name: str, partition: int, *, is_new: bool = False) -> PartitionInfo | None:
        """What commands tell of a partition; None while it has no state."""
        assignment, known = self.assignment(name), self.states(name).get(partition)
        if assignment is None or known is None:
            return None
        topic_partition, replicas = TopicPartition(name, partition), assignment.replicas.get(partition, ())
        adding, removing = assignment.adding.get(partition, ()), assignment.removing.get(partition, ())
        if topic_partition in self._planned:
            replicas, adding, removing = self._planned[topic_partition]
        elif (adding or removing) and set(end := assignment.target_replicas(partition)) == set(known.state.isr):
            # Those that stay have it all, and nobody else is in sync: for brokers the move is over.
            replicas, adding, removing = end, (), ()
        return PartitionInfo(
            topic_partition,
            assignment.topic_id,
            replicas,
            known.state,
            known.version,
            adding,
            removing,
            self._offline_of(topic_partition, replicas),
            is_new,
        )

    def _offline_of(self, topic_partition: TopicPartition, replicas: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        if not self.offline and self.brokers.keys() >= set(replicas):
            return ()  # As for nearly all: half of what a partition costs in a command.
        return tuple(replica for replica in replicas if not self.is_online(replica, topic_partition))

    def partition_infos(self) -> list[PartitionInfo]:
        """Every partition that has a state and nobody wants deleted."""
        found = (
            self.partition_info(topic.name, partition) for topic in self.active_topics() for partition in topic.replicas
        )
        return [info for info in found if info is not None]

    def send_metadata(
        self,
        receivers: Iterable[BrokerId],
        partitions: Sequence[PartitionInfo] = (),
        deleted: Sequence[DeletedPartition] = (),
    ) -> None:
        """Tell these brokers who is alive, and about these partitions."""
        # All receivers share what they are told: a thousand brokers of 200,000 partitions would be 1.5 GiB of tuples.
        live = tuple(broker for _, broker in sorted(self.brokers.items()))
        told, gone = tuple(partitions), tuple(deleted)
        for receiver in sorted(receivers):
            command = UpdateMetadata(
                self._cluster.controller_id,
                self._cluster.epoch,
                self.brokers[receiver].epoch,
                live,
                told,
                gone,
            )
            self._actions.append(Send(receiver, command))

    def send_states(
        self, partitions: Iterable[PartitionInfo], receivers: Collection[BrokerId], *, is_survey: bool = False
    ) -> None:
        """Tell each of these brokers about those of the partitions that it holds."""
        by_broker: dict[BrokerId, list[PartitionInfo]] = defaultdict(list)
        for info in partitions:
            for replica in info.replicas:
                if replica in receivers:
                    # What a move adds may be made even while a log directory of its broker is offline.
                    fresh = replica in info.adding and replica not in info.state.isr
                    by_broker[replica].append(info._replace(is_new=True) if fresh else info)
        for receiver, held in sorted(by_broker.items()):
            leaders = sorted({info.state.leader for info in held if info.state.leader is not None})
            command = LeaderAndIsr(
                self._cluster.controller_id,
                self._cluster.epoch,
                self.brokers[receiver].epoch,
                tuple(held),
                tuple(self.brokers[leader] for leader in leaders if leader in self.brokers),
                is_survey,
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
