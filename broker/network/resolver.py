"""Looking up host names beside the loop.

The system's resolver blocks, for half a minute when its servers are silent, and cannot be interrupted. Each look-up
has a thread of its own, which dies with the process: one of a pool would be held up at exit, and would hold up what
else the pool is for. Whoever asks for a name that is being looked up waits for the same answer, so there are never
more threads than names.
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


class Names:
    """The system's resolver."""

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, int], asyncio.Future[Found]] = {}

    async def look_up(self, host: str, port: int) -> Found:
        """The addresses to try, the one the system prefers first. Raises OSError (socket.gaierror)."""
        host = host.strip("[]")
        with contextlib.suppress(socket.gaierror):
            return _look_up(host, port, _NUMERIC)
        answer = self._under_way.get((host, port))
        if answer is None:
            answer = self._under_way[host, port] = self._start(host, port)
        # Whoever gives up waiting does not take the answer away from the others.
        return await asyncio.shield(answer)

    def _start(self, host: str, port: int) -> asyncio.Future[Found]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        # Nobody may be left to hear of a failure.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

        def tell(found: Found | OSError) -> None:
            self._under_way.pop((host, port), None)
            if answer.done():
                return
            if isinstance(found, OSError):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def ask() -> None:
            found: Found | OSError
            try:
                found = _look_up(host, port, 0)
            except OSError as error:
                found = error
            with contextlib.suppress(RuntimeError):  # The loop is closed by now.
                loop.call_soon_threadsafe(tell, found)

        threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
        return answer


def _look_up(host: str, port: int, flags: int) -> Found:
    try:
        rows: list[tuple[Any, ...]] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    except ValueError as error:  # A name that cannot be one: an empty label, one too long, a zero byte.
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from None
    return list(dict.fromkeys((family, address) for family, _, _, _, address in rows))
