"""How commands reach a broker: one ordered queue per broker epoch; and how a faulty network delivers them.

A command is sent until it is answered, as a controller does. Sometimes the connection breaks before the answer, so
that the broker gets it twice; sometimes a duplicate arrives much later, over another connection,
after newer commands have been applied.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from typing import Any, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection

TIMEOUT_S = 2.0
BACKOFF_S = (0.02, 0.1)


class Command(NamedTuple):
    """A request in the version in which it goes out."""

    api_key: ApiKey
    version: int
    message: Any


@dataclasses.dataclass(slots=True)
class Roughness:
    """Delivery faults: chances for each, times in seconds. All of it is 0 in the quiet time."""

    delay_mean: float = 0.004
    late_chance: float = 0.08
    late_max: float = 1.0
    repeat_chance: float = 0.1
    stray_chance: float = 0.12
    stray_max: float = 5.0

    def smooth(self) -> None:
        self.late_chance = self.repeat_chance = self.stray_chance = 0.0


class Delivery:
    """One incarnation of a broker, as one controller commands it."""

    def __init__(
        self, network: ClientNetwork, process: LoopProcess, address: Address, roughness: Roughness, name: str
    ) -> None:
        self._network = network
        self._process = process
        self._address = address
        self._roughness = roughness
        self._name = name
        self._random = random.Random(name)
        self._queue: asyncio.Queue[Command] = asyncio.Queue()
        self._connection: Connection | None = None
        self._task = process.spawn(self._run())

    def send(self, command: Command) -> None:
        self._queue.put_nowait(command)
        if self._random.random() < self._roughness.stray_chance:
            self._process.spawn(self._stray(command, self._random.uniform(0.0, self._roughness.stray_max)))

    def is_idle(self) -> bool:
        """Whether everything has been answered."""
        return self._queue.empty() and self._queue._unfinished_tasks == 0  # type: ignore[attr-defined]

    def close(self) -> None:
        """The broker is gone: its queued commands are dropped. Duplicates in flight still arrive."""
        self._task.cancel()
        self._hang_up()

    async def _run(self) -> None:
        while True:
            command = await self._queue.get()
            await asyncio.sleep(self._delay())
            for _ in itertools.count():
                if await self._try(command):
                    break
                await asyncio.sleep(self._random.uniform(*BACKOFF_S))
            self._queue.task_done()

    async def _try(self, command: Command) -> bool:
        try:
            if self._connection is None or not self._connection.is_open:
                self._connection = await Connection.open(self._network, self._address, self._name)
            answer = self._connection.request(*command)
            if self._random.random() < self._roughness.repeat_chance:
                await asyncio.sleep(self._random.uniform(0.0, 0.05))
                self._hang_up()
                return False
            async with asyncio.timeout(TIMEOUT_S):
                await answer
        except (OSError, TimeoutError):
            self._hang_up()
            return False
        return True

    async def _stray(self, command: Command, seconds: float) -> None:
        await asyncio.sleep(seconds)
        try:
            connection = await Connection.open(self._network, self._address, f"{self._name}-stray")
        except OSError:
            return
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await connection.request(*command)
        except (OSError, TimeoutError):
            pass
        finally:
            connection.close()

    def _delay(self) -> float:
        rough = self._roughness
        seconds = self._random.expovariate(1 / rough.delay_mean)
        return (
            seconds + self._random.random() * rough.late_max if self._random.random() < rough.late_chance else seconds
        )

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
