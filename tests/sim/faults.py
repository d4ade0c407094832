"""The faults of a run: a seeded list, each a coroutine that also repairs its fault."""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, Protocol

from sordini.testing.simulation.simulated_disk import SimDisk
from sordini.testing.simulation.simulated_network import SimSocket
from tests.sim.client import Connection
from tests.sim.files import OFFSETS_TOPIC
from tests.sim.group_history import Forgetting, Pause
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
    "pause",
    "offsets_full",
    "offsets_error",
    "slow_loading",
]
GENTLE: tuple[Fault, ...] = (
    *("reset", "half_open", "slow_link", "sleeper", "clock_jump", "disk_full", "short_write"),
    *("pause", "offsets_full"),
)
KILLING: tuple[Fault, ...] = (
    *GENTLE,
    *("stop", "kill", "kill", "slow_loading", "die_writing", "die_starting", "die_stopping"),
)
FAILING: tuple[Fault, ...] = (*KILLING, "disk_error", "disk_error", "offsets_error", "disk_full", "short_write")
PULLING_THE_PLUG: tuple[Fault, ...] = (*KILLING, "power", "power", "power_starting", "power_retrying")
PATIENCE_S = 3.0
DEATHS_MAX = 4
PAUSES_S = (1.0, 4.0, 9.0, 14.0, 30.0)
"""Shorter and longer than a session."""
PAUSED_BEFORE_END_S = 2.0


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
        self._until = 0.0

    async def run(self, until: float, mean_gap_s: float) -> None:
        self._until = until
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
            "pause": self._pause_process,
            "offsets_full": self._offsets_full,
            "offsets_error": self._offsets_error,
            "slow_loading": self._slow_loading,
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
        if "offsets.retention.minutes" in self._world.settings:
            now = self._world.loop.time()
            self._world.history.groups.forgettings.append(Forgetting(None, None, now, now, "info"))

    async def _disk_full(self) -> None:
        await self._fill_up("", self._random.uniform(0.2, 2.0))

    async def _fill_up(self, directory: str, seconds: float) -> None:
        began = self._world.loop.time()
        self._world.disk.fill_up(directory)
        await asyncio.sleep(seconds)
        self._world.disk.heal()
        self._world.history.groups.disk_failures.append(Pause(began, self._world.loop.time()))

    async def _offsets_full(self) -> None:
        """No room where the groups' offsets are written down."""
        await self._fill_up(self._offsets_directory(), self._random.uniform(0.5, 5.0))

    async def _offsets_error(self) -> None:
        await self._fail((self._offsets_directory(),))

    def _offsets_directory(self) -> str:
        """A log directory that holds a partition of __consumer_offsets, if there is one by now."""
        tree = self._world.disk.visible_tree()
        holding = [
            directory
            for directory in LOG_DIRECTORIES
            if any(path.startswith(f"{directory}/{OFFSETS_TOPIC}") for path in tree)
        ]
        return self._random.choice(holding or LOG_DIRECTORIES)

    async def _slow_loading(self) -> None:
        """Groups are read again, and slowly."""

        def prepare(disk: SimDisk, _failed: int) -> None:
            disk.is_sluggish = True

        await self._world.restart(self._random.choice(("stop", "kill")), self._pause(), prepare)
        await asyncio.sleep(self._random.uniform(1.0, 5.0))
        self._world.disk.is_sluggish = False

    async def _pause_process(self) -> None:
        """The process is paused while its clients run: their requests wait in its sockets.

        Now and then all have lost their connections, and only request their coordinator.
        """
        world, began = self._world, self._world.loop.time()
        seconds = self._random.choice(PAUSES_S) * self._random.uniform(0.5, 1.0)
        seconds = min(seconds, self._until - began - PAUSED_BEFORE_END_S)
        if seconds <= 0:
            return
        world.loop.pause(world.process)
        if self._random.random() < 0.4:
            for socket in world.network.connections(world.process):
                socket.reset()
        await asyncio.sleep(seconds)
        world.loop.resume(world.process, timers_first=self._random.random() < 0.5)
        world.history.groups.pauses.append(Pause(began, world.loop.time()))

    async def _short_write(self) -> None:
        """Some of the next writes take only half of what they are given."""
        for _ in range(self._random.randint(1, 5)):
            self._world.disk.shorten(self._random.randint(1, 20))

    async def _die_writing(self) -> None:
        """End the process inside one of the next calls that change the disk, with a part of a write done; or later."""
        self._world.disk.die_at(self._random.randint(1, 12), share=self._random.random())
        await asyncio.wait([self._world.process.died], timeout=PATIENCE_S)
        await self._world.restart("kill", self._pause())

    def _dying_start(self) -> Callable[[SimDisk, int], None]:
        """A few processes in a row are killed during their start; the last one starts."""
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
        await self._fail(LOG_DIRECTORIES if self._random.random() < 0.2 else (self._random.choice(LOG_DIRECTORIES),))

    async def _fail(self, where: tuple[str, ...]) -> None:
        world = self._world
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
