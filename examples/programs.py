"""What the examples have in common: a broker of their own, programs one after the other, a folder for everything.

Every program writes to a log in `logs/`; every wait is bounded; whoever fails, the end of that log is told. Leaving
the `with` of a `Broker` or a `Background` stops it, however it is left.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

ROOT = Path(__file__).resolve().parents[1]
STOP_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05
_TAIL_LETTERS = 3_000


class ExampleError(Exception):
    """A step of the example did not work; the text is for people."""


class Step(NamedTuple):
    """One thing that was done."""

    name: str
    command: str
    """As one would type it, beginning with the program's own name."""
    seconds: float


class ExampleFolder(NamedTuple):
    """Where an example keeps everything, and what its programs find in their environment."""

    directory: Path
    environment: Mapping[str, str]

    def log(self, name: str) -> Path:
        logs = self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        return logs / f"{name}.log"


def sordini(*words: str) -> list[str]:
    """A command line of the `sordini` that belongs to this Python."""
    return [str(Path(sys.executable).with_name("sordini")), *words]


def as_typed(command: Sequence[str]) -> str:
    """A command as one would type it in the project's folder."""
    words = [Path(command[0]).name, *(word.removeprefix(f"{ROOT}{os.sep}") for word in command[1:])]
    return shlex.join(words)


def run(place: ExampleFolder, name: str, command: Sequence[str], *, seconds_max: float) -> Step:
    """Run a program to its end. Raises ExampleError when it fails or takes too long."""
    began = time.monotonic()
    with Background(place, name, command) as program:
        status = program.wait(seconds_max)
    if status != 0:
        raise ExampleError(f"{name} ended with status {status}\n{program.tail()}")
    return Step(name, as_typed(command), time.monotonic() - began)


class Background:
    """A program that runs until it is stopped, or ends by itself."""

    def __init__(self, place: ExampleFolder, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.command = command
        self._place = place
        self._log = place.log(name)
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0

    def start(self) -> None:
        """Start it, also once more after it has ended; its log goes on."""
        self._began = self._began or time.monotonic()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._place.directory,
                env={**os.environ, **self._place.environment},
                start_new_session=True,  # Ctrl-C reaches the example alone, which stops its programs in order.
            )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def reported(self) -> str:
        """Its command as one would type it."""
        return as_typed(self.command)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} has not been started"
        return self._process

    def stop(self) -> Step:
        """Ask it to end in order and wait; killed when it does not. Fine when it has ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.wait(STOP_SECONDS_MAX)
        return Step(self.name, self.reported, time.monotonic() - self._began)

    def wait(self, seconds_max: float) -> int:
        """Its exit status. Raises ExampleError, and kills it, when it takes longer."""
        try:
            return self.process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_SECONDS_MAX)
            raise ExampleError(f"{self.name} took more than {seconds_max:g} s\n{self.tail()}") from None

    def wait_until(self, condition: Callable[[], bool], seconds_max: float, awaited: str) -> None:
        """Wait while it runs; `awaited` completes the sentence "did not ..."."""
        deadline = time.monotonic() + seconds_max
        while not condition():
            if self.process.poll() is not None:
                raise ExampleError(f"{self.name} ended with status {self.process.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ExampleError(f"{self.name} did not {awaited} in {seconds_max:g} s\n{self.tail()}")
            time.sleep(_POLL_SECONDS)

    def output(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def tail(self) -> str:
        return f"--- {self._log}\n{self.output()[-_TAIL_LETTERS:]}"


class Broker(Background):
    """A broker of the example's own, its data in the example's folder."""

    def __init__(self, place: ExampleFolder) -> None:
        self.bootstrap = f"127.0.0.1:{_free_port()}"
        settings = {"listeners": f"PLAINTEXT://{self.bootstrap}", "log.dirs": str(place.directory / "broker")}
        pairs = (word for key, value in settings.items() for word in ("--override", f"{key}={value}"))
        super().__init__(place, "broker", sordini("serve", *pairs))

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.wait_until(lambda: "is ready" in self.output(), 60.0, "get ready")
        except BaseException:
            self.stop()
            raise
        return self


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop_on_signals() -> None:
    """Let SIGTERM end the example as Ctrl-C does; a shell's background job has both ignored."""
    for asked in (signal.SIGINT, signal.SIGTERM):
        signal.signal(asked, signal.default_int_handler)
