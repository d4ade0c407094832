"""The embedded coordination store over nodes that outlive the processes of a run, in place of the SQLite file.

A transaction is durable when `save` returns, as with `synchronous=FULL`; a process that ends before loses it. The
store above, its sessions and its watches are the production code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sordini.coordination_store.embedded import EmbeddedStore
from sordini.coordination_store.znode_tree import Znode, ZnodeTree
from sordini.replication.ports import StoreUnusable
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.simulated_disk import SimDisk
from sordini.testing.simulation.virtual_loop import SimClock


class DurableNodes:
    """What is in the file. One per run; `holder` is the process that has it open."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(b"", 0, 0, 0, 0)}
        self.zxid = 0
        self.holder: LoopProcess | None = None


class SimDatabase:
    """`sordini.coordination_store.database.Database` without a file."""

    def __init__(self, durable: DurableNodes, process: LoopProcess) -> None:
        if durable.holder is not None and durable.holder.alive:
            raise StoreUnusable(f"the coordination store is in use by {durable.holder.name}")
        durable.holder = process
        self._durable = durable
        self._process = process

    def load(self) -> tuple[dict[str, Znode], int]:
        self._process.check_alive()
        return dict(self._durable.nodes), self._durable.zxid

    def save(self, dirty: Iterable[tuple[str, Znode | None]], zxid: int) -> None:
        self._process.check_alive()
        for path, node in dirty:
            if node is None or node.owner:
                self._durable.nodes.pop(path, None)
            else:
                self._durable.nodes[path] = node
        self._durable.zxid = zxid

    def close(self) -> None:
        self._durable.holder = None


async def open_store(durable: DurableNodes, process: LoopProcess, disk: SimDisk, clock: SimClock) -> EmbeddedStore:
    """Open the store in a process; its saves take as long as the disk's other slow calls."""

    def load() -> tuple[SimDatabase, ZnodeTree]:
        database = SimDatabase(durable, process)
        return database, ZnodeTree(*database.load())

    offload: Callable[..., object] = disk.offload
    database, tree = await disk.offload(load)
    return EmbeddedStore(database, tree, offload, clock)  # type: ignore[arg-type]
