"""The controller's channel to brokers of its own process: a queue per broker and nothing on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from sordini.protocol.types import BrokerId
from sordini.replication.controller.cluster import Answer, Broker, Command

Receive = Callable[[Command], Awaitable[Answer]]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
Queue = asyncio.Queue[tuple[Command, Callable[[Answer], None]]]


class LocalChannel:
    """Delivers commands in order, one in flight per broker."""

    def __init__(self, receivers: Mapping[BrokerId, Receive], spawn: Spawn) -> None:
        self._receivers = receivers
        self._spawn = spawn
        self._epochs: dict[BrokerId, int] = {}
        self._queues: dict[BrokerId, Queue] = {}
        self._workers: dict[BrokerId, asyncio.Task[None]] = {}

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """Drop the queues of brokers that left or came again; begin one for each that is new."""
        alive = {number: broker.epoch for number, broker in brokers.items() if number in self._receivers}
        for number in [known for known, epoch in self._epochs.items() if alive.get(known) != epoch]:
            self._workers.pop(number).cancel()
            del self._queues[number], self._epochs[number]
        for number, epoch in alive.items():
            if number not in self._queues:
                queue: Queue = asyncio.Queue()
                self._epochs[number] = epoch
                self._queues[number] = queue
                self._workers[number] = self._spawn(self._deliver(self._receivers[number], queue))

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[Answer], None]) -> None:
        """Queue a command for a live broker; for one that left it is dropped, as the port says."""
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.put_nowait((command, answered))

    async def drained(self) -> None:
        """Wait until everything sent so far has been answered."""
        await asyncio.gather(*(queue.join() for queue in self._queues.values()))

    @staticmethod
    async def _deliver(receive: Receive, queue: Queue) -> None:
        while True:
            command, answered = await queue.get()
            answered(await receive(command))
            queue.task_done()
