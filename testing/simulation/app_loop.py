"""The simulated loop with all that an unmodified application calls: connections, names, threads, and time that blocks.

A blocking call of the application (`time.sleep`) blocks its process alone. The callback that made it goes on at once,
with the clock of its process ahead: what it sends and schedules happens later, and nothing else of the process runs
until the other processes have come to that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
import signal
import socket
import weakref
from collections.abc import Callable
from functools import partial
from time import monotonic as machine_monotonic  # The module's function is replaced during a run.
from typing import Any, Final, NoReturn

from sordini.testing.brokers.loop_processes import LoopProcess, ProcessLoop, current_process, process_of
from sordini.testing.simulation.app_transport import AppTransport
from sordini.testing.simulation.cluster_network import ClusterNetwork
from sordini.testing.simulation.not_simulated import Refusals
from sordini.testing.simulation.virtual_loop import SimLoop

CONNECT_MS_MAX: Final = 130_000
"""How long Linux repeats the first packet of a connection."""
THREAD_MEAN_S: Final = 0.003
SLOW_THREAD_CHANCE: Final = 0.05
SLOW_THREAD_S: Final = 0.3
STEPS_PER_CHECK: Final = 64
"""Turns of the loop between two checks of the machine's clock."""
ROUND_S: Final = 0.000_1
"""What a turn of the loop takes: code that polls without a pause, as clients do, must come to the next timer."""


class OutOfTime(Exception):
    """The run has taken longer on the machine's clock than it may."""


class AppLoop(SimLoop):
    """The loop of `simulate`. `network` is set by the one who makes it."""

    network: ClusterNetwork

    def __init__(self, seed: int, *, steps_max: int) -> None:
        self._blocked: dict[LoopProcess | None, float] = {}
        self._on_sigterm: dict[LoopProcess | None, Callable[[], object]] = {}
        self._thread_ahead: float | None = None
        """In a call that is a thread's: how long it has slept."""
        self.longest_block: tuple[float, str] = (0.0, "")
        """The longest blocking call, and the process that made it."""
        super().__init__(seed, steps_max=steps_max)
        self._threads = random.Random(f"threads {seed}")
        self.end_s: float | None = None
        """When the run is given up, by the machine's monotonic clock."""
        self.refusals = Refusals()
        """What was used that has no simulated form."""
        self._failed_tasks: list[tuple[LoopProcess, weakref.ref[Any]]] = []
        """In the order of their ends."""
        self._transports: list[weakref.ref[AppTransport]] = []
        self.unawaited: list[tuple[str, str]] = []
        """Exceptions that nothing awaited: the file of the code that raised, and a text."""

    # Time.

    def time(self) -> float:
        """Seconds of virtual time, as the process sees them whose code runs."""
        if self._thread_ahead is not None:
            return self._now + self._thread_ahead
        if self._blocked:
            return max(self._now, self._blocked.get(current_process(), 0.0))
        return self._now

    def block(self, seconds: float) -> None:
        """A blocking call of so many seconds was made by the process whose code runs, or by a thread of it."""
        if self._thread_ahead is not None:
            self._thread_ahead += seconds
            return
        process = current_process()
        if process is None:
            self.stall(seconds)
            return
        self.longest_block = max(self.longest_block, (seconds, process.name))
        is_first = process not in self._blocked
        self._blocked[process] = self.time() + seconds
        if is_first:
            self.pause(process)
            self.outside_at(self._blocked[process], self._unblock, process)

    def _note_stray(self, context: dict[str, Any]) -> None:
        super()._note_stray(context)
        error = context.get("exception")
        if isinstance(error, Exception):
            self.unawaited.append(_failure(context.get("task") or context.get("future"), error))

    def unnoticed(self) -> list[tuple[str, str]]:
        """As `unawaited`, of tasks that running processes hold and have not looked at since they failed."""
        failed = [(process, task()) for process, task in self._failed_tasks if process.alive]
        # Asking for the exception would count as looking at it, as it does for the application.
        return [
            _failure(task, task._exception)  # noqa: SLF001
            for _, task in failed
            if task is not None and task._log_traceback  # noqa: SLF001
        ]

    def make_task(
        self, _loop: ProcessLoop, coroutine: Any, context: contextvars.Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        task = super().make_task(_loop, coroutine, context, **options)
        process = current_process() if context is None else process_of(context)
        if process is not None:
            task.add_done_callback(partial(self._note_failed, process))
        return task

    def _note_failed(self, process: LoopProcess, task: Any) -> None:
        if not task.cancelled() and task._exception is not None:  # noqa: SLF001 - as in `unnoticed`.
            self._failed_tasks.append((process, weakref.ref(task)))

    def finish(self) -> None:
        """As the base class does; open connections end first, and nothing acts on it."""
        for transport in filter(None, [found() for found in self._transports]):
            with contextlib.suppress(Exception):
                transport.get_protocol().connection_lost(None)
        super().finish()

    def is_blocked(self, process: LoopProcess) -> bool:
        """Whether a blocking call of the process has not returned."""
        return process in self._blocked

    def _process_events(self, event_list: list[asyncio.Handle]) -> None:
        self._now += ROUND_S
        if self.end_s is not None and not self.steps % STEPS_PER_CHECK and machine_monotonic() > self.end_s:
            raise OutOfTime(f"the run has not ended in its time, at {self.elapsed_s:.0f} virtual s")
        super()._process_events(event_list)

    def _unblock(self, process: LoopProcess) -> None:
        if self._blocked[process] > self._now:
            self.outside_at(self._blocked[process], self._unblock, process)
            return
        del self._blocked[process]
        if process.alive:
            self.resume(process, timers_first=self._threads.random() < 0.5)

    # Connections.

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **options: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if ssl:
            raise self.refusals.refused(f"TLS to {host}:{port}: the simulated brokers speak PLAINTEXT")
        if sock is not None or host is None or port is None:
            raise self.refusals.refused("a connection over the application's own socket: name a host and a port")
        self._check_host(host)
        opened = await self.network.connect((host, int(port)), timeout_ms=CONNECT_MS_MAX)
        transport = AppTransport(self, opened, protocol := protocol_factory())
        self._transports.append(weakref.ref(transport))
        await transport.open()
        return transport, protocol

    async def create_server(self, *where: object, **options: object) -> NoReturn:
        raise self.refusals.refused("a listening socket: run the part that serves requests without it")

    async def create_datagram_endpoint(self, *where: object, **options: object) -> NoReturn:
        raise self.refusals.refused("datagrams (UDP)")

    async def sock_connect(self, *where: object) -> NoReturn:
        raise self.refusals.refused("a connection over the application's own socket: name a host and a port")

    async def subprocess_exec(self, *how: object, **options: object) -> NoReturn:
        raise self.refusals.refused("a process")

    async def subprocess_shell(self, *how: object, **options: object) -> NoReturn:
        raise self.refusals.refused("a process")

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int | str | None, **hints: int
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """A simulated host's name is its address."""
        self._check_host(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, int(port or 0)))]

    def _check_host(self, host: str) -> None:
        if host not in self.network.hosts:
            what = f"{host!r} is no host of the simulation: there are {', '.join(sorted(self.network.hosts))}"
            self.refusals.refused(what)
            raise socket.gaierror(socket.EAI_NONAME, what)

    # Threads.

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Call the function some time later, on the loop: no other code of the simulation runs meanwhile."""
        done = self.create_future()
        seconds = self._threads.expovariate(1 / THREAD_MEAN_S)
        if self._threads.random() < SLOW_THREAD_CHANCE:
            seconds += self._threads.random() * SLOW_THREAD_S
        self.call_later(seconds, self._run_as_thread, func, args, done)
        return done

    def _run_as_thread(self, func: Callable[..., Any], args: tuple[Any, ...], done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            return
        self._thread_ahead = 0.0
        try:
            complete: Callable[..., None] = done.set_result
            value = func(*args)
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited.
            complete, value = done.set_exception, error
        finally:
            slept, self._thread_ahead = self._thread_ahead, None
        self.call_later(slept, _complete, done, complete, value)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - asyncio's own.
        """There are no threads."""

    def set_default_executor(self, executor: Any) -> None:
        """Whatever it is, its threads are not used."""

    # Signals: only SIGTERM is ever delivered.

    def add_signal_handler(self, sig: int, callback: Callable[..., Any], *args: Any) -> None:  # type: ignore[override]
        process = current_process()
        if sig == signal.SIGTERM and process is not None:
            self._on_sigterm[process] = partial(contextvars.copy_context().run, callback, *args)

    def remove_signal_handler(self, sig: int) -> bool:
        return sig == signal.SIGTERM and self._on_sigterm.pop(current_process(), None) is not None

    def terminate(self, process: LoopProcess) -> bool:
        """Deliver SIGTERM to a process; False when it has no handler."""
        handler = self._on_sigterm.get(process)
        if handler is not None:
            handler()
        return handler is not None


def _complete(done: asyncio.Future[Any], complete: Callable[[Any], None], value: object) -> None:
    if not done.done():
        complete(value)


def _failure(task: Any, error: object) -> tuple[str, str]:
    """Of a task that failed: the file of its code, and a text."""
    code = getattr(task.get_coro(), "cr_code", None) if isinstance(task, asyncio.Task) else None
    return getattr(code, "co_filename", ""), f"{getattr(code, 'co_name', '?')}: {error!r}"
