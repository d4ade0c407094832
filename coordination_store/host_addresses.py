"""Addresses of the ZooKeepers, resolved side by side, so that no host name delays the connection to another server.

kazoo resolves one name after the other before it connects to any server. The name of a server that is gone may take the
resolver 10 s (seen in containers without a resolver of the outside world): every broker's session ended, although the
other servers had a quorum. Here each name has a thread that waits for the resolver. A name without an answer in time
has the addresses of its last one, behind those that were just found.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

from sordini.system.named_tuple import NamedTuple
from sordini.system.resolver import Found, resolve_now

RESOLVE_S_MAX = 1.0
"""How long the resolver is waited for, in seconds; a session lasts 6 or more."""


class ServerAddress(NamedTuple):
    """Where a server may be, in kazoo's form."""

    host: str
    """As configured."""
    address: str
    port: int


class HostAddresses:
    """Those of one client, whose connection's thread alone calls it."""

    def __init__(self, resolve: Callable[[str, int], Found] = resolve_now) -> None:
        """`resolve` blocks, and raises OSError."""
        self._resolve = resolve
        self._pending: dict[tuple[str, int], Future[list[ServerAddress]]] = {}
        self._known: dict[tuple[str, int], list[ServerAddress]] = {}

    def resolved(self, hosts: Sequence[tuple[str, int]], seconds_max: float = RESOLVE_S_MAX) -> list[ServerAddress]:
        """The addresses of all hosts, in random order; those of earlier answers come last."""
        pending = {host: self._started(host) for host in hosts}
        wait(pending.values(), seconds_max)
        found: list[ServerAddress] = []
        earlier: list[ServerAddress] = []
        for host, answer in pending.items():
            if answer.done():
                del self._pending[host]
                with suppress(OSError):  # The resolver does not know the name now.
                    self._known[host] = answer.result()
                    found += self._known[host]
                    continue
            earlier += self._known.get(host, [])
        order = random.SystemRandom()
        order.shuffle(found)
        order.shuffle(earlier)
        return found + earlier

    def _started(self, host: tuple[str, int]) -> Future[list[ServerAddress]]:
        """The resolution of a name. There is one at a time, however long it takes."""
        if host not in self._pending:
            answer: Future[list[ServerAddress]] = Future()
            self._pending[host] = answer
            # Not of a pool, whose threads the end of the process would wait for.
            threading.Thread(target=self._run, args=(*host, answer), daemon=True, name=f"resolve {host[0]}").start()
        return self._pending[host]

    def _run(self, host: str, port: int, answer: Future[list[ServerAddress]]) -> None:
        host = host.strip()
        try:
            found = self._resolve(host, port)
        except OSError as error:
            answer.set_exception(error)
        else:
            answer.set_result([ServerAddress(host, str(address[0]), address[1]) for _, address in found])
