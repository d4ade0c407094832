"""What goes wrong in a run, and when: a seeded list of faults, each a coroutine that also heals what it broke."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from tests.sim.client import Connection
from tests.sim.network import SimSocket
from tests.sim.world import World

Fault = Literal[
    "reset", "half_open", "slow_link", "sleeper", "clock_jump", "disk_full", "stop", "kill", "die_writing", "power"
]
GENTLE: tuple[Fault, ...] = ("reset", "half_open", "slow_link", "sleeper", "clock_jump", "disk_full")
KILLING: tuple[Fault, ...] = (*GENTLE, "stop", "kill", "kill", "die_writing")
PULLING_THE_PLUG: tuple[Fault, ...] = (*KILLING, "power", "power")
PATIENCE_S = 3.0


class Client(Protocol):
    """Anything that keeps a connection."""

    connection: Connection | None


class Faults:
    """Strikes one fault after the other until its time is over. `struck` counts them by kind."""

    def __init__(self, world: World, clients: Sequence[Client], kinds: Sequence[Fault]) -> None:
        self._world = world
        self._clients = clients
        self._kinds = kinds
        self._random = random.Random(f"faults {world.seed}")
        self.struck: dict[str, int] = {}

    async def run(self, until: float, mean_gap_s: float) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(1 / mean_gap_s))
            if self._world.loop.time() >= until:
                return
            kind = self._random.choice(self._kinds)
            self.struck[kind] = self.struck.get(kind, 0) + 1
            self._world.trace.note("fault", kind)
            await self._strikes()[kind]()

    def _strikes(self) -> dict[Fault, Callable[[], Awaitable[None]]]:
        return {
            "reset": self._reset,
            "half_open": self._half_open,
            "slow_link": self._slow_link,
            "sleeper": self._sleeper,
            "clock_jump": self._clock_jump,
            "disk_full": self._disk_full,
            "stop": lambda: self._world.restart("stop", self._pause()),
            "kill": lambda: self._world.restart("kill", self._pause()),
            "die_writing": self._die_writing,
            "power": lambda: self._world.restart("power", self._pause()),
        }

    async def _reset(self) -> None:
        socket = self._some_socket()
        if socket is not None:
            socket.reset()

    async def _half_open(self) -> None:
        socket = self._some_socket()
        if socket is not None:
            socket.cut()

    async def _slow_link(self) -> None:
        socket = self._some_socket()
        if socket is not None:
            seconds = self._random.uniform(0.1, 2.0)
            socket.inward.stall(seconds)
            socket.outward.stall(seconds)

    async def _sleeper(self) -> None:
        connection = self._random.choice(self._clients).connection
        if connection is not None:
            connection.stop_reading(self._random.uniform(0.5, 6.0))

    async def _clock_jump(self) -> None:
        self._world.clock.skew_ms = self._random.choice((0, -3_600_000, 3_600_000, 500))

    async def _disk_full(self) -> None:
        self._world.disk.fill_up()
        await asyncio.sleep(self._random.uniform(0.2, 2.0))
        self._world.disk.heal()

    async def _die_writing(self) -> None:
        """Die inside one of the next calls that change the disk, a share of a write done; or right here."""
        self._world.disk.die_at(self._random.randint(1, 12), share=self._random.random())
        patience = self._world.loop.time() + PATIENCE_S
        # Polling costs nothing on a virtual clock.
        while self._world.process.alive and self._world.loop.time() < patience:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        await self._world.restart("kill", self._pause())

    def _some_socket(self) -> SimSocket | None:
        sockets = self._world.network.connections(self._world.process)
        return self._random.choice(sockets) if sockets else None

    def _pause(self) -> float:
        return self._random.uniform(0.05, 1.5)
