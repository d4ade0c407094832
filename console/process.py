"""The console as a process: a socket, uvicorn on it, one line when it is ready, and a stop by SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Sequence
from typing import Any, Final

from sordini.broker.process.library_lines import take_over_libraries
from sordini.broker.process.log_writer import standard_error
from sordini.broker.process.logging import make_logger
from sordini.cli.common.terminal import echo
from sordini.cli.common.web_server import ReadyServer, bind, server_config, stop_with_input
from sordini.client.addresses import Address
from sordini.client.security import ClientSecurity
from sordini.console.application import make_application
from sordini.console.cluster_access import ClusterAccess
from sordini.console.settings import ConsoleSettings
from sordini.console.visit import Console

CONNECTIONS_MAX: Final = 256
TOKEN_BYTES: Final = 16
DONE, FAILED = 0, 1


def run_console(
    settings: ConsoleSettings,
    bootstrap: Sequence[Address],
    security: ClientSecurity,
    log_format: str,
    *,
    stops_with_input: bool,
) -> int:
    """Serve until it is stopped; returns the exit code."""
    log = make_logger("info", standard_error(), log_format)
    take_over_libraries(log)
    token = settings.token or os.urandom(TOKEN_BYTES).hex()
    access = ClusterAccess(bootstrap, security, settings.sasl_mechanism)
    console = Console(settings, access, log, token)
    try:
        bound = bind(settings.host, settings.port)
        server = _server(console, settings, bound)
    except (OSError, ssl.SSLError) as error:
        echo(f"sordini: the console cannot start: {error.strerror or error}", err=True)
        return FAILED
    if stops_with_input:

        def stop() -> None:
            server.should_exit = True

        stop_with_input(stop)
    with bound:
        asyncio.run(server.serve(sockets=[bound]))
    log.info("console stopped")
    return DONE


def _server(console: Console, settings: ConsoleSettings, bound: socket.socket) -> ReadyServer:
    # There is no log of requests: addresses hold names of groups, and once the token.
    config = server_config(
        make_application(console), settings.certificate, settings.key, limit_concurrency=CONNECTIONS_MAX
    )
    return ReadyServer(config, lambda: _report_ready(bound, console), console.stop)


def _report_ready(bound: socket.socket, console: Console) -> None:
    """The line that says where the console is."""
    words = "read-only" if console.settings.read_only else "changes are allowed"
    cluster = console.access.bootstrap
    sys.stdout.write(f"sordini console of {cluster} is ready ({words}): {_address(bound.getsockname(), console)}\n")
    sys.stdout.flush()


def _address(name: Any, console: Console) -> str:
    """What to open, with the token if it was made for this start."""
    settings = console.settings
    host = settings.host if settings.host not in ("0.0.0.0", "::") else (settings.names or ("localhost",))[0]  # noqa: S104
    shown_host = f"[{host}]" if ":" in host else host
    root = f"{'https' if settings.has_tls else 'http'}://{shown_host}:{name[1]}/"
    has_made_token = settings.sasl_mechanism is None and settings.token is None
    return f"{root}login?token={console.token}" if has_made_token else root
