"""One simulated cluster: a loop, a network of hosts, the store, a scripted controller, and nodes with their disks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from sordini.protocol.types import BrokerId, TopicPartition
from sordini.replication.cluster_model import Broker, BrokerEndpoint
from sordini.replication.inter_broker_versions import InterBrokerVersions
from sordini.testing.simulation.cluster_network import ClusterNetwork
from sordini.testing.simulation.simulated_pipe import LinkRules
from sordini.testing.simulation.trace import LINES_KEPT, Trace
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop
from tests.sim.client import ClientNetwork
from tests.sim.cluster import secured
from tests.sim.cluster.commands import LISTENER
from tests.sim.cluster.controller import CONTROLLER, CONTROLLER_ID, ScriptedController
from tests.sim.cluster.grants import Grants
from tests.sim.cluster.images import Image, images_of
from tests.sim.cluster.leaderships import Coordinators
from tests.sim.cluster.node import LOG_DIRECTORY, Node
from tests.sim.cluster.service import Service
from tests.sim.cluster.states import States
from tests.sim.history import History
from tests.support.fake_zookeeper import SimZk

STOP_S_MAX = 15.0
RULES = LinkRules(short_chance=0.05)


class ClusterWorld:
    """Everything of one run. Topics are made by the controller, as `replicas` and `topic_configs` say.

    When it `is_secured`, connections have TLS and a login, and access is controlled.
    """

    def __init__(
        self,
        seed: int,
        versions: InterBrokerVersions,
        settings: Mapping[str, str],
        topic_configs: Mapping[str, Mapping[str, str]],
        replicas: Mapping[TopicPartition, tuple[BrokerId, ...]],
        lines_kept: int | None = LINES_KEPT,
        *,
        is_secured: bool = False,
    ) -> None:
        self.seed = seed
        self.settings = dict(settings)
        self.loop = SimLoop(seed)
        self.trace = Trace(self.loop, lines_kept)
        self.network = ClusterNetwork(self.loop, self.trace, seed, RULES)
        self.is_secured = is_secured
        self.listener = secured.PROTOCOL if is_secured else LISTENER
        self.zk = SimZk(self.loop, SimClock(self.loop), self.trace, seed)
        self.history = History()
        self.findings: list[str] = []
        self.images: list[Image] = []
        """What nodes held when they ended, while others went on."""
        self.final_images: list[Image] = []
        endpoint = BrokerEndpoint(self.listener, *CONTROLLER, self.listener)
        self.states = States(self.zk, replicas, Broker(BrokerId(CONTROLLER_ID), 0, (endpoint,)))
        extra = secured.nodes_of_store(topic_configs) if is_secured else {}
        self.states.found(topic_configs, SimClock(self.loop).now_ms(), extra)
        self._controller_process = self.loop.process("controller")
        self.controller = ScriptedController(
            self._controller_process,
            self.connections_of(secured.BROKER),
            self.trace,
            self.states,
            versions,
            seed,
            self.listener,
        )
        source = random.Random(f"world {seed}")
        self.grants = Grants(self.controller, source.choice((1, 2, 3)) if versions.uses_topic_ids else 1, seed)
        brokers = sorted({number for held in replicas.values() for number in held})
        self.nodes = [Node(self, number) for number in brokers]

    def connections_of(self, user: str) -> ClientNetwork:
        """Where a user's connections come from."""
        return secured.SecuredNetwork(self.network, user) if self.is_secured else self.network

    def start(self) -> None:
        """Start everything; partitions are led some time later."""
        self._controller_process.spawn(self._serve_and_control())
        for node in self.nodes:
            node.start()

    def calm_down(self) -> None:
        """Nothing is broken any more and nothing will be: every node runs, links are whole, the controller is kind."""
        self.grants.manners.improve()
        self.controller.calm_down()
        for node in self.nodes:
            node.disk.is_sluggish = False
            assert node.is_wanted, f"{node.host} was left down"

    def note_image(self, node: Node) -> None:
        """Write down what a node's files hold now."""
        images = images_of(node.broker_id, self.loop.time(), LOG_DIRECTORY, node.disk.visible_tree())
        self.images += images.values()

    @property
    def coordinators(self) -> Coordinators:
        return Coordinators(self.controller.leaderships, {node.address: node.broker_id for node in self.nodes})

    async def end(self) -> None:
        """Stop everything as an operator does, and read the disks."""
        await asyncio.gather(*(node.stop(STOP_S_MAX) for node in self.nodes))
        self._controller_process.kill()
        for node in self.nodes:
            images = images_of(node.broker_id, self.loop.time(), LOG_DIRECTORY, node.disk.visible_tree())
            self.final_images += images.values()

    async def _serve_and_control(self) -> None:
        security = secured.SecuredService() if self.is_secured else None
        Service(self.network, CONTROLLER, self.grants.answer, security)
        await self.controller.run(len(self.nodes))
