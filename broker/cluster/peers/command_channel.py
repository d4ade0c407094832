"""The controller's channel to brokers: a queue for each, in order, one command in flight.

Commands for this broker are handed to its receiver; those for other brokers go over connections that only the channel
uses. A command whose connection breaks is sent again, after a pause, until the broker answers or is no longer
registered. Nothing but the end of its registration says that a broker will not answer: it registers before it listens,
and one that hangs may recover. A response with an error is an answer.

A queue grows while its broker does not answer, for as long as the broker's session with the coordination store lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from sordini.broker.cluster.peers.broker_client import Addresses
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Broker, Command, CommandAnswer
from sordini.replication.ports import BrokerLink, BrokerLinks, Logger, Spawn, Task, Unreachable

RETRY_PAUSE_MS: Final = 100
"""As Apache Kafka's controller."""
ANSWER_TIMEOUT_MS: Final = 30_000
"""`controller.socket.timeout.ms`."""

Receive = Callable[[Command], Awaitable[CommandAnswer]]
Dial = Callable[[Addresses], BrokerLinks]
"""Makes clients of the brokers whose addresses the caller knows: `BrokerClients` with its network."""
Queue = asyncio.Queue[tuple[Command, Callable[[CommandAnswer], None]]]


class CommandWire(Protocol):
    """Commands and answers as messages, in the versions of one `inter.broker.protocol.version`."""

    def request(self, command: Command) -> tuple[Any, int]:
        """The request message, and its version."""

    def answer(self, command: Command, response: Any) -> CommandAnswer:
        """The answer in the response to this command."""


class CommandChannel:
    """Delivers commands to this broker and to others."""

    def __init__(
        self,
        broker_id: BrokerId,
        receive: Receive,
        wire: CommandWire,
        dial: Dial,
        listener: str,
        spawn: Spawn,
        log: Logger,
    ) -> None:
        """`listener` is the one that brokers use among themselves (`inter.broker.listener.name`)."""
        self._broker_id = broker_id
        self._receive = receive
        self._wire = wire
        self._listener = listener
        self._spawn = spawn
        self._log = log
        self._links = dial(self._address)
        self._brokers: dict[BrokerId, Broker] = {}
        self._queues: dict[BrokerId, Queue] = {}
        self._workers: dict[BrokerId, Task] = {}
        self.unreached: dict[BrokerId, str] = {}
        """Registered brokers that a command does not reach at present, and why."""

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """Drop the queues of brokers whose registration ended, and create one for each new registration."""
        for number, known in list(self._brokers.items()):
            if number not in brokers or brokers[number].epoch != known.epoch:
                self._workers.pop(number).cancel()
                del self._queues[number]
                self.unreached.pop(number, None)
        self._brokers = dict(brokers)
        for number in brokers:
            if number not in self._queues:
                self._queues[number] = asyncio.Queue()
                self._workers[number] = self._spawn(self._deliver(number, self._queues[number]))

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[CommandAnswer], None]) -> None:
        """Queue a command for a registered broker; for another it is dropped, as the port says."""
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.put_nowait((command, answered))

    async def drained(self) -> None:
        """Wait until this broker has answered all commands sent to it so far; other brokers are not waited for."""
        queue = self._queues.get(self._broker_id)
        if queue is not None:
            await queue.join()

    def _address(self, broker_id: BrokerId) -> tuple[str, int] | None:
        broker = self._brokers.get(broker_id)
        for endpoint in () if broker is None else broker.endpoints:
            if endpoint.listener == self._listener:
                return endpoint.host, endpoint.port
        return None

    async def _deliver(self, broker_id: BrokerId, queue: Queue) -> None:
        # The client id is the controller's broker id, as Apache Kafka's.
        link = None if broker_id == self._broker_id else self._links.link(broker_id, str(self._broker_id))
        try:
            while True:
                command, answered = await queue.get()
                answered(await (self._receive(command) if link is None else self._send(broker_id, link, command)))
                queue.task_done()
        finally:
            if link is not None:
                link.close()

    async def _send(self, broker_id: BrokerId, link: BrokerLink, command: Command) -> CommandAnswer:
        request, version = self._wire.request(command)
        kind = type(command).__name__
        failures = 0
        while True:
            try:
                response = await link.ask(request, version, ANSWER_TIMEOUT_MS)
            except Unreachable as failure:
                if not failures:
                    self._log.warning("command not delivered", broker=broker_id, command=kind, reason=str(failure))
                failures += 1
                self.unreached[broker_id] = str(failure)
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                continue
            if failures:
                self.unreached.pop(broker_id, None)
                self._log.info("command delivered", broker=broker_id, command=kind, failures=failures)
            return self._wire.answer(command, response)
