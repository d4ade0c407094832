"""A simulated cluster: the coordination store's tree, the controller's machine, and brokers that answer on demand.

Used by the controller's transcripts and its property tests. Nothing runs: a call changes the tree, the machine is fed
what the shell would have read, its actions are carried out on the tree at once, and every action becomes a line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from sordini.coordination_store.znode_tree import ZnodeTree
from sordini.protocol.types import BrokerId, TopicId, TopicPartition
from sordini.replication.cluster_model import (
    DEFAULT_CLUSTER_SETTINGS,
    Broker,
    BrokerEndpoint,
    ClusterState,
    Command,
    CommandAnswer,
    KnownState,
    LeaderAndIsr,
    Malformed,
    PartitionState,
    StopReplica,
    TopicAssignment,
    ZkReassignments,
)
from sordini.replication.controller.machine import unclean_elections
from sordini.replication.controller.machine.events import (
    BrokersChanged,
    CommandAnswered,
    Conflict,
    ControllerReply,
    DeletionsListed,
    Done,
    Elected,
    Event,
    LeaderRebalanceDue,
    LogDirsFailed,
    NewIsr,
    NewState,
    Outcome,
    ProducerIdsRequested,
    ReadStates,
    ReadUncleanSettings,
    Send,
    StatesRead,
    StoreWrite,
    StoreWriteRefused,
    TopicChanged,
    TopicsListed,
    UncleanSettingsRead,
    WriteAll,
    WritesDone,
    ZkElectionsRead,
    ZkReassignmentsRead,
)
from sordini.replication.controller.machine.machine import step
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import (
    Check,
    CoordinationError,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    Set,
)
from tests.support.controller_transcript_lines import describe, operation_line, reply_line


class MachineHarness:
    """`lines` collects one line for each action since it was last reset."""

    def __init__(self) -> None:
        self.tree = ZnodeTree()
        self.cluster: ClusterState | None = None
        self.lines: list[str] = []
        self.unanswered: deque[tuple[BrokerId, Command]] = deque()
        self.sent: list[tuple[BrokerId, Command]] = []
        self.guard = 0
        self.replies: list[ControllerReply] = []
        self.written: list[tuple[TopicPartition, KnownState]] = []
        self.written_by_others: list[tuple[TopicPartition, KnownState]] = []
        self.before_write: Callable[[StoreWrite], None] = lambda _: None
        self.unclean: set[str] = set()
        self.cluster_settings = DEFAULT_CLUSTER_SETTINGS
        self.is_refused: Callable[[StoreWrite], bool] = lambda _: False
        for path in ("/brokers", *paths.BASE_PATHS, "/config", "/admin"):
            self._ensure(path)
        self._do(Create(paths.CONTROLLER_EPOCH, b"0"))

    # Changes of the tree. The machine gets them by `feed` only, so a test may let it lag behind.

    def register_broker(self, broker_id: int) -> None:
        broker = Broker(BrokerId(broker_id), 0, (BrokerEndpoint("PLAINTEXT", f"b{broker_id}", 9092),))
        self._do(Create(paths.broker(broker.broker_id), znodes.encode_broker(broker, 0)))

    def fail_broker(self, broker_id: int) -> None:
        self._do(Delete(paths.broker(BrokerId(broker_id))))

    def create_topic(
        self, name: str, replicas: dict[int, tuple[BrokerId, ...]], *, topic_id: bytes | None = None
    ) -> None:
        identity = TopicId(name.encode().ljust(16, b".")[:16] if topic_id is None else topic_id)
        self._do(Create(paths.topic_config(name), znodes.encode_config({})))
        self._do(Create(paths.topic(name), znodes.encode_topic(TopicAssignment(name, replicas, identity))))

    def write_topic(
        self,
        name: str,
        replicas: dict[int, tuple[BrokerId, ...]],
        topic_id: bytes,
        *,
        adding: dict[int, tuple[BrokerId, ...]] | None = None,
        removing: dict[int, tuple[BrokerId, ...]] | None = None,
    ) -> None:
        assignment = TopicAssignment(name, replicas, TopicId(topic_id), adding or {}, removing or {})
        self._do(Set(paths.topic(name), znodes.encode_topic(assignment)))

    def write_zk_reassignments(self, targets: dict[TopicPartition, tuple[BrokerId, ...]]) -> None:
        """By a tool, which may add to the existing node."""
        there = self.tree.stat(paths.REASSIGN_PARTITIONS) is not None
        data = znodes.encode_reassignment(targets)
        self._do(Set(paths.REASSIGN_PARTITIONS, data) if there else Create(paths.REASSIGN_PARTITIONS, data))

    def request_deletion(self, name: str) -> None:
        self._do(Create(paths.delete_topic(name)))

    def write_isr_notification(self, *partitions: TopicPartition) -> None:
        self._do(Create(paths.ISR_CHANGE_PREFIX, znodes.encode_isr_change(partitions), sequential=True))

    def write_log_dir_event(self, broker_id: int) -> None:
        notification = znodes.encode_log_dir_event(BrokerId(broker_id))
        self._do(Create(paths.LOG_DIR_EVENT_PREFIX, notification, sequential=True))

    def write_state(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        """By another writer."""
        self._do(Set(paths.state(topic_partition), znodes.encode_state(state)))
        known = self.state(topic_partition)
        assert known is not None
        self.written_by_others.append((topic_partition, known))

    def elect_other_controller(self) -> None:
        """Another broker is elected without the machine's knowledge."""
        data, _ = self.tree.get(paths.CONTROLLER_EPOCH)
        self._do(Set(paths.CONTROLLER_EPOCH, b"%d" % (int(data) + 1)))

    # What the shell does.

    def elect(self, controller_id: int = 1) -> None:
        data, stat = self.tree.get(paths.CONTROLLER_EPOCH)
        epoch = int(data) + 1
        self._do(Set(paths.CONTROLLER_EPOCH, b"%d" % epoch, stat.version))
        self.guard = stat.version + 1
        self.cluster = None
        self._begin(BrokerId(controller_id), epoch)

    def reconnect(self) -> None:
        """The term continues after a reconnect: everything is read again."""
        assert self.cluster is not None
        self._begin(self.cluster.controller_id, self.cluster.epoch)

    def _begin(self, controller_id: BrokerId, epoch: int) -> None:
        topics = self.topics()
        partitions = [TopicPartition(t.name, p) for t in topics.values() for p in t.replicas]
        states = {tp: known for tp in partitions if (known := self.state(tp)) is not None}
        self.feed(
            Elected(
                controller_id,
                epoch,
                self.brokers(),
                topics,
                states,
                self.deletions(),
                fresh_ids=self._ids(topics),
                cluster_settings=self.cluster_settings,
            )
        )

    def read_brokers(self) -> None:
        self.feed(BrokersChanged(self.brokers()))

    def read_topics(self) -> None:
        topics = self.topics()
        known = self.cluster.topics.keys() if self.cluster else set()
        read = {name: topic for name, topic in topics.items() if name not in known}
        names = frozenset(self.tree.children(paths.TOPICS))
        self.feed(TopicsListed(names, read, self._ids(read)))

    def read_topic(self, name: str) -> None:
        self.feed(TopicChanged(self.topics()[name]))

    def read_deletions(self) -> None:
        self.feed(DeletionsListed(self.deletions()))

    def read_zk_reassignments(self) -> None:
        try:
            data, stat = self.tree.get(paths.REASSIGN_PARTITIONS)
        except NoNode:
            self.feed(ZkReassignmentsRead(None))
            return
        targets = znodes.decode_reassignment(data)
        self.feed(ZkReassignmentsRead(ZkReassignments({} if isinstance(targets, Malformed) else targets, stat.version)))

    def read_isr_changes(self) -> None:
        notifications = self._notifications(paths.ISR_CHANGES)
        named = [znodes.decode_isr_change(data) for data in notifications.values()]
        partitions = [one for some in named if not isinstance(some, Malformed) for one in some]
        self.feed(StatesRead(self._states(partitions), tuple(notifications)))

    def read_log_dir_events(self) -> None:
        notifications = self._notifications(paths.LOG_DIR_EVENTS)
        brokers = [znodes.decode_log_dir_event(data) for data in notifications.values()]
        self.feed(LogDirsFailed(frozenset(b for b in brokers if not isinstance(b, Malformed)), tuple(notifications)))

    def allow_unclean(self, topic: str) -> None:
        """The topic's setting is changed and read."""
        self.unclean.add(topic)
        if self.cluster is not None:
            partitions = unclean_elections.leaderless(self.cluster, topic)
            self.feed(UncleanSettingsRead(partitions, self._allowing_unclean(partitions)))

    def write_zk_elections(self, *partitions: TopicPartition) -> None:
        self._do(Create(paths.PREFERRED_ELECTION, znodes.encode_preferred_election(partitions)))

    def read_zk_elections(self) -> None:
        data, stat = self.tree.get(paths.PREFERRED_ELECTION)
        partitions = znodes.decode_preferred_election(data)
        self.feed(ZkElectionsRead(() if isinstance(partitions, Malformed) else tuple(partitions), stat.version))

    def rebalance(self, percentage: int) -> None:
        self.feed(LeaderRebalanceDue(percentage))

    def request_producer_ids(self, broker_id: int, broker_epoch: int) -> None:
        data, stat = self.tree.get(paths.PRODUCER_ID_BLOCK)
        last = znodes.decode_producer_id_block(data)
        assert not isinstance(last, Malformed)
        self.feed(ProducerIdsRequested(BrokerId(broker_id), broker_epoch, last, stat.version))

    def answer_leader_and_isr(self, broker_id: int, codes: dict[TopicPartition, int], *, which: int = -1) -> None:
        """The broker answers one of the LeaderAndIsr commands sent to it, by default the last one."""
        commands = [c for receiver, c in self.sent if receiver == broker_id and isinstance(c, LeaderAndIsr)]
        self.feed(CommandAnswered(BrokerId(broker_id), commands[which], CommandAnswer(0, codes)))

    def epoch_of(self, broker_id: int) -> int:
        """The broker epoch, or -1 of an unregistered broker."""
        stat = self.tree.stat(paths.broker(BrokerId(broker_id)))
        return -1 if stat is None else stat.czxid

    def answer_stop_replica(self, error: int = 0) -> None:
        """Answer the oldest unanswered StopReplica."""
        broker_id, command = self.unanswered.popleft()
        self.feed(CommandAnswered(broker_id, command, CommandAnswer(error)))

    def feed(self, event: Event) -> None:
        """Take a step and carry out its actions, as the shell does; a failed guard ends the term."""
        events: deque[Event] = deque([event])
        while events:
            self.cluster, actions = step(self.cluster, events.popleft())
            for action in actions:
                match action:
                    case Send(broker_id, command):
                        self.lines.append(f"{broker_id} <- {describe(command)}")
                        self.sent.append((broker_id, command))
                        if isinstance(command, StopReplica):
                            self.unanswered.append((broker_id, command))
                    case WriteAll(writes):
                        outcomes = [(write, self._write(write)) for write in writes]
                        if any(outcome is None for _, outcome in outcomes):
                            self.lines.append("resigns")
                            self.cluster = None
                            return
                        events.append(WritesDone(tuple((write, outcome) for write, outcome in outcomes if outcome)))
                    case ReadStates(partitions):
                        self.lines.append(f"reads {' '.join(map(str, partitions))}")
                        events.append(StatesRead(self._states(partitions)))
                    case ReadUncleanSettings(partitions):
                        self.lines.append(f"reads unclean setting of {' '.join(map(str, partitions))}")
                        events.append(UncleanSettingsRead(partitions, self._allowing_unclean(partitions)))
                    case ControllerReply():
                        self.lines.append(f"reply {reply_line(action)}")
                        self.replies.append(action)

    def _write(self, write: StoreWrite) -> Outcome | None:
        guard = Check(paths.CONTROLLER_EPOCH, self.guard)
        self.before_write(write)
        if self.is_refused(write):
            self.lines.append(f"{operation_line(write.operation)} ! refused")
            return StoreWriteRefused("refused by the test")
        try:
            results, _ = self.tree.apply([guard, write.operation], 0, 0)
        except CoordinationError as refusal:
            if refusal.index == 0:
                return None
            outcome = self._refused(write, refusal)
            self.lines.append(f"{operation_line(write.operation)} ! {type(refusal).__name__}")
            return outcome
        self.lines.append(operation_line(write.operation))
        done = Done(getattr(results[1], "version", 0))
        if isinstance(write.purpose, NewState | NewIsr):
            self.written.append((write.purpose.topic_partition, KnownState(write.purpose.state, done.version)))
        return done

    def _refused(self, write: StoreWrite, refusal: CoordinationError) -> Outcome:
        if isinstance(write.purpose, NewState | NewIsr):
            return Conflict(self.state(write.purpose.topic_partition))
        expected = NodeExists if isinstance(write.operation, Create) else NoNode
        return Done(0) if isinstance(refusal, expected) else StoreWriteRefused(str(refusal))

    # Reading.

    def brokers(self) -> dict[BrokerId, Broker]:
        found = {}
        for name in self.tree.children(paths.BROKER_IDS):
            data, stat = self.tree.get(f"{paths.BROKER_IDS}/{name}")
            broker = znodes.decode_broker(BrokerId(int(name)), data, stat.czxid)
            if not isinstance(broker, Malformed):
                found[broker.broker_id] = broker
        return found

    def topics(self) -> dict[str, TopicAssignment]:
        found = {}
        for name in self.tree.children(paths.TOPICS):
            data, stat = self.tree.get(paths.topic(name))
            topic = znodes.decode_topic(name, data, stat.version)
            if not isinstance(topic, Malformed):
                found[name] = topic
        return found

    def state(self, topic_partition: TopicPartition) -> KnownState | None:
        try:
            data, stat = self.tree.get(paths.state(topic_partition))
        except NoNode:
            return None
        state = znodes.decode_state(topic_partition, data)
        return None if isinstance(state, Malformed) else KnownState(state, stat.version)

    def _states(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, KnownState]:
        return {tp: known for tp in partitions if (known := self.state(tp)) is not None}

    def _allowing_unclean(self, partitions: Iterable[TopicPartition]) -> frozenset[str]:
        return frozenset(one.topic for one in partitions if one.topic in self.unclean)

    def _notifications(self, parent: str) -> dict[str, bytes]:
        return {
            path: self.tree.get(path)[0] for path in (f"{parent}/{name}" for name in sorted(self.tree.children(parent)))
        }

    def deletions(self) -> frozenset[str]:
        return frozenset(self.tree.children(paths.DELETE_TOPICS))

    def _ids(self, topics: dict[str, TopicAssignment]) -> dict[str, TopicId]:
        return {name: TopicId(b"fresh".ljust(16, b".")) for name, t in topics.items() if t.topic_id == bytes(16)}

    def _ensure(self, path: str) -> None:
        for step_ in [*paths.parents(path), path]:
            if self.tree.stat(step_) is None:
                self._do(Create(step_))

    def _do(self, operation: Operation) -> None:
        self.tree.apply([operation], 0, 0)
