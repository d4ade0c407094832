"""Several processes on one event loop: a mark on everything that each of them schedules.

The mark is a context variable, which asyncio copies into every handle and task. So a process that is killed stops at
once, without a single `finally` of its code running, and one that is paused continues later where it was.
"""

from __future__ import annotations

import abc
import asyncio
import contextlib
import contextvars
import heapq
import warnings
from asyncio import base_events
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
UNWINDING_ROUNDS_MAX = 10
"""Code that unwinds may create tasks, which are closed in the next round."""


class Died(BaseException):
    """The process whose code runs is gone; nothing may catch it."""


class ProcessKilled(Died):
    """Raised inside a process by a port that it uses after its end."""


class LoopProcess:
    """One process on a loop. What it starts belongs to it."""

    def __init__(self, name: str, loop: ProcessLoop) -> None:
        self.name = name
        self.alive = True
        self._loop = loop
        self._on_death: list[Callable[[], None]] = []
        self.died = loop.create_future()
        """Done when the process has ended; to be awaited by code outside of it."""
        # A dict and not a set: tasks are destroyed in the order they were made. Tasks of a dead process stay here,
        # because collecting a suspended coroutine would run its `finally` blocks, which a killed process never does.
        self.tasks: dict[asyncio.Task[Any], None] = {}

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task that belongs to this process, and so does everything it starts."""
        context = contextvars.copy_context()
        context.run(_CURRENT.set, self)
        return self._loop.create_task(coroutine, context=context)

    def check_alive(self) -> None:
        """Called by every port before it does anything. Raises ProcessKilled."""
        if not self.alive:
            raise ProcessKilled(self.name)

    def on_death(self, callback: Callable[[], None]) -> None:
        """Register what the kernel does when this process ends: close its sockets, drop its locks."""
        self._on_death.append(callback)

    def kill(self) -> None:
        """End the process now, as SIGKILL does. Harmless on a dead one."""
        if not self.alive:
            return
        self.alive = False
        self._loop.forget(self)
        if not self.died.done():
            self.died.set_result(None)
        for callback in self._on_death:
            callback()


_CURRENT: contextvars.ContextVar[LoopProcess | None] = contextvars.ContextVar("process", default=None)
OUTSIDE = contextvars.Context()
"""The context of what belongs to no process."""


def current_process() -> LoopProcess | None:
    """The process whose code is running, or None for the world outside of all of them."""
    return _CURRENT.get()


def process_of(context: contextvars.Context) -> LoopProcess | None:
    """The process whose code runs in a context."""
    return context.get(_CURRENT)


def owner(handle: asyncio.Handle) -> LoopProcess | None:
    """The process that scheduled a callback."""
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    return context.get(_CURRENT)


class ProcessLoop(base_events.BaseEventLoop, abc.ABC):
    """An event loop with processes. A class below it says how sockets are watched."""

    _ready: deque[asyncio.Handle]  # The base class's own, as is the next.
    _scheduled: list[Any]  # Of asyncio.TimerHandle with its own fields.

    def __init__(self) -> None:
        self.processes: list[LoopProcess] = []
        self._paused: dict[LoopProcess, list[asyncio.Handle]] = {}
        """What a paused process would do, in the order in which it would have come."""
        super().__init__()
        self.set_task_factory(self.make_task)  # type: ignore[arg-type]

    def process(self, name: str) -> LoopProcess:
        """A new process, with nothing in it."""
        process = LoopProcess(name, self)
        self.processes.append(process)
        return process

    def forget(self, process: LoopProcess) -> None:
        """Drop everything that a process had scheduled or registered."""
        self.forget_sockets(process)
        self._paused.pop(process, None)
        for handle in [*self._ready, *self._scheduled]:
            if owner(handle) is process:
                handle.cancel()

    def pause(self, process: LoopProcess) -> None:
        """Let nothing of a process run, as SIGSTOP does: time passes, and its sockets fill."""
        self._paused[process] = []
        self.pause_sockets(process)
        # The turn that runs has counted what is ready: something has to stay in each place.
        nothing = asyncio.Handle(_nothing, (), self)
        nothing.cancel()
        for index, handle in enumerate(self._ready):
            if owner(handle) is process:
                self._paused[process].append(handle)
                self._ready[index] = nothing
        self._hold(process)

    def resume(self, process: LoopProcess, *, timers_first: bool) -> None:
        """Let it continue: with what is overdue, and then with its sockets, or the other way round.

        Loops differ in that: asyncio's looks at sockets first, and uvloop's at timers.
        """
        for handle in self._paused.pop(process, ()):
            if not isinstance(handle, asyncio.TimerHandle) or (timers_first and handle.when() <= self.time()):
                self._ready.append(handle)
            else:
                handle._scheduled = True  # type: ignore[attr-defined]
                heapq.heappush(self._scheduled, handle)
        self.resume_sockets(process)

    def is_paused(self, process: LoopProcess | None) -> bool:
        """Whether nothing of it runs at present."""
        return process in self._paused

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = unless_dead(super().call_soon(callback, *args, context=context))
        held = self._paused.get(owner(handle)) if self._paused else None  # type: ignore[arg-type]
        if held is not None:
            held.append(self._ready.pop())
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = super().call_at(when, callback, *args, context=context)
        unless_dead(handle)
        if self._paused and owner(handle) in self._paused:
            self._hold(owner(handle))
        return handle

    def make_task(
        self, _loop: ProcessLoop, coroutine: Any, context: contextvars.Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        """The task factory: a process keeps its tasks. From Python 3.14 on `options` has the task's name."""
        process = context.get(_CURRENT) if context is not None else _CURRENT.get()
        task = self.new_task(coroutine, context, **options)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda done: process.tasks.pop(done, None))
        return task

    def new_task(self, coroutine: Any, context: contextvars.Context | None, **options: Any) -> asyncio.Task[Any]:
        """A task of this loop's kind."""
        return asyncio.Task(coroutine, loop=self, context=context, **options)

    @abc.abstractmethod
    def forget_sockets(self, process: LoopProcess) -> None:
        """Watch no socket of a process any more."""

    @abc.abstractmethod
    def pause_sockets(self, process: LoopProcess) -> None:
        """Report no socket of a process until `resume_sockets`."""

    @abc.abstractmethod
    def resume_sockets(self, process: LoopProcess) -> None:
        """Report them again."""

    def _hold(self, process: LoopProcess | None) -> None:
        """Take the timers of a paused process away, earliest first."""
        assert process is not None
        timers = sorted(handle for handle in self._scheduled if owner(handle) is process)
        self._scheduled[:] = [handle for handle in self._scheduled if owner(handle) is not process]
        heapq.heapify(self._scheduled)
        for handle in timers:
            handle._scheduled = False
        self._paused[process] += timers


def unless_dead(handle: asyncio.Handle) -> asyncio.Handle:
    """Callbacks scheduled while a crashed process unwinds are not run."""
    process = owner(handle)
    if process is not None and not process.alive:
        handle.cancel()
    return handle


def unwind(processes: Sequence[LoopProcess], others: Callable[[], Iterable[asyncio.Task[Any]]] = tuple) -> None:
    """Kill all, and close what they left suspended, the tasks that are made meanwhile included.

    `others` names tasks of no process that are closed, too; it is called again after each round.
    """
    for process in processes:
        process.kill()
    closed: set[asyncio.Task[Any]] = set()
    for _ in range(UNWINDING_ROUNDS_MAX):
        # All at once: closing one coroutine lets go of others, which would complain that they were never awaited.
        found = [task for process in processes for task in process.tasks]
        left = [task for task in dict.fromkeys([*found, *others()]) if task not in closed]
        if not left:
            return
        for task in left:
            close_task(task)
        closed.update(left)


def close_task(task: asyncio.Task[Any]) -> None:
    """Close the coroutine of a task that will not run again."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    running = asyncio._get_running_loop()
    # Without a running loop, asyncio.gather in a `finally` creates one that is never closed; its tasks are never freed.
    asyncio._set_running_loop(task.get_loop())
    try:
        # Warnings of a crashed process's code while it unwinds are no errors.
        with contextlib.suppress(BaseException), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Such as: a coroutine that had not started when its process crashed.
            task.get_coro().close()
    finally:
        asyncio._set_running_loop(running)


def _nothing() -> None:
    """Is never called."""
