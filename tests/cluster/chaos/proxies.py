"""A network of which every direction can be cut without any rights: each server stands behind a proxy.

The proxy finds the connecting node as the owner of the peer's socket among the processes that it knows. A cut
direction is held back, new connections too, and continues when it is healed: as TCP does when packets were lost. All of
it runs on one loop in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

_CHUNK_BYTES: Final = 65_536
_ESTABLISHED_HERE: Final = "0100007F"
_START_SECONDS_MAX: Final = 10.0
_OWNER_LOOKUPS_MAX: Final = 3
"""The kernel's table is read in pieces: a row can be missed while other connections come and go."""


class Proxies:
    """Nodes that are nothing but names for processes and for what these serve on 127.0.0.1."""

    def __init__(self) -> None:
        self._members: dict[str, set[int]] = defaultdict(set)
        self._gates: dict[tuple[str, str], asyncio.Event] = {}
        self._kilobits: dict[str, int] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def address(self, node: str) -> str:
        return "127.0.0.1"

    def enter(self, node: str) -> list[str]:
        return []

    def serve(self, node: str, port: int) -> str:
        """Where others reach what a node serves at a port."""
        return f"127.0.0.1:{self._run(self._open(node, port))}"

    def joined(self, node: str, process: int) -> None:
        """This process is one of the node's: its connections are."""
        self._members[node].add(process)

    def cut(self, source: str, target: str) -> None:
        """Hold back what `source` sends to `target` from now on."""
        self._loop.call_soon_threadsafe(self._gate(source, target).clear)

    def cut_both(self, one: str, other: str) -> None:
        self.cut(one, other)
        self.cut(other, one)

    def slow(self, node: str, kilobits_per_second: int) -> None:
        """Pass on so many bits a second of each connection to a node."""
        self._kilobits[node] = kilobits_per_second

    def heal(self) -> None:
        """Undo all that was done to links."""
        self._kilobits.clear()
        for gate in list(self._gates.values()):
            self._loop.call_soon_threadsafe(gate.set)

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_START_SECONDS_MAX)

    def _gate(self, source: str, target: str) -> asyncio.Event:
        gate = self._gates.get((source, target))
        if gate is None:
            gate = self._gates[source, target] = asyncio.Event()
            gate.set()
        return gate

    async def _open(self, node: str, port: int) -> int:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = self._loop.create_task(self._join(node, port, reader, writer))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _join(self, node: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end. Errors of either side are its end, too."""
        other = self._owner(writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1])
        there, back = self._gate(other, node), self._gate(node, other)
        beyond_writer = None
        try:
            await there.wait()
            await back.wait()
            beyond_reader, beyond_writer = await asyncio.open_connection("127.0.0.1", port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, beyond_writer, there, node))
                group.create_task(self._pump(beyond_reader, writer, back, other))
        except* OSError:
            pass
        finally:
            writer.close()
            if beyond_writer is not None:
                beyond_writer.close()

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, gate: asyncio.Event, to: str
    ) -> None:
        while data := await source.read(_CHUNK_BYTES):
            await gate.wait()
            if kilobits := self._kilobits.get(to):
                await asyncio.sleep(len(data) * 8 / (kilobits * 1_000))
            target.write(data)
            await target.drain()
        await gate.wait()
        with contextlib.suppress(OSError):
            target.write_eof()

    def _owner(self, port: int, served: int) -> str:
        """The node whose process connected from `port` to `served`; empty when no known process did."""
        for _ in range(_OWNER_LOOKUPS_MAX):
            link = f"socket:[{_inode(port, served)}]"
            for node, processes in self._members.items():
                if any(link in _links(process) for process in processes):
                    return node
        return ""


def _links(process: int) -> Iterator[str]:
    """What a process has open; nothing when it is gone."""
    with contextlib.suppress(OSError):
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with contextlib.suppress(OSError):
                yield str(entry.readlink())


def _inode(port: int, served: int) -> str:
    """Of the socket of 127.0.0.1 that connects `port` to `served`; empty when there is none.

    Both ends count: an earlier connection from the same port to another server stays in the table for a minute, without
    an inode.
    """
    ends = [f"{_ESTABLISHED_HERE}:{port:04X}", f"{_ESTABLISHED_HERE}:{served:04X}"]
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            words = row.split()
            if [word[-len(end) :] for word, end in zip(words[1:3], ends, strict=True)] == ends:
                return words[9]
    return ""
