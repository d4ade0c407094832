"""The simulated network between hosts: links from one host to another can be cut for a while, in one direction or both.

While a direction is cut nothing arrives in it and no error is raised: TCP retransmits until the link heals, so bytes in
flight arrive then. A new connection needs both directions, and its caller may time out first.
"""

from __future__ import annotations

import asyncio

from sordini.broker.network.ports import SocketOptions
from sordini.testing.brokers.loop_processes import current_process
from sordini.testing.simulation.simulated_network import CONNECT_TIMEOUT_MS, Address, SimNetwork, SimSocket
from sordini.testing.simulation.simulated_pipe import LinkRules
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimLoop

CLIENTS = "clients"
"""The host of all code outside simulated processes."""


class ClusterNetwork(SimNetwork):
    """`SimNetwork` with hosts. A process's host is its name up to the first dot."""

    def __init__(self, loop: SimLoop, trace: Trace, seed: int = 0, rules: LinkRules | None = None) -> None:
        super().__init__(loop, trace, seed, rules)
        self._cuts: dict[tuple[str, str], float] = {}
        self._hosts: dict[SimSocket, tuple[str, str]] = {}
        self.hosts: set[str] = set()
        """Names that applications may resolve."""

    def cut(self, source: str, target: str, seconds: float) -> None:
        """Nothing that `source` sends reaches `target` for a while."""
        until = self.loop.time() + seconds
        self._cuts[source, target] = max(until, self._cuts.get((source, target), 0.0))
        self.trace.note("cut link", source, target, f"{seconds:.3f}")
        for socket in self._sockets.values():
            if self._hosts.get(socket) == (source, target):
                socket.outward.stall(seconds)

    def heal(self) -> None:
        """Links that are cut stay so for their time; no more are cut."""
        self._cuts.clear()

    def sockets_between(self, host: str, other: str) -> list[SimSocket]:
        """The open sockets on host `host` that lead to `other`, oldest first."""
        return [socket for socket in self._sockets.values() if self._hosts.get(socket) == (host, other)]

    async def connect(
        self, address: Address, options: SocketOptions | None = None, timeout_ms: int = CONNECT_TIMEOUT_MS
    ) -> SimSocket:
        seconds = max(self._seconds_cut(here(), address[0]), self._seconds_cut(address[0], here()))
        if seconds * 1_000 > timeout_ms:
            await asyncio.sleep(timeout_ms / 1_000)
            raise TimeoutError(110, "Connection timed out")
        if seconds:
            await asyncio.sleep(seconds)
        return await super().connect(address, options, timeout_ms - int(seconds * 1_000))

    def forget(self, socket: SimSocket) -> None:
        super().forget(socket)
        self._hosts.pop(socket, None)

    def _pair(self, address: Address) -> tuple[SimSocket, SimSocket]:
        client, server = super()._pair(address)
        host = here()
        self._hosts.update({client: (host, address[0]), server: (address[0], host)})
        for socket, link in ((client, (host, address[0])), (server, (address[0], host))):
            if (seconds := self._seconds_cut(*link)) > 0:
                socket.outward.stall(seconds)
        return client, server

    def _seconds_cut(self, source: str, target: str) -> float:
        return max(0.0, self._cuts.get((source, target), 0.0) - self.loop.time())


def here() -> str:
    """The host whose code runs."""
    process = current_process()
    return CLIENTS if process is None else process.name.partition(".")[0]
