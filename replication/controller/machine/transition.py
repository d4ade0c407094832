"""One transition of the controller's machine, while `machine.step` makes it: the changed cluster state and the actions.

A `ControllerTransition` copies a part of the state when that is first changed, and returns a frozen cluster state at
the end. It also builds the three commands, batched per broker.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

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
    ControllerReply,
    IsrChange,
    NewIsr,
    NewState,
    ReadStates,
    ReadUncleanSettings,
    ReassignmentStep,
    Send,
    StoreWrite,
    WriteAll,
)
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.metadata_store.znodes import ProducerIdBlock
from sordini.replication.ports import Create, Set


class ControllerTransition:
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
        self._undecided: dict[TopicPartition, None] = {}
        self._writes: list[StoreWrite] = []

    def finish(self) -> tuple[ClusterState, list[Action]]:
        """The cluster state after this step, and the actions in order."""
        self.flush()
        if self._undecided:
            self._actions.append(ReadUncleanSettings(tuple(self._undecided)))
            self._undecided = {}
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
        cluster = self._cluster._replace(
            brokers=self.brokers,
            topics=topics,
            deletions=frozen(self.deletions),
            shutting_down=self.shutting_down,
            offline=self.offline,
            zk_reassignments=self.zk_reassignments,
        )
        return cluster, self._actions

    # Reading the state.

    def topic_names(self) -> Iterator[str]:
        """All topics, including those that are being deleted."""
        for name in [*self._cluster.topics, *(self._assignments.keys() - self._cluster.topics.keys())]:
            if self.assignment(name) is not None:
                yield name

    def active_topics(self) -> Iterator[TopicAssignment]:
        """The assignments of the topics that are not being deleted."""
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
        """Whether a broker is live and its replica is not in a failed log directory."""
        return broker_id in self.brokers and Replica(broker_id, topic_partition) not in self.offline

    def is_eligible(self, broker_id: BrokerId, topic_partition: TopicPartition) -> bool:
        """Whether the broker's own condition allows it to lead the partition or to join its ISR."""
        return broker_id not in self.shutting_down and self.is_online(broker_id, topic_partition)

    # Changing the state.

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

    # Actions.

    def write(self, *writes: StoreWrite) -> None:
        """Add writes to the batch of the next `flush`."""
        self._writes += writes

    @property
    def has_writes(self) -> bool:
        """Whether this step writes anything: then a step with the outcomes follows."""
        return bool(self._writes) or any(isinstance(action, WriteAll) for action in self._actions)

    def write_state(
        self,
        topic_partition: TopicPartition,
        state: PartitionState,
        step: ReassignmentStep | None = None,
        target: tuple[BrokerId, ...] = (),
    ) -> None:
        """Write a partition's state, on condition that the node still has the known version."""
        known = self.states(topic_partition.topic).get(topic_partition.partition)
        path, data = paths.state(topic_partition), znodes.encode_state(state)
        operation = Create(path, data) if known is None else Set(path, data, known.version)
        self.write(StoreWrite(operation, NewState(topic_partition, state, known is None, step, target)))

    def write_isr(self, topic_partition: TopicPartition, known: KnownState, change: IsrChange) -> None:
        """Write the ISR that a leader requests. The controller decides nothing here: no leader epoch begins."""
        state = known.state._replace(isr=change.isr, recovering=change.recovering, controller_epoch=self._cluster.epoch)
        operation = Set(paths.state(topic_partition), znodes.encode_state(state), known.version)
        self.write(StoreWrite(operation, NewIsr(topic_partition, state, change)))

    def announce_planned(self, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Use these replicas, which the partition's assignment is about to have, in the commands of this step."""
        self._planned[topic_partition] = assignment

    def reply(self, change: IsrChange | None, result: KnownState | ProducerIdBlock | ErrorCode) -> None:
        """Reply to a part of the request at once: writes of this step have no outcome yet."""
        self._actions.append(ControllerReply(change, result))

    def read_states(self, partitions: Iterable[TopicPartition]) -> None:
        """Have these states read from the store."""
        unique = tuple(dict.fromkeys(partitions))
        if unique:
            self._actions.append(ReadStates(unique))

    def read_unclean_setting(self, topic_partition: TopicPartition) -> None:
        """Have the topic's unclean election setting read; a later step decides."""
        self._undecided[topic_partition] = None

    def next_state(self, state: PartitionState, leader: BrokerId | None, isr: tuple[BrokerId, ...]) -> PartitionState:
        """The state after a decision of this controller: every decision begins a new leader epoch."""
        epoch = LeaderEpoch(state.leader_epoch + 1)
        return state._replace(leader=leader, isr=isr, leader_epoch=epoch, controller_epoch=self._cluster.epoch)

    def unclean_state(self, state: PartitionState, leader: BrokerId) -> PartitionState:
        """The state after the election of a replica that was not in sync.

        It is alone in the ISR: the others' records beyond its log are to be truncated.
        """
        elected = self.next_state(state, leader, (leader,))
        return elected._replace(recovering=self._cluster.cluster_settings.marks_recovery)

    def first_state(self, leader: BrokerId, isr: tuple[BrokerId, ...]) -> PartitionState:
        return PartitionState(leader, LeaderEpoch(0), isr, self._cluster.epoch)

    def flush(self) -> None:
        """End the batch of writes: it precedes the actions added from now on."""
        if self._writes:
            self._actions.append(WriteAll(tuple(self._writes)))
            self._writes = []

    def partition_info(self, name: str, partition: int, *, is_new: bool = False) -> PartitionInfo | None:
        """The partition as commands carry it; None while it has no state."""
        assignment, known = self.assignment(name), self.states(name).get(partition)
        if assignment is None or known is None:
            return None
        topic_partition, replicas = TopicPartition(name, partition), assignment.replicas.get(partition, ())
        adding, removing = assignment.adding.get(partition, ()), assignment.removing.get(partition, ())
        if topic_partition in self._planned:
            replicas, adding, removing = self._planned[topic_partition]
        elif (adding or removing) and set(end := assignment.target_replicas(partition)) == set(known.state.isr):
            # Exactly the target replicas are in sync: for brokers the reassignment is complete.
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
            return ()  # The usual case: this check halves the cost of a partition in a command.
        return tuple(replica for replica in replicas if not self.is_online(replica, topic_partition))

    def partition_infos(self) -> list[PartitionInfo]:
        """Every partition that has a state and is not being deleted."""
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
        """Send UpdateMetadata with the live brokers and these partitions."""
        # All commands share these tuples: a copy for each of 1,000 brokers with 200,000 partitions would take 1.5 GiB.
        live = tuple(broker for _, broker in sorted(self.brokers.items()))
        changed, gone = tuple(partitions), tuple(deleted)
        for receiver in sorted(receivers):
            command = UpdateMetadata(
                self._cluster.controller_id,
                self._cluster.epoch,
                self.brokers[receiver].epoch,
                live,
                changed,
                gone,
            )
            self._actions.append(Send(receiver, command))

    def send_states(
        self, partitions: Iterable[PartitionInfo], receivers: Collection[BrokerId], *, is_survey: bool = False
    ) -> None:
        """Send LeaderAndIsr to each of these brokers with the partitions of which it has a replica."""
        by_broker: dict[BrokerId, list[PartitionInfo]] = defaultdict(list)
        for info in partitions:
            for replica in info.replicas:
                if replica in receivers:
                    # A replica added by a reassignment may be created even while a log directory is offline.
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
        """Send StopReplica. Writes decided before are carried out before."""
        self.flush()
        for receiver, replicas in sorted(stopped.items()):
            command = StopReplica(
                self._cluster.controller_id,
                self._cluster.epoch,
                self.brokers[receiver].epoch,
                tuple(replicas),
            )
            self._actions.append(Send(receiver, command))
