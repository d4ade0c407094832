"""What processes that serve HTTP share: a socket, uvicorn on it, and a stop by a signal or by the end of input."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp

from sordini.cli.common.slow_peers import PeerBoundProtocol

STOP_S: Final = 2
"""For responses under way; live streams end with it."""
KEEP_ALIVE_S: Final = 30
HEADER_BYTES_MAX: Final = 32 * 1024
_BACKLOG: Final = 128


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens. Raises OSError."""
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
        0
    ]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(where)
        bound.listen(_BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound


def server_config(app: ASGIApp, certificate: str | None, key: str | None, **others: Any) -> uvicorn.Config:
    """How uvicorn serves an application; with HTTPS where there is a certificate. Raises OSError, SSLError."""
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        http=PeerBoundProtocol,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        **others,
    )
    config.load()  # Now, so that a certificate that cannot be read prevents the start.
    return config


def stop_with_input(stop: Callable[[], object]) -> None:
    """Call `stop`, in a thread, when standard input ends: the process at the other end has closed it, or has ended."""
    # A broker's process blocks them for all but one thread, and a child inherits that.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
    threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()


def _stop_at_end_of_input(stop: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    stop()


class ReadyServer(uvicorn.Server):
    """Calls `on_ready` when it accepts connections, and `on_stop` first of all when it is to stop."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None], on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's.
        """Stop in order, at once when it is asked a second time. Unlike its base, it ends with status 0."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_stop()
        await super().shutdown(sockets)
