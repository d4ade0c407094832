"""One incarnation of a client of the cluster: its connections, the brokers it has found, and requests until answered.

A request without an answer is sent again on a newer connection. Sometimes it is given up as soon as it is sent, and
arrives seconds later, maybe in the producer's next transaction: the case that docs/delayed-requests.md is about.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, NamedTuple, Protocol

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.testing.simulation.simulated_network import Address
from tests.sim.client import ClientNetwork, Connection
from tests.sim.transactions.history import TransactionHistory
from tests.sim.transactions.requests import error_of

TIMEOUT_S = 1.2
BACKOFF_S = (0.02, 0.12)
LATE_S_MAX = 3.0
FIND_VERSION = 3

LATER = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The same request is sent again, after another look at who serves it."""


class TimeIsOver(Exception):
    """The request found no answer before the end of the run."""


class Finder(Protocol):
    """Finds the broker that serves a request; raises OSError or TimeoutError when this attempt did not find it."""

    async def find(self) -> Address: ...


class Request(NamedTuple):
    """A request in its version."""

    api_key: ApiKey
    version: int
    message: Any


class Coordinator:
    """The coordinator of one group (0) or transactional id (1), asked of any broker."""

    def __init__(self, network: ClientNetwork, addresses: list[Address], key: str, key_type: int, name: str) -> None:
        self._network = network
        self._addresses = addresses
        self._request = FindCoordinatorRequest(key=key, key_type=key_type)
        self._name = name
        self._random = random.Random(f"coordinator {name} {key}")

    async def find(self) -> Address:
        async with asyncio.timeout(TIMEOUT_S):
            connection = await Connection.open(self._network, self._random.choice(self._addresses), self._name)
            try:
                answer = await connection.request(ApiKey.FIND_COORDINATOR, FIND_VERSION, self._request)
            finally:
                connection.close()
        if answer.error_code:
            raise ConnectionError(ErrorCode(answer.error_code).name)
        address: Address = (answer.host, answer.port)
        return address


class Client:
    """One process of a client; `close` leaves its requests on their way."""

    def __init__(
        self,
        name: str,
        network: ClientNetwork,
        history: TransactionHistory,
        source: random.Random,
        give_up_chance: float,
    ) -> None:
        self.give_up_at = float("inf")
        self._name = name
        self._network = network
        self._loop = network.loop
        self._history = history
        self._random = source
        self._give_up_chance = give_up_chance
        self._connections: dict[Address, Connection] = {}
        self._known: dict[Finder, Address] = {}

    async def ask(self, finder: Finder, request: Request) -> Any:
        """Send until there is an answer that is none of LATER. Raises TimeIsOver."""
        while self._loop.time() < self.give_up_at:
            try:
                answer = await self._try(finder, request)
            except (OSError, TimeoutError) as error:
                self._network.trace.note(self._name, "failed", request.api_key.name, type(error).__name__)
                answer = None
            if answer is not None:
                code = error_of(answer)
                if code not in LATER:
                    return answer
                self._network.trace.note(self._name, "again", request.api_key.name, code.name)
                if code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._known.pop(finder, None)
            await asyncio.sleep(self._random.uniform(*BACKOFF_S))
        raise TimeIsOver(request.api_key.name)

    async def send_and_give_up(self, finder: Finder, request: Request) -> None:
        """Send once, and do not wait for an answer, nor send again."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                address = await finder.find()
                connection = await self._connect(address)
                connection.request(*request)
                self._give_up(address, connection)
        except (OSError, TimeoutError):
            self._network.trace.note(self._name, "failed", request.api_key.name)

    async def _try(self, finder: Finder, request: Request) -> Any:
        """One attempt; None for a request that is given up in flight."""
        address = self._known.get(finder)
        if address is None:
            address = self._known[finder] = await finder.find()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                connection = await self._connect(address)
                future = connection.request(*request)
                if self._random.random() < self._give_up_chance:
                    self._give_up(address, connection)
                    return None
                return await future
        except (OSError, TimeoutError):
            self._known.pop(finder, None)
            self._drop(address)
            raise

    def _give_up(self, address: Address, connection: Connection) -> None:
        """The request arrives some time later, with the end of its connection behind it."""
        self._history.abandoned += 1
        self._network.trace.note(self._name, "gives up", *address)
        seconds = self._random.uniform(0.0, LATE_S_MAX)
        connection.socket.wire.outward.stall(seconds)
        self._history.last_late = max(self._history.last_late, self._loop.time() + seconds)
        self._drop(address)

    async def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or not connection.is_open:
            connection = self._connections[address] = await Connection.open(self._network, address, self._name)
        return connection

    def _drop(self, address: Address) -> None:
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    def close(self) -> None:
        for address in list(self._connections):
            self._drop(address)
