"""The registry as a process: one line when it is ready, and a stop by SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import sys
from collections.abc import Sequence
from typing import Final

from sordini.broker.process.library_lines import take_over_libraries
from sordini.broker.process.log_writer import standard_error
from sordini.broker.process.logging import make_logger
from sordini.cli.common.terminal import echo
from sordini.cli.common.web_server import bind, stop_with_input
from sordini.client.addresses import Address
from sordini.client.security import ClientSecurity
from sordini.registry.http.forwarding import Forwarder
from sordini.registry.journal.membership import Identity
from sordini.registry.judging.judges import JudgingChildren
from sordini.registry.ports import JournalFailed
from sordini.registry.serving import RegistryDeps, RegistryServer, addresses_text
from sordini.registry.settings import RegistrySettings, advertised_host
from sordini.system.clock import SystemClock

DONE: Final = 0
FAILED: Final = 1


def run_registry(
    settings: RegistrySettings,
    bootstrap: Sequence[Address],
    security: ClientSecurity,
    log_format: str,
    *,
    stops_with_input: bool,
) -> int:
    """Serve until it is stopped; returns the exit code."""
    log = make_logger("info", standard_error(), log_format)
    take_over_libraries(log)
    try:
        tls = None if settings.ca is None else ssl.create_default_context(cafile=settings.ca)
        bound = bind(settings.host, settings.port)
    except (OSError, ssl.SSLError) as error:
        echo(f"sordini: the registry cannot start: {error.strerror or error}", err=True)
        return FAILED

    def ready() -> None:
        words = "read-only" if settings.is_read_only else "changes are allowed"
        sys.stdout.write(f"sordini registry of {addresses_text(bootstrap)} is ready ({words}): {identity.url}\n")
        sys.stdout.flush()

    async def serve() -> None:
        deps = RegistryDeps(tuple(bootstrap), security, JudgingChildren(), Forwarder(tls), SystemClock(), log)
        server, loop = RegistryServer(settings, identity, bound, deps), asyncio.get_running_loop()
        # Until uvicorn has handlers of its own.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        if stops_with_input:
            stop_with_input(lambda: loop.call_soon_threadsafe(server.stop))
        await server.run(ready)

    with bound:
        host = advertised_host(settings, socket.gethostname())
        identity = Identity(settings.scheme, host, bound.getsockname()[1], is_eligible=not settings.is_read_only)
        try:
            asyncio.run(serve())
        except (JournalFailed, OSError) as error:
            echo(f"sordini: the registry failed: {error}", err=True)
            return FAILED
    log.info("registry stopped")
    return DONE
