"""One instance of the application: its successive processes, and a supervisor that starts it again."""

from __future__ import annotations

import asyncio
import sysconfig
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import aiokafka  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

from sordini.system.named_tuple import NamedTuple
from sordini.testing.brokers.loop_processes import LoopProcess
from sordini.testing.simulation.app_loop import AppLoop
from sordini.testing.simulation.not_simulated import NotSimulated
from sordini.testing.simulation.scenario import Scenario
from sordini.testing.simulation.transcript import Transcript

App = Callable[[str, Scenario], Awaitable[object]]
"""The application: gets the bootstrap address and the run."""
RESTART_S: Final = 1.0
"""After so long a supervisor starts an instance that ended with an exception."""
STOP_S_MAX: Final = 10.0
"""After so long a supervisor kills an instance that was to stop."""
TRACEBACK_SHOWN: Final = 2_000
_CLIENT: Final = str(Path(aiokafka.__file__).parent)
_LIBRARY: Final = sysconfig.get_paths()["stdlib"]


class Failure(NamedTuple):
    """An instance ended with an exception."""

    at_s: float
    text: str


class AppInstance:
    """The instance of a number, counted from 1."""

    def __init__(
        self,
        number: int,
        app: App,
        scenario: Scenario,
        loop: AppLoop,
        transcript: Transcript,
        *,
        has_faults: bool = True,
    ) -> None:
        """`has_faults` says whether anything of the run may make clients fail."""
        self.host = f"app-{number}"
        self.failures: list[Failure] = []
        self.process: LoopProcess | None = None
        self._app = app
        self._has_faults = has_faults
        self._scenario = scenario
        self._loop = loop
        self._transcript = transcript
        self._incarnation = 0
        self._is_wanted = False
        self._is_stopping = False
        self._main: asyncio.Task[None] | None = None
        self.has_returned = False
        """It ended by itself and without an exception: it has done what it was for."""

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, paused or not."""
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Start a process; harmless when one runs, or when the application has returned."""
        self._is_wanted = True
        if self.is_alive or self.has_returned:
            return
        self._incarnation += 1
        self._is_stopping = False
        process = self.process = self._loop.process(f"{self.host}.{self._incarnation}")
        self._transcript.note(process.name, "starts")
        self._main = process.spawn(self._run(process))

    def crash(self) -> None:
        """Kill the process, as SIGKILL does."""
        self._is_wanted = False
        if self.process is not None:
            self.process.kill()

    async def stop(self) -> None:
        """Stop as a supervisor does: by the application's handler of SIGTERM, or by cancelling it."""
        self._is_wanted = False
        if self.process is None or self._main is None or not self.process.alive:
            return
        self._is_stopping = True
        if not self._loop.terminate(self.process):
            self._main.cancel()
        await asyncio.wait([self._main, self.process.died], timeout=STOP_S_MAX, return_when="FIRST_COMPLETED")
        if self.is_alive and not self._main.done():
            self._transcript.note(self.process.name, f"did not stop within {STOP_S_MAX:g} s, and is killed")
        self.process.kill()

    async def _run(self, process: LoopProcess) -> None:
        try:
            await self._app(self._scenario.bootstrap_servers, self._scenario)
        except asyncio.CancelledError:
            self._transcript.note(process.name, "was cancelled")
        except NotSimulated as error:
            self._transcript.note(process.name, f"ended with {error!r}")
        except Exception as error:  # noqa: BLE001 - a supervisor starts it again; the run judges it.
            self._failed(process, error)
        else:
            self._transcript.note(process.name, "returned")
            self.has_returned = not self._is_stopping
        await _cancel_others(process)
        if process.alive:
            self._loop.outside_at(self._loop.time(), self._exit, process)

    def _failed(self, process: LoopProcess, error: Exception) -> None:
        where = "".join(traceback.format_exception(error))[-TRACEBACK_SHOWN:]
        self._transcript.note(process.name, f"ended with {error!r}\n{where}")
        raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
        if isinstance(error, AssertionError) and not is_clients_own(raised_in):
            self._scenario.findings.append(f"{self.host}: {str(error).partition(chr(10))[0] or where}")
        elif not (self._has_faults and is_of_clients(error)):
            place = _place(error)
            why = "which no fault explains" if self._has_faults else "without any fault"
            self._scenario.findings.append(f"{self.host} ended with {error!r}, {why}, at {place}")
        self.failures.append(Failure(self._scenario.elapsed_s, f"{self.host}: {error!r}"))

    def _exit(self, process: LoopProcess) -> None:
        process.kill()
        if self._is_wanted and not self.has_returned:
            self._loop.outside_at(self._loop.time() + RESTART_S, self._start_if_wanted)

    def _start_if_wanted(self) -> None:
        if self._is_wanted:
            self.start()


def is_clients_own(file: str) -> bool:
    """Whether code is the client library's: what goes wrong in it, the application must bear."""
    return file.startswith(_CLIENT)


def is_of_clients(error: BaseException) -> bool:
    """Whether a fault of the cluster or of a link explains an exception: clients raise such, or it came of one."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_of_clients(one) for one in error.exceptions)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KafkaError | OSError | TimeoutError) or is_clients_own(_raised_in(cause)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _raised_in(error: BaseException) -> str:
    """The file whose code raised, or called what raised in Python's own library."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return next((file for file in reversed(files) if not file.startswith(_LIBRARY) or is_clients_own(file)), "")


def _place(error: BaseException) -> str:
    """The last line of the application's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    of_app = [one for one in frames if not one.filename.startswith(_LIBRARY) and not is_clients_own(one.filename)]
    last = of_app[-1] if of_app else frames[-1]
    return f"{last.filename}:{last.lineno}"


async def _cancel_others(process: LoopProcess) -> None:
    """End the tasks that the application has left, as `asyncio.run` does."""
    this = asyncio.current_task()
    others = [task for task in process.tasks if task is not this and not task.done()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=STOP_S_MAX)
