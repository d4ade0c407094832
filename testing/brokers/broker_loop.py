"""The loop of the kit's brokers: asyncio's own, with processes, and with a clock that can be moved forward."""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import Any, Final

from sordini.testing.brokers.loop_processes import LoopProcess, ProcessLoop, owner

STEPS_MAX: Final = 1_000
"""Steps in which the clock is moved, however far."""
ROUNDS_PER_STEP: Final = 12
"""Rounds of the loop after each step, in which brokers do what has become due and answer each other."""


class BrokerLoop(ProcessLoop, asyncio.SelectorEventLoop):
    """An event loop on the machine's sockets."""

    _selector: selectors.BaseSelector  # The base class's own.

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._hidden: dict[LoopProcess, list[selectors.SelectorKey]] = {}
        super().__init__()

    @property
    def ahead_s(self) -> float:
        """How far this loop's clock is ahead of the machine's."""
        return self._ahead_s

    def time(self) -> float:
        return time.monotonic() + self._ahead_s

    async def advance(self, seconds: float) -> None:
        """Move the clock forward, from timer to timer, so that what becomes due happens in its order."""
        end = self.time() + seconds
        least = seconds / STEPS_MAX
        while (left := end - self.time()) > 0:
            self._ahead_s += min(left, max(self._until_next_timer(), least))
            for _ in range(ROUNDS_PER_STEP):
                await asyncio.sleep(0)

    def _until_next_timer(self) -> float:
        now = self.time()
        return min((handle.when() - now for handle in self._scheduled if not handle.cancelled()), default=0.0)

    # Sockets.

    def forget_sockets(self, process: LoopProcess) -> None:
        self._hidden.pop(process, None)
        for key in self._keys_of(process):
            self._selector.unregister(key.fileobj)

    def pause_sockets(self, process: LoopProcess) -> None:
        self._hidden[process] = self._keys_of(process)
        for key in self._hidden[process]:
            self._selector.unregister(key.fileobj)

    def resume_sockets(self, process: LoopProcess) -> None:
        for key in self._hidden.pop(process, ()):
            self._selector.register(key.fileobj, key.events, key.data)

    def _keys_of(self, process: LoopProcess) -> list[selectors.SelectorKey]:
        found = []
        for key in list(self._selector.get_map().values()):
            reader, writer = key.data
            if any(handle is not None and owner(handle) is process for handle in (reader, writer)):
                found.append(key)
        return found

    def remove_reader(self, fd: Any) -> bool:
        self._drop_hidden(fd)
        return super().remove_reader(fd)

    def remove_writer(self, fd: Any) -> bool:
        self._drop_hidden(fd)
        return super().remove_writer(fd)

    def _drop_hidden(self, fd: Any) -> None:
        """A socket that is closed while its process is paused is not watched again."""
        for keys in self._hidden.values():
            keys[:] = [key for key in keys if fd not in (key.fileobj, key.fd)]


class BrokerClock:
    """The clock port on a broker loop, whose people's clock moves with it."""

    def __init__(self, loop: BrokerLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return int((time.time() + self._loop.ahead_s) * 1_000)

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1_000)
