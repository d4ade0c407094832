"""One cluster as a mirror reaches it: connections to its brokers, and which of them a request goes to.

    async with Cluster(access) as cluster:
        found = await cluster.metadata(None)
        link = await cluster.leader(TopicPartition("orders", 0))
        response = await link.ask(request)

A connection is opened when it is needed, one for each broker and purpose. Nothing is retried here but what `settled`
repeats: a coordinator that loads or moves.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sordini.client import retries, routing
from sordini.client.addresses import Address
from sordini.client.authentication import authenticate
from sordini.client.connection import API_OF, ClientConnection
from sordini.client.errors import AuthenticationFailed, ClientError, UnsupportedVersion
from sordini.client.pipelined_connection import PipelinedConnection
from sordini.client.versions import ServedVersions, negotiate
from sordini.mirror.errors import MirrorError, Refused, Unreachable, Unsupported, check
from sordini.mirror.plan import Access
from sordini.protocol.api import APIS, ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.types import TopicPartition

T = TypeVar("T")

CLIENT_ID: Final = "sordini-mirror"
RESPONSE_BYTES_MAX: Final = 1024 * 1024 * 1024
CONNECT_S_MAX: Final = 10.0
ANSWER_S_MAX: Final = 40.0
"""For any response; requests name shorter times to the broker."""
SETTLE_S_MAX: Final = 60.0
_NONCE_BYTES: Final = 24
_PAUSE_MS_FIRST: Final = 5
_PAUSE_MS_MAX: Final = 500
SETTLING: Final = retries.RETRIABLE | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_CONTROLLER}
"""What passes when the same request is sent again, to a broker that is looked up again."""


class Link:
    """An open connection to one broker, whose versions are negotiated."""

    def __init__(self, address: Address, connection: PipelinedConnection, versions: ServedVersions) -> None:
        self.address = address
        self._connection = connection
        self._versions = versions

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    def serves(self, key: ApiKey, version: int = 0) -> bool:
        """Whether the broker serves this version of a request or a later one that we know."""
        try:
            self._versions.highest(APIS[key], at_least=version)
        except UnsupportedVersion:
            return False
        return True

    def send(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> asyncio.Future[Any]:
        """Send a request in the newest version within the bounds; its response, which may take any time.

        Raises Unsupported and Unreachable; the future fails with a ClientError.
        """
        try:
            version = self._versions.highest(API_OF[type(request)], at_least=at_least, at_most=at_most)
            return self._connection.send(request, version)
        except UnsupportedVersion as error:
            raise Unsupported(f"{self.address}: {error}") from None
        except ClientError as error:
            raise Unreachable(f"{self.address}: {error}") from None

    async def ask(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> Any:
        """The response to a request. Raises Unsupported and Unreachable."""
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                return await self.send(request, at_least=at_least, at_most=at_most)
        except ClientError as error:
            raise Unreachable(f"{self.address}: {error}") from None
        except TimeoutError:
            self.close()
            raise Unreachable(f"{self.address}: no response within {ANSWER_S_MAX:g} s") from None

    def close(self) -> None:
        self._connection.close()


class Cluster:
    """The connections to one cluster, and its brokers as the last metadata has them."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._links: dict[tuple[Address, str], Link] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}
        self._brokers: dict[int, Address] = {}
        self._leaders: dict[TopicPartition, int] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def any_broker(self) -> Link:
        """Any broker. Raises Unreachable when none answers."""
        for link in self._links.values():
            if link.is_open:
                return link
        problems = []
        for address in dict.fromkeys((*self._brokers.values(), *self.access.bootstrap)):
            try:
                return await self.link(address)
            except Unreachable as error:
                problems.append(str(error))
        raise Unreachable(f"no broker of cluster '{self.access.alias}' answers: {'; '.join(problems)}")

    async def metadata(self, topics: Iterable[str] | None) -> MetadataResponse:
        """The cluster and some topics, or all (None); leaders are those of this response from now on."""
        link = await self.any_broker()
        response: MetadataResponse = await link.ask(routing.metadata_request(topics))
        self._brokers = routing.broker_addresses(response)
        for topic in response.topics:
            for partition, leader in routing.partition_leaders(topic).items():
                self._leaders[TopicPartition(topic.name or "", partition)] = leader.broker_id
        return response

    async def broker_ids(self) -> list[int]:
        """The live brokers."""
        await self.metadata([])
        return sorted(self._brokers)

    def leader_of(self, partition: TopicPartition) -> int:
        """The id of a partition's leader as of the last metadata; -1 while there is none."""
        return self._leaders.get(partition, -1)

    async def broker(self, broker_id: int, purpose: str = "") -> Link:
        """The connection to a broker for a purpose; a response that is waited for holds up others of its purpose."""
        if broker_id not in self._brokers:
            raise Unreachable(f"cluster '{self.access.alias}' has no broker {broker_id} at present")
        return await self.link(self._brokers[broker_id], purpose)

    async def controller(self) -> Link:
        """The active controller; in a cluster that hides it, any broker, which passes requests on."""
        found = await self.metadata([])
        return (
            await self.broker(found.controller_id) if found.controller_id in self._brokers else await self.any_broker()
        )

    async def coordinator(self, group: str) -> Link:
        """The coordinator of a consumer group."""
        return await self._coordinator(f"the coordinator of group '{group}'", routing.coordinator_request(group))

    async def transaction_coordinator(self, transactional_id: str) -> Link:
        """The coordinator of a transactional id."""
        request = routing.transaction_coordinator_request(transactional_id)
        return await self._coordinator(f"the coordinator of transactional id '{transactional_id}'", request)

    async def _coordinator(self, subject: str, request: Any) -> Link:
        link = await self.any_broker()
        found = routing.coordinator_in(await link.ask(request))
        check(f"{subject} in cluster '{self.access.alias}'", found.error_code, found.error_message)
        return await self.link(found.address)

    async def settled(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of an attempt that is repeated while the cluster answers with what passes. Raises MirrorError."""
        backoff = retries.Backoff(_PAUSE_MS_FIRST, _PAUSE_MS_MAX)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLE_S_MAX
        while True:
            try:
                return await attempt()
            except Refused as refused:
                if refused.code not in SETTLING or loop.time() > deadline:
                    raise
            await asyncio.sleep(backoff.next_ms() / 1000)

    async def link(self, address: Address, purpose: str = "") -> Link:
        """The connection to an address for a purpose. Raises Unreachable, and MirrorError for a refused login."""
        key = address, purpose
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._links.get(key)
            if found is None or not found.is_open:
                found = self._links[key] = await self._open(address)
            return found

    async def _open(self, address: Address) -> Link:
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                socket = await self.access.connect(address)
                connection = PipelinedConnection(socket, ClientConnection(CLIENT_ID, RESPONSE_BYTES_MAX))
                try:
                    versions = await connection.run(negotiate())
                    await self._log_in(connection, versions, address)
                except BaseException:  # Raised again - the socket is given back.
                    connection.close()
                    raise
        except TimeoutError:
            raise Unreachable(f"{address}: no answer within {CONNECT_S_MAX:g} s") from None
        except AuthenticationFailed as error:
            raise MirrorError(f"cluster '{self.access.alias}': {error}") from None
        except ClientError as error:
            raise Unreachable(f"{address} accepts connections and does not answer as a broker does: {error}") from None
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Unreachable(f"{address}: {reason.lower()}") from None
        return Link(address, connection, versions)

    async def _log_in(self, connection: PipelinedConnection, versions: ServedVersions, address: Address) -> None:
        if self.access.credentials is None:
            return
        try:
            credentials = self.access.credentials()
        except (OSError, ValueError) as error:
            raise AuthenticationFailed(f"no token to log in with: {error}") from None
        await connection.run(authenticate(credentials, versions, str(address), os.urandom(_NONCE_BYTES).hex()))
