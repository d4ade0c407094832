"""What goes wrong in a run, and when: a seeded list of faults, each a coroutine that also heals what it broke."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from tests.sim.client import Connection
from tests.sim.disk import SimDisk
from tests.sim.network import SimSocket
from tests.sim.world import LOG_DIRECTORIES, World

Fault = Literal[
    "reset",
    "half_open",
    "slow_link",
    "sleeper",
    "clock_jump",
    "disk_full",
    "short_write",
    "stop",
    "kill",
    "die_writing",
    "die_starting",
    "die_stopping",
    "disk_error",
    "power",
    "power_starting",
    "power_retrying",
]
GENTLE: tuple[Fault, ...] = ("reset", "half_open", "slow_link", "sleeper", "clock_jump", "disk_full", "short_write")
KILLING: tuple[Fault, ...] = (*GENTLE, "stop", "kill", "kill", "die_writing", "die_starting", "die_stopping")
FAILING: tuple[Fault, ...] = (*KILLING, "disk_error", "disk_error", "disk_full", "short_write")
PULLING_THE_PLUG: tuple[Fault, ...] = (*KILLING, "power", "power", "power_starting", "power_retrying")
PATIENCE_S = 3.0
DEATHS_MAX = 4


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
        world = self._world
        return {
            "reset": self._reset,
            "half_open": self._half_open,
            "slow_link": self._slow_link,
            "sleeper": self._sleeper,
            "clock_jump": self._clock_jump,
            "disk_full": self._disk_full,
            "short_write": self._short_write,
            "stop": lambda: world.restart("stop", self._pause()),
            "kill": lambda: world.restart("kill", self._pause()),
            "die_writing": self._die_writing,
            "die_starting": lambda: world.restart("kill", self._pause(), self._dying_start()),
            "die_stopping": self._die_stopping,
            "disk_error": self._disk_error,
            "power": lambda: world.restart("power", self._pause()),
            "power_retrying": self._power_retrying,
            "power_starting": lambda: world.restart("power", self._pause(), self._dying_start()),
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

    async def _short_write(self) -> None:
        """Some of the next writes take only half of what they are given."""
        for _ in range(self._random.randint(1, 5)):
            self._world.disk.shorten(self._random.randint(1, 20))

    async def _die_writing(self) -> None:
        """Die inside one of the next calls that change the disk, a share of a write done; or after a while."""
        self._world.disk.die_at(self._random.randint(1, 12), share=self._random.random())
        await asyncio.wait([self._world.process.died], timeout=PATIENCE_S)
        await self._world.restart("kill", self._pause())

    def _dying_start(self) -> Callable[[SimDisk, int], None]:
        """The next processes die in the middle of their start, a few times over, the last of them lives."""
        deaths = self._random.randint(1, DEATHS_MAX)
        calls = [self._random.randint(1, 30) for _ in range(deaths)]

        def prepare(disk: SimDisk, failed: int) -> None:
            if failed < deaths:
                disk.die_at(calls[failed], share=self._random.random())

        return prepare

    async def _die_stopping(self) -> None:
        self._world.disk.die_at(self._random.randint(1, 40), share=self._random.random())
        await self._world.restart("stop", self._pause())

    async def _disk_error(self) -> None:
        """One log directory, or now and then both, gives I/O errors; later the disk is changed and all is well."""
        world = self._world
        where = LOG_DIRECTORIES if self._random.random() < 0.2 else (self._random.choice(LOG_DIRECTORIES),)
        kinds = self._random.choice((("write",), ("sync", "sync directory"), ("write", "create", "rename", "sync")))
        world.disk_failed = True
        disk = world.disk
        disk.fail_while(lambda kind, path: kind in kinds and path.startswith(where), errno.EIO)
        await asyncio.wait([world.process.died], timeout=self._random.uniform(0.2, 3.0))
        # An error that passes makes nothing good again: what it hit may be lost, so the directory stays offline.
        disk.heal()
        await asyncio.wait([world.process.died], timeout=self._random.uniform(0.0, 2.0))
        world.note_offline(disk)
        end = self._random.choice(("stop", "kill"))
        await world.restart(end, self._pause())

    async def _power_retrying(self) -> None:
        """A slow disk; every client loses its connection and sends again; and then the power is gone."""
        world = self._world
        world.disk.is_slow = True
        await asyncio.sleep(self._random.uniform(0.1, 3.0))
        for socket in world.network.connections(world.process):
            socket.reset()
        await asyncio.sleep(self._random.uniform(0.1, 1.0))
        await world.restart("power", self._pause())

    def _some_socket(self) -> SimSocket | None:
        sockets = self._world.network.connections(self._world.process)
        return self._random.choice(sockets) if sockets else None

    def _pause(self) -> float:
        return self._random.uniform(0.05, 1.5)
