"""The controller's channel to brokers: a queue for each, in order, one command in flight.

Commands for the broker of this very process are handed to its receiver; those for others go over a connection that
is the channel's own. A command whose connection breaks is sent again, after a pause, until the broker answers or
leaves the set of brokers: a broker registers before it listens, and one that hangs may come back, so nothing but the
end of its registration says that it will not answer. An answer with an error is an answer.

A queue is as long as what the controller decides while its broker does not answer, which the broker's session with
the coordination store bounds in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from sordini.broker.peers.broker_client import Addresses
from sordini.protocol.types import BrokerId
from sordini.replication.cluster_model import Answer, Broker, Command
from sordini.replication.ports import BrokerLink, Links, Log, Unreachable

RETRY_PAUSE_MS: Final = 100
"""As Apache Kafka's controller."""
ANSWER_TIMEOUT_MS: Final = 30_000
"""`controller.socket.timeout.ms`."""

Receive = Callable[[Command], Awaitable[Answer]]
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]
Dial = Callable[[Addresses], Links]
"""Makes links to the brokers that the caller can say an address of: `BrokerClients` with its network."""
Queue = asyncio.Queue[tuple[Command, Callable[[Answer], None]]]


class CommandWire(Protocol):
    """How commands and answers look on the wire, in the versions of one protocol setting."""

    def request(self, command: Command) -> tuple[Any, int]:
        """The request message, and the version to send it in."""

    def answer(self, command: Command, response: Any) -> Answer:
        """What the response to this command says."""


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
        log: Log,
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
        self._workers: dict[BrokerId, asyncio.Task[None]] = {}

    def set_brokers(self, brokers: Mapping[BrokerId, Broker]) -> None:
        """Drop the queues of brokers that left or came again; begin one for each that is new."""
        for number, known in list(self._brokers.items()):
            if number not in brokers or brokers[number].epoch != known.epoch:
                self._workers.pop(number).cancel()
                del self._queues[number]
        self._brokers = dict(brokers)
        for number in brokers:
            if number not in self._queues:
                self._queues[number] = asyncio.Queue()
                self._workers[number] = self._spawn(self._deliver(number, self._queues[number]))

    def send(self, broker_id: BrokerId, command: Command, answered: Callable[[Answer], None]) -> None:
        """Queue a command for a live broker; for one that left it is dropped, as the port says."""
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.put_nowait((command, answered))

    async def drained(self) -> None:
        """Wait until this broker has answered everything sent to it so far; the others are not waited for."""
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

    async def _send(self, broker_id: BrokerId, link: BrokerLink, command: Command) -> Answer:
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
                await asyncio.sleep(RETRY_PAUSE_MS / 1000)
                continue
            if failures:
                self._log.info("command delivered", broker=broker_id, command=kind, failures=failures)
            return self._wire.answer(command, response)
