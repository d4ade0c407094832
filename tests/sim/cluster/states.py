"""What the store says of brokers and partitions, read and written at once by the controller that sits beside it."""

from __future__ import annotations

from collections.abc import Mapping

from sordini.protocol.types import BrokerId, LeaderEpoch, TopicId, TopicPartition
from sordini.replication.cluster_model import Broker, Malformed, PartitionState, TopicAssignment
from sordini.replication.metadata_store import paths, znodes
from sordini.replication.ports import Create, Delete, NoNode, Set
from tests.sim.cluster.commands import ReportedState
from tests.support.fake_zookeeper import SimZk

CLUSTER = "c2ltdWxhdGlvbi4uLi4uLg"


class States:
    """The cluster's part of the tree. A partition's state has the version of its node, which is its epoch."""

    def __init__(self, zk: SimZk, replicas: Mapping[TopicPartition, tuple[BrokerId, ...]], controller: Broker) -> None:
        """`controller` is registered among the brokers, as controllers are, and is none."""
        self._zk = zk
        self._controller = controller
        self.replicas = replicas
        self.ids = {
            topic: TopicId(topic.encode().ljust(16, b"~")[:16]) for topic in sorted({tp.topic for tp in replicas})
        }

    def found(self, configs: Mapping[str, Mapping[str, str]], now_ms: int, extra: Mapping[str, bytes]) -> None:
        """Create the tree of a cluster with leaderless topics and a controller that is none of the brokers."""
        tree = self._zk.tree
        nodes: dict[str, bytes] = dict.fromkeys(paths.BASE_PATHS, b"")
        nodes[paths.CLUSTER_ID] = znodes.encode_cluster_id(CLUSTER)
        nodes[paths.CONTROLLER] = znodes.encode_controller(self._controller.broker_id, now_ms)
        nodes[paths.broker(self._controller.broker_id)] = znodes.encode_broker(self._controller, now_ms)
        nodes[paths.CONTROLLER_EPOCH] = b"1"
        for topic in self.ids:
            replicas = {tp.partition: held for tp, held in self.replicas.items() if tp.topic == topic}
            nodes[paths.topic(topic)] = znodes.encode_topic(TopicAssignment(topic, replicas, self.ids[topic]))
            nodes[paths.topic_config(topic)] = znodes.encode_config(configs.get(topic, {}))
        nodes |= extra
        for path, data in nodes.items():
            for above in paths.parents(path):
                if tree.stat(above) is None:
                    self._zk.write([Create(above)])
            if tree.stat(path) is None:
                self._zk.write([Create(path, data)])
            elif data:
                self._zk.write([Set(path, data)])

    def controller_epoch(self) -> int:
        return int(self._zk.tree.get(paths.CONTROLLER_EPOCH)[0])

    def next_controller_epoch(self) -> int:
        epoch = self.controller_epoch() + 1
        self._zk.write([Set(paths.CONTROLLER_EPOCH, b"%d" % epoch)])
        return epoch

    def live(self) -> dict[int, Broker]:
        """The registered brokers but for the controller. A node that is not filled yet counts as none."""
        tree = self._zk.tree
        found: dict[int, Broker] = {}
        for name in tree.children(paths.BROKER_IDS):
            if int(name) == self._controller.broker_id:
                continue
            data, stat = tree.get(paths.broker(BrokerId(int(name))))
            broker = znodes.decode_broker(BrokerId(int(name)), data, stat.czxid)
            if not isinstance(broker, Malformed):
                found[int(name)] = broker
        return found

    def reported(self, partition: TopicPartition) -> ReportedState | None:
        """A partition's state; None before it has one."""
        try:
            data, stat = self._zk.tree.get(paths.state(partition))
        except NoNode:
            return None
        state = znodes.decode_state(partition, data)
        assert not isinstance(state, Malformed), state
        return ReportedState(partition, state, stat.version, self.replicas[partition])

    def all(self) -> list[ReportedState]:
        return [state for partition in sorted(self.replicas) if (state := self.reported(partition)) is not None]

    def create(
        self, partition: TopicPartition, leader: BrokerId, isr: tuple[BrokerId, ...], epoch: int
    ) -> ReportedState:
        state = PartitionState(leader, LeaderEpoch(0), isr, epoch)
        path = paths.state(partition)
        above = [Create(each) for each in paths.parents(path) if self._zk.tree.stat(each) is None]
        self._zk.write([*above, Create(path, znodes.encode_state(state))])
        return ReportedState(partition, state, 0, self.replicas[partition])

    def change(self, reported: ReportedState, state: PartitionState) -> ReportedState:
        """Write a new state over the one that was read; no other write can come between."""
        version = reported.version + 1
        self._zk.write([Set(paths.state(reported.partition), znodes.encode_state(state), reported.version)])
        return reported._replace(state=state, version=version)

    def take_isr_changes(self) -> bool:
        """Whether brokers left notes that they changed in-sync sets by themselves; the notes are removed."""
        names = self._zk.tree.children(paths.ISR_CHANGES)
        for name in names:
            self._zk.write([Delete(f"{paths.ISR_CHANGES}/{name}")])
        return bool(names)
