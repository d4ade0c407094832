"""The forgetful disk of the crash tests, on virtual time and as part of a simulated process.

One disk object is what one process sees. When the process dies, the next one gets `after_kill` (the page cache as it
was) or `after_power_loss` (a seeded part of what was not synced). What goes through `offload` takes time, and
happens at a seeded moment within it, so that a `sync` covers a write made beside it sometimes and sometimes not.
"""

from __future__ import annotations

import asyncio
import errno
import random
from collections.abc import Callable
from typing import TypeVar

from sordini.storage.disk import File
from sordini.testing.brokers.loop_processes import Died, LoopProcess
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from sordini.testing.simulation.forgetful_file import ForgetfulFile
from sordini.testing.simulation.forgetful_nodes import Node
from sordini.testing.simulation.trace import Trace
from sordini.testing.simulation.virtual_loop import SimClock, SimLoop

T = TypeVar("T")
OFFLOAD_MEAN_S = 0.004
SLOW_OFFLOAD_CHANCE = 0.03
SLOW_OFFLOAD_S = 0.5
VERY_SLOW_OFFLOAD_S = 3.0
SLUGGISH_OFFLOAD_S = 0.4
SECTOR = 512
LOST_SECTORS_CHANCE = 0.3
STALL_CHANCE = 0.002
STALL_S = 0.05
WRITING = ("write", "create", "mkdir")


class SimDisk(ForgetfulDisk):
    """The disk port for one process. A fault may end the process together with its disk."""

    def __init__(self, loop: SimLoop, trace: Trace, seed: int, process: LoopProcess, root: Node | None = None) -> None:
        super().__init__(SimClock(loop).now_ms)
        # The checkers hold a killed broker to all that it acknowledged; the crash campaign knows of failed syncs.
        self.forgets_what_failed = False
        self._loop = loop
        self._trace = trace
        self._seed = seed
        self._process = process
        self._random = random.Random(f"disk {seed} {process.name}")
        if root is not None:
            self.root = root
        self.failed_at: dict[str, float] = {}
        """When the first I/O error came, by the path that it was for."""
        self.is_slow = False
        self.is_sluggish = False
        """Slower than it should be, and a process can start on it."""
        process.on_death(self.kill)

    def after_kill(self, process: LoopProcess) -> SimDisk:
        """The disk of the next process after this one was killed."""
        return SimDisk(self._loop, self._trace, self._seed, process, self.killed().root)

    def after_power_loss(self, process: LoopProcess) -> SimDisk:
        """The disk of the next process after a power loss; equal seeds and process names lose the same bytes."""
        chance = random.Random(f"power {self._seed} {process.name}")
        survivor = SimDisk(self._loop, self._trace, self._seed, process, self.power_lost(chance.getrandbits(64)).root)
        _forget_sectors(self.root, survivor.root, chance)
        return survivor

    def fill_up(self, directory: str = "") -> None:
        """No more room, everywhere or in one directory, until `heal`."""
        self.fail_while(lambda kind, path: kind in WRITING and path.startswith(directory), errno.ENOSPC)

    def change(self, kind: str, path: str, carry_out: Callable[[float], int]) -> int:
        if self._random.random() < STALL_CHANCE:
            self._loop.stall(self._random.random() * STALL_S)
        try:
            done = super().change(kind, path, carry_out)
        except Died:
            # Only this one process may have seen the fault; nothing that it scheduled happens any more.
            self._process.kill()
            raise
        except OSError as error:
            self._trace.note("disk", kind, path, errno.errorcode.get(error.errno or 0, "?"))
            if error.errno == errno.EIO:
                self.failed_at.setdefault(path, self._loop.time())
            raise
        self._trace.note("disk", kind, path, done)
        return done

    def offload(self, function: Callable[[], T]) -> asyncio.Future[T]:  # type: ignore[override]
        """As a pool of threads would: starts by itself, cannot be stopped once it runs, takes its time."""
        self.check_alive()
        result: asyncio.Future[T] = self._loop.create_future()
        total = self._random.expovariate(1 / OFFLOAD_MEAN_S)
        if self._random.random() < SLOW_OFFLOAD_CHANCE:
            total += self._random.random() * SLOW_OFFLOAD_S
        if self.is_slow:
            total += self._random.random() * VERY_SLOW_OFFLOAD_S
        if self.is_sluggish:
            total += self._random.random() * SLUGGISH_OFFLOAD_S
        before = total * self._random.random()
        self._loop.call_later(before, self._run_offloaded, function, result, total - before)
        return result

    def synced_tree(self) -> dict[str, bytes]:
        """Every file whose name is on the disk for certain, with the bytes that are."""
        found: dict[str, bytes] = {}
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            for name, child in sorted(node.synced_names.items()):
                if child.directory:
                    waiting.append((f"{path}/{name}", child))
                else:
                    found[f"{path}/{name}"] = child.synced
        return found

    def visible_tree(self) -> dict[str, bytes]:
        """Every file as the page cache has it, also after the death of the process."""
        found: dict[str, bytes] = {}
        waiting = [("", self.root)]
        while waiting:
            path, node = waiting.pop()
            for name, child in sorted(node.names.items()):
                if child.directory:
                    waiting.append((f"{path}/{name}", child))
                else:
                    found[f"{path}/{name}"] = bytes(child.data)
        return found

    def _run_offloaded(self, function: Callable[[], T], result: asyncio.Future[T], rest: float) -> None:
        if result.cancelled():
            return
        self._trace.note("offload", self._process.name)
        try:
            value = function()
        except Exception as error:  # noqa: BLE001 - the waiting caller gets the error.
            self._loop.call_later(rest, _fail, result, error)
        else:
            self._loop.call_later(rest, _complete, result, value)


class SimPageCache:
    """The page-cache port: a seeded share of the windows is cold, and warming them takes an offload's time."""

    def __init__(self, disk: SimDisk, seed: int, cold_chance: float = 0.05) -> None:
        self._disk = disk
        self._random = random.Random(f"page cache {seed}")
        self._cold_chance = cold_chance

    def is_warm(self, file: File, position: int, size: int) -> bool:
        return self._random.random() >= self._cold_chance

    def warm(self, file: File, position: int, size: int) -> asyncio.Future[None]:
        return self._disk.offload(lambda: None)


def _forget_sectors(before: Node, after: Node, chance: random.Random) -> None:
    """Of a file that grew, the new size may be on the disk and some of the new sectors not: they are zeros then."""
    for name, node in sorted(after.names.items()):
        old = before.names.get(name)
        if old is None:
            continue
        if node.directory:
            _forget_sectors(old, node, chance)
        elif name.endswith(".log") and len(node.data) > len(old.synced) and chance.random() < LOST_SECTORS_CHANCE:
            start = max(chance.randrange(len(old.synced), len(node.data)) // SECTOR * SECTOR, len(old.synced))
            end = min(start + SECTOR * chance.randint(1, 4), len(node.data))
            node.data[start:end] = bytes(end - start)
            node.sync()


def page_reader(file: File) -> Callable[[int, int], bytes]:
    """Read a file's pages as the network card would: the current pages, also of a file closed meanwhile."""
    assert isinstance(file, ForgetfulFile), f"{file.path} is not on a simulated disk"
    node = file.node
    return lambda position, size: bytes(node.data[position : position + size])


def _complete(result: asyncio.Future[T], value: T) -> None:
    if not result.done():
        result.set_result(value)


def _fail(result: asyncio.Future[T], error: Exception) -> None:
    if not result.done():
        result.set_exception(error)
