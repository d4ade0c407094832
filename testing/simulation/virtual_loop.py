"""An event loop whose clock moves only when there is nothing left to do.

`SimLoop` is asyncio's own loop with another selector: instead of waiting, it jumps to the first timer. Sockets
are asked whether they are ready by calling them, level-triggered, as epoll would answer. Everything that runs on
it is ordered by the program and by one seed; nothing depends on the machine's clock, on threads or on addresses.

A process is one operating-system process inside the simulation (`testing/brokers/loop_processes.py`).
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from sordini.testing.brokers.loop_processes import (
    OUTSIDE,
    Died,
    LoopProcess,
    ProcessLoop,
    owner,
    unless_dead,
    unwind,
)

T = TypeVar("T")
STEPS_MAX = 3_000_000
CALLS_MAX = 200_000
"""System calls in one iteration of the loop: beyond this something polls without waiting."""
START_S = 1_000.0
"""No clock starts at zero."""
WALL_CLOCK_START_MS = 1_760_000_000_000


class Deadlock(BaseException):
    """Nothing is ready, no timer is set, and something still waits."""


class Runaway(BaseException):
    """The run took more turns of the loop than its bound: something spins."""


class Pollable(Protocol):
    """What the loop must know of a simulated socket."""

    number: int

    def is_readable(self) -> bool: ...

    def is_writable(self) -> bool: ...


class _Selector:
    """Where a real loop would sleep in epoll: polls the simulated sockets, else moves the clock."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[asyncio.Handle]:
        ready = self._loop.ready_handles()
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise Deadlock(f"nothing will ever happen again at {self._loop.time():.6f} s")
        self._loop.jump()
        return []


class SimLoop(ProcessLoop):
    """A deterministic event loop on a virtual clock. `stray` collects unhandled exceptions."""

    def __init__(self, seed: int = 0, *, steps_max: int = STEPS_MAX) -> None:
        self._serial = 0
        super().__init__()
        self._now = START_S
        self._clock_resolution = 1e-9
        self._random = random.Random(f"loop {seed}")
        self._selector = _Selector(self)
        self._readers: dict[Pollable, asyncio.Handle] = {}
        self._writers: dict[Pollable, asyncio.Handle] = {}
        self._has_news = False
        self.socket_of: Callable[[int], Pollable | None] = _no_socket
        """The simulated socket of a descriptor."""
        self.steps = 0
        self._calls = 0
        self._steps_max = steps_max
        self.stray: list[str] = []
        self.set_exception_handler(lambda _, context: self._note_stray(context))

    # Time.

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._now

    @property
    def elapsed_s(self) -> float:
        """Seconds of virtual time since the loop was made."""
        return self._now - START_S

    def stall(self, seconds: float) -> None:
        """Let time pass inside the running callback, as a slow system call does to a real loop."""
        self._now += seconds

    def count_call(self) -> None:
        """A simulated system call was made; raises Runaway when one callback makes them without end."""
        self._calls += 1
        if self._calls > CALLS_MAX:
            raise Runaway(f"more than {CALLS_MAX} system calls in one turn of the loop at {self._now:.3f} s")

    def jump(self) -> None:
        """Move the clock to the first timer."""
        self._now = max(self._now, self._scheduled[0].when())

    def outside_at(self, when: float, callback: Callable[..., None], *args: Any) -> asyncio.TimerHandle:
        """A timer that belongs to the world and not to the process whose code sets it: bytes under way, say."""
        return self.call_at(when, callback, *args, context=OUTSIDE)

    # Sockets.

    def add_reader(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self._register(self._readers, fd, callback, args)

    def add_writer(self, fd: Any, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        self._register(self._writers, fd, callback, args)

    def remove_reader(self, fd: Any) -> bool:
        return self._unregister(self._readers, fd)

    def remove_writer(self, fd: Any) -> bool:
        return self._unregister(self._writers, fd)

    def is_registered(self, socket: Pollable) -> bool:
        """Whether a reader or a writer is still set: closing such a socket is a bug on a real loop."""
        return socket in self._readers or socket in self._writers

    def poll_sockets(self) -> None:
        """Something happened by which a socket may have become ready. Without it none is polled again."""
        self._has_news = True

    def ready_handles(self) -> list[asyncio.Handle]:
        """The callbacks of the sockets that are ready now, in an order that only the seed knows."""
        if not self._has_news:
            return []
        ready = [handle for socket, handle in self._readers.items() if socket.is_readable()]
        ready += [handle for socket, handle in self._writers.items() if socket.is_writable()]
        self._has_news = bool(ready)  # They stay ready until a callback reads or writes.
        if self._paused:
            ready = [handle for handle in ready if owner(handle) not in self._paused]
        if len(ready) > 1:
            self._random.shuffle(ready)
        return ready

    # Processes.

    def forget_sockets(self, process: LoopProcess) -> None:
        for table in (self._readers, self._writers):
            for socket in [socket for socket, handle in table.items() if owner(handle) is process]:
                self._unregister(table, socket)

    def pause_sockets(self, process: LoopProcess) -> None:
        """`ready_handles` leaves out those of paused processes."""

    def resume_sockets(self, process: LoopProcess) -> None:
        """As above."""

    # Futures and tasks are numbered: a set of them (asyncio keeps some) must not be ordered by addresses.

    def create_future(self) -> asyncio.Future[Any]:
        return _SimFuture(self)

    def new_task(self, coroutine: Any, context: contextvars.Context | None, **options: Any) -> asyncio.Task[Any]:
        return _SimTask(coroutine, self, context, **options)

    def next_serial(self) -> int:
        self._serial += 1
        return self._serial

    # What a real loop offers and a simulation must not use.

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise AssertionError(f"{func} went to a thread beside the ports: no run of this can be repeated")

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        """There is one thread; kept because libraries call it from the loop's own."""
        return self.call_soon(callback, *args, context=context)

    def finish(self) -> None:
        """End every process and close. Call it once the run is judged: unfinished code unwinds here, in silence."""
        self.set_exception_handler(lambda _loop, _context: None)
        unwind(self.processes, lambda: asyncio.all_tasks(self))
        self._readers.clear()
        self._writers.clear()
        self.close()

    # asyncio's own hooks.

    def _process_events(self, event_list: list[asyncio.Handle]) -> None:
        self.steps += 1
        self._calls = 0
        if self.steps > self._steps_max:
            raise Runaway(f"more than {self._steps_max} turns of the loop at {self._now:.3f} s")
        self._ready.extend(event_list)

    def _write_to_self(self) -> None:
        """The selector never sleeps, so it needs no waking."""

    def _register(self, table: dict[Pollable, asyncio.Handle], fd: Any, callback: Any, args: Any) -> None:
        self._unregister(table, fd)
        table[self._pollable(fd)] = unless_dead(asyncio.Handle(callback, args, self, None))
        self._has_news = True

    def _pollable(self, fd: Any) -> Pollable:
        """The simulated socket: itself, or the one that has the descriptor of what is over it (TLS)."""
        if hasattr(fd, "is_readable"):
            found: Pollable = fd
            return found
        below = self.socket_of(fd.fileno())
        assert below is not None, f"{fd} is closed"
        return below

    def _unregister(self, table: dict[Pollable, asyncio.Handle], fd: Any) -> bool:
        handle = table.pop(self._pollable(fd), None)
        if handle is None:
            return False
        handle.cancel()
        return True

    def _note_stray(self, context: dict[str, Any]) -> None:
        exception = context.get("exception")
        if isinstance(exception, Died):
            return
        self.stray.append(f"{context.get('message')}: {exception!r}")


def _no_socket(_: int) -> None:
    """Without a network no descriptor is one's."""


class _SimFuture(asyncio.Future[Any]):
    def __init__(self, loop: SimLoop) -> None:
        super().__init__(loop=loop)
        self._serial = loop.next_serial()

    def __hash__(self) -> int:
        return self._serial


class _SimTask(asyncio.Task[Any]):
    # The serial is set first: asyncio's own constructor puts the task into a set.
    def __init__(self, coroutine: Any, loop: SimLoop, context: contextvars.Context | None, **options: Any) -> None:
        self._serial = loop.next_serial()
        super().__init__(coroutine, loop=loop, context=context, **options)

    def __hash__(self) -> int:
        return self._serial


class SimClock:
    """The clock port on virtual time. `skew_ms` moves people's clock and never the other."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.skew_ms = 0

    def now_ms(self) -> int:
        return WALL_CLOCK_START_MS + self.skew_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1_000)


def run(loop: SimLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine to its end on a loop of its own and close the loop."""
    try:
        result = loop.run_until_complete(coroutine)
    finally:
        loop.finish()
    return result


async def elapse(seconds: float) -> None:
    """Let virtual time pass: nothing waits for the machine's clock."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    over = loop.create_future()
    loop.call_later(seconds, _set, over)
    await over


def _set(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
