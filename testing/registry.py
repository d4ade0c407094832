"""The schema registry of a test: `make_kafka(registry=True)`, whose address is `kafka.registry.url`.

It is on a loop in a thread of this process, as a whole one, and its topic is `_schemas` of the test's brokers. It
reaches them by the listener that no fault touches, so rules are met by the requests of the test's own clients alone.
Every client may do everything there; schemas are parsed in the thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import socket
import threading
from collections.abc import Sequence
from typing import Final

from sordini.broker.process.logging import make_logger
from sordini.cli.common.web_server import bind
from sordini.client.addresses import Address
from sordini.client.security import PLAINTEXT
from sordini.registry.http.forwarding import Forwarder
from sordini.registry.journal.membership import Identity
from sordini.registry.judging.inline import JudgeHere
from sordini.registry.serving import RegistryDeps, RegistryServer
from sordini.registry.settings import RegistrySettings
from sordini.system.clock import SystemClock
from sordini.testing.brokers.site import SiteFailed

HOST: Final = "127.0.0.1"
START_S: Final = 30.0
SESSION_MS: Final = 120_000
"""No other registry waits to be elected, and on a busy machine this process may have no processor for seconds."""
STOP_S: Final = 10.0


class KitRegistry:
    """One registry beside the brokers of a test."""

    def __init__(self) -> None:
        self._bound: socket.socket | None = None
        self._brokers: tuple[Address, ...] = ()
        self._identity = Identity("http", HOST, 0)
        self._loop = asyncio.new_event_loop()
        self._started: concurrent.futures.Future[RegistryServer] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run_loop, name="sordini-registry", daemon=True)

    @property
    def url(self) -> str:
        """What clients take as `schema.registry.url`."""
        return self._identity.url

    def start(self, brokers: Sequence[tuple[str, int]]) -> None:
        """Start beside brokers, of which these are the addresses for the kit, and wait until it serves.

        Raises SiteFailed.
        """
        self._bound = bind(HOST, 0)
        self._identity = Identity("http", HOST, self._bound.getsockname()[1])
        self._brokers = tuple(Address(host, port) for host, port in brokers)
        self._thread.start()
        try:
            self._started.result(START_S)
        except Exception as error:  # noqa: BLE001 - whatever ended the thread is why there is no registry.
            self.close()
            raise SiteFailed(f"the registry did not start: {type(error).__name__}: {error}") from None

    def close(self) -> None:
        """End it. May be called again."""
        if self._thread.is_alive():
            if self._started.done() and self._started.exception() is None:
                self._loop.call_soon_threadsafe(self._started.result().stop)
            self._thread.join(STOP_S)
        if self._bound is not None:
            self._bound.close()

    def _run_loop(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - for the thread that waits, or that closes.
            if not self._started.done():
                self._started.set_exception(error)

    async def _serve(self) -> None:
        assert self._bound is not None
        deps = RegistryDeps(
            self._brokers, PLAINTEXT, JudgeHere(), Forwarder(None), SystemClock(), make_logger("error", None)
        )
        server = RegistryServer(
            RegistrySettings(host=HOST, session_timeout_ms=SESSION_MS), self._identity, self._bound, deps
        )
        await server.run(lambda: self._started.set_result(server))
