"""The faults of a cluster's run: a seeded list, several at a time, each repairing what it broke."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from sordini.testing.simulation.simulated_network import SimSocket
from tests.sim.cluster.controller import CONTROLLER
from tests.sim.cluster.node import Node
from tests.sim.cluster.world import ClusterWorld

Fault = Literal[
    "kill",
    "kill_two",
    "kill_all",
    "stop",
    "pause",
    "cut_peers",
    "cut_one_way",
    "cut_controller",
    "cut_store",
    "cut_all",
    "lose_store",
    "outage",
    "expire",
    "reset",
    "half_open",
    "slow_link",
    "slow_disk",
    "power",
    "power_two",
]
GENTLE: tuple[Fault, ...] = (
    *("pause", "pause", "cut_peers", "cut_peers", "cut_one_way", "cut_one_way", "cut_controller"),
    *(
        "cut_store",
        "cut_store",
        "cut_all",
        "lose_store",
        "outage",
        "expire",
        "reset",
        "half_open",
        "slow_link",
        "slow_disk",
    ),
)
KILLING: tuple[Fault, ...] = (*GENTLE, "kill", "kill", "kill", "kill_two", "kill_all", "stop")
PULLING_THE_PLUG: tuple[Fault, ...] = (*KILLING, "power", "power", "power_two")
TOGETHER_MAX = 3
STOP_S_MAX = 4.0
OUTAGE_S = 6.0
"""Longest outage of the store; the session timeout is a quarter of it."""


class ClusterFaults:
    """Strikes faults until a time; `run` returns when all of them are healed. `struck` counts them by kind."""

    def __init__(self, world: ClusterWorld, kinds: Sequence[Fault]) -> None:
        self.struck: dict[str, int] = {}
        self._world = world
        self._kinds = kinds
        self._random = random.Random(f"cluster faults {world.seed}")
        self._busy: set[int] = set()
        """Nodes that are down or paused by a fault that brings them back."""
        self.outages: list[tuple[float, float]] = []
        """From when to when no broker reached the store."""

    async def run(self, until: float, mean_gap_s: float) -> None:
        running = asyncio.Semaphore(TOGETHER_MAX)
        async with asyncio.TaskGroup() as group:
            while True:
                await asyncio.sleep(self._random.expovariate(1 / mean_gap_s))
                await running.acquire()
                if self._world.loop.time() >= until:
                    return
                kind = self._random.choice(self._kinds)
                group.create_task(self._strike(kind)).add_done_callback(lambda _: running.release())

    async def _strike(self, kind: Fault) -> None:
        self.struck[kind] = self.struck.get(kind, 0) + 1
        self._world.trace.note("fault", kind)
        await self._strikes()[kind]()

    def _strikes(self) -> dict[Fault, Callable[[], Awaitable[None]]]:
        return {
            "kill": lambda: self._end(1, "kill"),
            "kill_two": lambda: self._end(2, "kill"),
            "kill_all": lambda: self._end(3, "kill"),
            "power": lambda: self._end(1, "power"),
            "power_two": lambda: self._end(2, "power"),
            "stop": self._stop,
            "pause": self._pause,
            "cut_peers": self._cut_peers,
            "cut_one_way": self._cut_one_way,
            "cut_controller": self._cut_controller,
            "cut_store": self._cut_store,
            "cut_all": self._cut_all,
            "lose_store": self._lose_store,
            "outage": self._outage,
            "expire": self._expire,
            "reset": lambda: self._break(SimSocket.reset),
            "half_open": lambda: self._break(SimSocket.cut),
            "slow_link": self._slow_link,
            "slow_disk": self._slow_disk,
        }

    # Processes.

    async def _end(self, count: int, kind: Literal["kill", "power"]) -> None:
        nodes = [node for node in self._world.nodes if node.broker_id not in self._busy]
        nodes = self._random.sample(nodes, min(count, len(nodes)))
        self._busy |= {node.broker_id for node in nodes}
        for node in nodes:
            self._world.note_image(node)
            node.end(kind)
        for node in nodes:
            await asyncio.sleep(self._random.uniform(0.05, 2.0))
            node.start()
            self._busy.discard(node.broker_id)

    async def _stop(self) -> None:
        node = self._take_node()
        if node is not None:
            await node.stop(STOP_S_MAX)
            self._world.note_image(node)
            await asyncio.sleep(self._random.uniform(0.05, 1.0))
            node.start()
            self._busy.discard(node.broker_id)

    async def _pause(self) -> None:
        node = self._take_node()
        if node is not None:
            process = node.process
            if process.alive:
                self._world.loop.pause(process)
                await asyncio.sleep(self._random.choice((0.5, 1.2, 2.5, 4.0)) * self._random.uniform(0.5, 1.0))
                if process.alive:
                    self._world.loop.resume(process, timers_first=self._random.random() < 0.5)
            self._busy.discard(node.broker_id)

    def _take_node(self) -> Node | None:
        free = [node for node in self._world.nodes if node.broker_id not in self._busy]
        if not free:
            return None
        node = self._random.choice(free)
        self._busy.add(node.broker_id)
        return node

    # Links.

    async def _cut_peers(self) -> None:
        """One node is cut off from the other nodes."""
        alone, seconds = self._some_node(), self._seconds()
        for other in self._world.nodes:
            if other is not alone:
                self._cut_both(alone.host, other.host, seconds)
        await asyncio.sleep(seconds)

    async def _cut_one_way(self) -> None:
        one, other = self._random.sample(self._world.nodes, 2)
        seconds = self._seconds()
        self._world.network.cut(one.host, other.host, seconds)
        await asyncio.sleep(seconds)

    async def _cut_controller(self) -> None:
        node, seconds = self._some_node(), self._seconds()
        self._cut_both(node.host, CONTROLLER[0], seconds)
        await asyncio.sleep(seconds)

    async def _cut_store(self) -> None:
        node, seconds = self._some_node(), self._seconds()
        self._world.trace.note("cut store", node.host)
        self._world.zk.cut(node.host, seconds)
        await asyncio.sleep(seconds)

    async def _cut_all(self) -> None:
        """One node is cut off from everything except, sometimes, its clients."""
        node, seconds = self._some_node(), self._seconds()
        for other in (*(each.host for each in self._world.nodes), CONTROLLER[0]):
            if other != node.host:
                self._cut_both(node.host, other, seconds)
        self._world.zk.cut(node.host, seconds)
        if self._random.random() < 0.5:
            self._cut_both(node.host, "clients", seconds)
        await asyncio.sleep(seconds)

    async def _lose_store(self) -> None:
        self._world.zk.drop(self._some_node().host)

    async def _outage(self) -> None:
        """The store is unreachable for all brokers and the controller, for longer than the session timeout."""
        began = self._world.loop.time()
        seconds = OUTAGE_S * self._random.uniform(0.5, 1.0)
        for node in self._world.nodes:
            self._world.zk.cut(node.host, seconds)
        self._world.controller.wait(seconds)
        await asyncio.sleep(seconds)
        self.outages.append((began, began + seconds))

    async def _expire(self) -> None:
        """A session expires although its broker is up and reachable."""
        node = self._some_node()
        broker = self._world.states.live().get(node.broker_id)
        if broker is not None:
            _, stat = self._world.zk.tree.get(f"/brokers/ids/{node.broker_id}")
            self._world.zk.expire(stat.ephemeral_owner)

    async def _break(self, how: Callable[[SimSocket], None]) -> None:
        one, other = self._random.sample(self._world.nodes, 2)
        hosts = (one.host, other.host if self._random.random() < 0.8 else CONTROLLER[0])
        sockets = self._world.network.sockets_between(*hosts)
        if sockets:
            how(self._random.choice(sockets))

    async def _slow_link(self) -> None:
        one, other = self._random.sample(self._world.nodes, 2)
        seconds = self._random.uniform(0.1, 1.5)
        for socket in self._world.network.sockets_between(one.host, other.host):
            socket.inward.stall(seconds)
            socket.outward.stall(seconds)

    async def _slow_disk(self) -> None:
        disk = self._some_node().disk
        disk.is_sluggish = True
        await asyncio.sleep(self._seconds())
        disk.is_sluggish = False

    def _cut_both(self, one: str, other: str, seconds: float) -> None:
        self._world.network.cut(one, other, seconds)
        self._world.network.cut(other, one, seconds)

    def _some_node(self) -> Node:
        return self._random.choice(self._world.nodes)

    def _seconds(self) -> float:
        return self._random.choice((0.3, 1.0, 2.0, 4.0)) * self._random.uniform(0.5, 1.0)
