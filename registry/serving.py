"""A registry that serves: the journal that reads and writes the topic, and HTTP on a socket that listens already.

The topic is read to its end first, then the socket is served. When the journal fails for good, the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from sordini.admin.cluster_client import ClusterClient
from sordini.cli.common.web_server import ReadyServer, server_config
from sordini.client.addresses import Address
from sordini.client.authentication import SaslCredentials
from sordini.client.cluster_core import Access, not_opened
from sordini.client.errors import ClientError
from sordini.client.security import ClientSecurity
from sordini.client.sockets import connect_with
from sordini.registry.http.application import Logins, RegistryApplication, Served
from sordini.registry.http.forwarding import Forwarder
from sordini.registry.http.logins import ClusterLogins, NoLogins
from sordini.registry.http.measures import Measures
from sordini.registry.journal.journal import TopicJournal
from sordini.registry.journal.membership import Identity
from sordini.registry.journal.settings import JournalSettings
from sordini.registry.judging.judges import Judge
from sordini.registry.ports import JournalFailed
from sordini.registry.registry import Registry
from sordini.registry.settings import RegistrySettings
from sordini.registry.state.registry_state import RegistryState
from sordini.replication.ports import Clock, Logger
from sordini.system.named_tuple import NamedTuple

CLIENT_ID: Final = "sordini-registry"
CONNECTIONS_MAX: Final = 1024
ANSWER_S: Final = 10.0
ELECTED_S: Final = 15.0
"""After so long without an election it serves what it has read."""
STEP_S: Final = 0.005


class RegistryDeps(NamedTuple):
    """What a registry is given."""

    bootstrap: tuple[Address, ...]
    security: ClientSecurity
    judge: Judge
    forwarder: Forwarder
    clock: Clock
    log: Logger


class RegistryServer:
    """One registry; `run` is called once."""

    def __init__(
        self, settings: RegistrySettings, identity: Identity, bound: socket.socket, deps: RegistryDeps
    ) -> None:
        """`bound` listens, at the address of `identity`; it is closed by its owner."""
        self.identity = identity
        self._settings = settings
        self._bound = bound
        self._deps = deps
        self._state = RegistryState()
        self._access = Access(
            deps.bootstrap, CLIENT_ID, deps.security.sasl, explain=partial(not_opened, protocol=deps.security.protocol)
        )
        self._connect = partial(connect_with, deps.security.tls)
        journal_settings = JournalSettings(
            identity, topic=settings.topic, group=settings.group, session_timeout_ms=settings.session_timeout_ms
        )
        self._journal = TopicJournal(
            self._access,
            self._connect,
            journal_settings,
            self._state.apply,
            deps.clock.now_ms,
            deps.log,
        )
        self._registry = Registry(self._state, self._journal, deps.judge, is_read_only=settings.is_read_only)
        self._server: ReadyServer | None = None
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Let `run` return."""
        self._stop.set()
        if self._server is not None:
            self._server.should_exit = True

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until it is stopped. Raises JournalFailed, SSLError and OSError for a certificate."""
        await self._deps.judge.prepare()
        journal = asyncio.create_task(self._journal.run())
        logins = self._logins()
        try:
            if await self._started(journal):
                server = self._server = self._made_server(await self._served(logins), on_ready)
                journal.add_done_callback(lambda _task: self.stop())
                server.should_exit = self._stop.is_set()
                await server.serve(sockets=[self._bound])
            if journal.done():
                await journal
        finally:
            await self._registry.close()
            journal.cancel()
            with contextlib.suppress(asyncio.CancelledError, JournalFailed):
                await journal
            logins.close()

    async def _started(self, journal: asyncio.Task[None]) -> bool:
        """Wait until the topic is read and a registry is elected to write; False: it is to stop first.

        Raises JournalFailed.
        """
        starting = asyncio.create_task(self._starting())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait([journal, starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                await starting
            return starting.done()
        finally:
            for task in (starting, stopping):
                task.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)

    async def _starting(self) -> None:
        await self._journal.wait_until_current()
        if self._settings.is_read_only:  # It serves what is there, whether or not another one writes.
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ELECTED_S):
                while not self._is_elected():  # noqa: ASYNC110 - the port has no event for it.
                    await asyncio.sleep(STEP_S)

    def _made_server(self, served: Served, on_ready: Callable[[], None]) -> ReadyServer:
        settings = self._settings
        config = server_config(
            RegistryApplication(served),
            settings.certificate,
            settings.key,
            limit_concurrency=CONNECTIONS_MAX,
            lifespan="off",
        )
        return ReadyServer(config, on_ready, self._stop.set)

    async def _served(self, logins: Logins) -> Served:
        deps = self._deps
        measures = Measures(self._registry, deps.judge)
        cluster_id = await self._cluster_id()
        return Served(self._registry, logins, deps.forwarder, measures, deps.log, cluster_id, self._is_elected)

    async def _cluster_id(self) -> str:
        async with ClusterClient(self._access._replace(answer_s=ANSWER_S), self._connect) as cluster:
            try:
                return (await cluster.metadata([])).cluster_id or ""
            except ClientError as error:
                raise JournalFailed(str(error)) from None

    def _is_elected(self) -> bool:
        return self._journal.is_writer or self._journal.writer is not None

    def _logins(self) -> Logins:
        mechanism = self._settings.sasl_mechanism
        if mechanism is None:
            return NoLogins()
        return ClusterLogins(self._opened_as, mechanism, lambda: self._deps.clock.monotonic_ms() / 1000)

    def _opened_as(self, credentials: SaslCredentials) -> ClusterClient:
        return ClusterClient(self._access._replace(login=lambda: credentials, answer_s=ANSWER_S), self._connect)


def addresses_text(bootstrap: Sequence[Address]) -> str:
    """As `--bootstrap` has it."""
    return ",".join(map(str, bootstrap))
