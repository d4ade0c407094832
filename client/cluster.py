"""The asyncio shell of a client: links to the brokers of one cluster, and attempts that are repeated.

    async with Cluster(Access(bootstrap, "my-client"), connect) as cluster:
        link = await cluster.any_broker()              # connected, versions negotiated, logged in
        response = await link.ask(MetadataRequest())   # in the newest version both sides know
        result = await cluster.retry(attempt)

A link is opened when it is needed, one for each address and purpose; requests on it are pipelined. Nothing is repeated
here but by `retry`. How the parts fit together is in `cluster_core`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from sordini.client import routing
from sordini.client.addresses import Address
from sordini.client.cluster_core import (
    FIRST_RESPONSES_BYTES_MAX,
    Access,
    ClusterMap,
    Session,
    cannot_reach,
    no_broker,
    open_session,
)
from sordini.client.connection import API_OF, ClientConnection
from sordini.client.errors import ClientError, Disconnected, NotServed, Unreachable, check, too_late, with_text
from sordini.client.pipelined_connection import PipelinedConnection
from sordini.client.ports import Socket
from sordini.client.retries import Attempts, RetryRules
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.metadata import MetadataResponse
from sordini.protocol.served_apis import ALL_APIS

T = TypeVar("T")

Connect = Callable[[Address], Awaitable[Socket]]
"""Opens a connection, with TLS where the cluster has it. Raises OSError, and UnicodeError for no host name."""
NONCE_BYTES: Final = 24


class Link:
    """An open connection to one broker: versions are negotiated, and the client is logged in."""

    def __init__(
        self, address: Address, connection: PipelinedConnection, session: Session, answer_s: float | None
    ) -> None:
        self.address = address
        self._connection = connection
        self._versions = session.versions
        self._answer_s = answer_s

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    def version(self, key: ApiKey, *, at_least: int = 0, at_most: int | None = None) -> int:
        """The version in which a kind of request is sent here. Raises NotServed."""
        return self._versions.highest(ALL_APIS[key], at_least=at_least, at_most=at_most)

    def serves(self, key: ApiKey, version: int = 0) -> bool:
        """Whether the broker serves this version of a request or a later one that we know."""
        try:
            self.version(key, at_least=version)
        except NotServed:
            return False
        return True

    def send(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> asyncio.Future[Any]:
        """Send a request in the newest version within the bounds; its response, which may take any time.

        Raises NotServed and Disconnected; the future fails with a ClientError.
        """
        version = self._versions.highest(API_OF[type(request)], at_least=at_least, at_most=at_most)
        return self._connection.send(request, version)

    async def ask(self, request: Any, *, at_least: int = 0, at_most: int | None = None) -> Any:
        """The response to a request, sent as by `send`. Raises ClientError.

        A caller that is cancelled, and a response that takes too long, close the link: what still arrives would hold up
        the responses behind it.
        """
        try:
            async with asyncio.timeout(self._answer_s):
                return await self.send(request, at_least=at_least, at_most=at_most)
        except TimeoutError:
            self.close()
            raise too_late(str(self.address), self._answer_s or 0) from None
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        """Close without waiting; requests in flight fail."""
        self._connection.close()


async def open_link(address: Address, access: Access, connect: Connect) -> Link:
    """Connect, negotiate and log in. Raises Unreachable, NotServed and Unauthorized."""
    try:
        async with asyncio.timeout(access.connect_s):
            socket = await connect(address)
    except (OSError, UnicodeError) as error:
        raise cannot_reach(address, error, access.connect_s) from None
    peer = str(address)
    protocol = ClientConnection(access.client_id, FIRST_RESPONSES_BYTES_MAX, peer)
    connection = PipelinedConnection(socket, protocol)
    try:
        async with asyncio.timeout(access.connect_s):
            session = await connection.run(open_session(peer, access.login, os.urandom(NONCE_BYTES).hex()))
    except ClientError as error:
        connection.close()
        raise access.explain(address, error) from None
    except TimeoutError:
        connection.close()
        raise access.explain(address, too_late(peer, access.connect_s)) from None
    except BaseException:  # Raised again - cancelled: the socket is given back.
        connection.close()
        raise
    protocol.response_bytes_max = access.response_bytes_max
    return Link(address, connection, session, access.answer_s)


class Cluster:
    """The links to one cluster, and its brokers as the latest metadata has them."""

    def __init__(self, access: Access, connect: Connect, rules: RetryRules = RetryRules()) -> None:  # noqa: B008
        self.cluster_map = ClusterMap(access.bootstrap)
        self.problem: str | None = None
        """The last error after which `retry` made another attempt."""
        self._access = access
        self._connect = connect
        self._rules = rules
        self._links: dict[tuple[Address, str], Link] = {}
        self._opening: dict[tuple[Address, str], asyncio.Lock] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all links; the next request opens new ones."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    async def retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of the first attempt that succeeds. Raises an error that is not temporary, or the last one.

        After a broken connection all are closed: others are broken, too, and the next metadata names the live brokers.
        """
        loop = asyncio.get_running_loop()
        attempts = Attempts(self._rules, loop.time())
        while True:
            try:
                return await attempt()
            except ClientError as error:
                if not self._rules.is_temporary(error) or (pause_s := attempts.pause_s(loop.time())) is None:
                    raise
                self.problem = str(error)
                if isinstance(error, Unreachable):
                    self.close()
                    self.cluster_map.forget()
            await asyncio.sleep(pause_s)

    async def any_broker(self) -> Link:
        """Any broker: an open link, else a broker that is known, else a bootstrap address. Raises Unreachable."""
        for link in self._links.values():
            if link.is_open:
                return link
        problems = []
        for address in self.cluster_map.candidates():
            try:
                return await self.link(address)
            except Unreachable as error:
                problems.append(error)
        failure = no_broker(problems)
        raise with_text(failure, self.no_broker_text(str(failure)))

    def no_broker_text(self, problems: str) -> str:
        """What to say when no broker answers; `problems` has the reason for each address."""
        name = self._access.name
        return f"no broker of cluster '{name}' answers: {problems}" if name else problems

    async def metadata(
        self, topics: Iterable[str] | None, link: Link | None = None, *, creates: bool = False
    ) -> MetadataResponse:
        """The cluster and some topics (None: all) as one broker knows them, or any; `creates` lets it create them."""
        link = await self.any_broker() if link is None else link
        response: MetadataResponse = await link.ask(routing.metadata_request(topics, creates=creates))
        self.cluster_map.learn(response)
        return response

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
        where = f" in cluster '{self._access.name}'" if self._access.name else ""
        check(f"{subject}{where}", found.error_code, found.error_message)
        return await self.known(found.address)

    async def known(self, address: Address, purpose: str = "") -> Link:
        """A broker that the cluster names: when it cannot be reached, the cluster may soon name another.

        Raises Disconnected then.
        """
        try:
            return await self.link(address, purpose)
        except Unreachable as error:
            raise Disconnected(str(error)) from None

    async def link(self, address: Address, purpose: str = "") -> Link:
        """The link to an address for a purpose; a response that is waited for holds up others of its purpose.

        Raises Unreachable, NotServed and Unauthorized.
        """
        key = address, purpose
        async with self._opening.setdefault(key, asyncio.Lock()):
            found = self._links.get(key)
            if found is None or not found.is_open:
                found = self._links[key] = await open_link(address, self._access, self._connect)
            return found
