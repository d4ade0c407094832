"""Resolves host names beside the loop.

The system's resolver blocks, for half a minute when its servers are silent, and cannot be interrupted. Each resolution
runs in a daemon thread: a thread of a pool would delay the exit, and the other work of the pool. Concurrent
resolutions of one name share a thread, so there are never more threads than names.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from typing import Any, Final

SocketAddress = tuple[str, int] | tuple[str, int, int, int]
Found = list[tuple[socket.AddressFamily, SocketAddress]]
_NUMERIC: Final = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class HostResolver:
    """The system's resolver."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], asyncio.Future[Found]] = {}

    async def resolve(self, host: str, port: int) -> Found:
        """The addresses of a host, the one the system prefers first. Raises OSError (socket.gaierror)."""
        host = host.strip("[]")
        with contextlib.suppress(socket.gaierror):
            return resolve_now(host, port, _NUMERIC)
        answer = self._pending.get((host, port))
        if answer is None:
            answer = self._pending[host, port] = self._start(host, port)
        # A cancelled caller must not cancel the others' resolution.
        return await asyncio.shield(answer)

    def _start(self, host: str, port: int) -> asyncio.Future[Found]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        # Every caller may have been cancelled: a failure is then ignored.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

        def finish(found: Found | OSError) -> None:
            self._pending.pop((host, port), None)
            if answer.done():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def run() -> None:
            found: Found | OSError
            try:
                found = resolve_now(host, port)
            except OSError as error:
                found = error
            with contextlib.suppress(RuntimeError):  # The loop is closed by now.
                loop.call_soon_threadsafe(finish, found)

        threading.Thread(target=run, name=f"resolve {host}", daemon=True).start()
        return answer


def resolve_now(host: str, port: int, flags: int = 0) -> Found:
    """The same in this thread, which waits. Raises OSError (socket.gaierror)."""
    try:
        rows: list[tuple[Any, ...]] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except ValueError as error:  # An invalid name: an empty label, one too long, a zero byte.
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from None
    return list(dict.fromkeys((family, address) for family, _, _, _, address in rows))
