"""Real programs started for tests: each in its own process, waited for, stopped by its own id.

A program writes its output to `<directory>/<name>.log`. Every wait is bounded, and a caller that waits in
vain raises `ProcessError` with the end of that log in the message, so that a red CI run is enough to
see why. Nothing here ever looks a process up by name.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.outside.ports import free_port, is_listening

_POLL_SECONDS = 0.01
_LOG_TAIL_BYTES = 4_000
_DEV_READY = re.compile(
    r"^sordini is ready: (\d) brokers? of cluster ([\w-]{22}) at ((?:(?:127\.0\.0\.1|localhost):\d+,?)+?)(?:, control at ([\w.:]+))? \(\d+\.\d\d s\)$",
    re.MULTILINE,  # Log lines may follow it.
)


class ProcessError(AssertionError):
    """A program did not start, ended by itself, or did not do in time what was waited for."""


class OutsideProcess(ABC):
    """One program; subclasses say how it is started and when it is ready."""

    name = "process"
    start_seconds_max = 60.0
    stop_seconds_max = 20.0
    starts_max = 3
    """So often a start is tried, if what ends it is the busy machine (`was_too_slow`)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.log_path = directory / f"{self.name}.log"
        self.prefix: Sequence[str] = ()
        """Words before the command, such as those that lead into a network namespace; they have to `exec`."""
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0  # Where in the log file the present life of the program begins.

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The program with its arguments; asked again at every start."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Whether it serves by now; polled while it starts."""

    def environment(self) -> Mapping[str, str]:
        """Ours, but with bytecode that is kept, as that of an installed package is: a start would take twice as long."""
        return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start the program and return when it is ready to serve."""
        for left in reversed(range(self.starts_max)):
            self.launch()
            try:
                self.wait_until(self.is_ready, self.start_seconds_max, "be ready")
                break
            except BaseException as error:
                self.kill()
                if not (isinstance(error, ProcessError) and left and self.was_too_slow()):
                    raise
        return self

    def was_too_slow(self) -> bool:
        """Whether a start has failed for want of time alone, so that another may do."""
        return False

    def launch(self) -> None:
        """Start the program and return at once, whether or not it will ever be ready."""
        assert not self.is_running, f"{self.name} is running already"
        with self.log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*self.prefix, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env=dict(self.environment()),
                start_new_session=True,  # Ctrl-C reaches pytest alone, and pytest stops us in order.
            )

    def stop(self) -> int | None:
        """Ask it to end and wait; killed when it takes too long. Its exit status, or None if never started."""
        if self._process is None:
            return None
        self.terminate()
        try:
            return self._process.wait(self.stop_seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ProcessError(f"{self.name} did not stop in {self.stop_seconds_max} s\n{self.tail()}") from None

    def terminate(self) -> None:
        """Ask it to end (SIGTERM) and do not wait."""
        if self.is_running:
            assert self._process is not None
            self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL) and wait until the system has let go of it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)

    @contextmanager
    def hung(self) -> Iterator[None]:
        """It neither runs nor is gone, as in a long collection of garbage; in the end it runs on.

        SIGSTOP alone does not do it: until the thread that takes the signal is scheduled, the others run on, and on a
        busy machine ZooKeeper answered dozens of requests. The system reports a child as stopped when all of its
        threads are.
        """
        os.kill(self.pid, signal.SIGSTOP)
        try:
            found = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            assert found is not None
            assert found.si_code == os.CLD_STOPPED, f"{self.name} has ended\n{self.tail()}"
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def wait_for_exit(self, seconds: float) -> int:
        """The exit status of a program that is expected to end by itself."""
        assert self._process is not None, f"{self.name} has not been started"
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"{self.name} still ran after {seconds} s\n{self.tail()}") from None

    def wait_until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Poll `condition` while the program runs; `what` completes the sentence "did not ..."."""
        deadline = time.monotonic() + seconds
        while not condition():
            if not self.is_running:
                status = None if self._process is None else self._process.returncode
                raise ProcessError(f"{self.name} ended with status {status}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ProcessError(f"{self.name} did not {what} in {seconds} s\n{self.tail()}")
            time.sleep(_POLL_SECONDS)

    def output(self) -> str:
        """What it has printed since it was last started."""
        if not self.log_path.exists():
            return ""
        with self.log_path.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def tail(self) -> str:
        return f"--- {self.log_path}\n{self.output()[-_LOG_TAIL_BYTES:]}"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class BrokerProcess(OutsideProcess):
    """A broker with one plaintext listener on 127.0.0.1, ours or Apache Kafka's."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.port = free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"

    @property
    def data_directory(self) -> Path:
        return self.directory / "data"

    def restart(self) -> None:
        """An orderly stop, then a start with the same data and port."""
        self.stop()
        self.start()


class SordiniProcess(BrokerProcess):
    """Our broker as an operator starts it: the installed command with `--override` pairs."""

    name = "sordini"
    start_seconds_max = 20.0

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(directory)
        self.overrides: dict[str, object] = {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self.data_directory),
            **(overrides or {}),
        }

    def command(self) -> list[str]:
        program = Path(sys.prefix) / "bin" / "sordini"
        pairs = [f"{key}={value}" for key, value in self.overrides.items()]
        return [str(program), "serve", *(word for pair in pairs for word in ("--override", pair))]

    def is_ready(self) -> bool:
        # It prints one line with its listeners when everything is loaded and served.
        return "sordini is ready" in self.output() and is_listening(self.port)


class SecureProcess(SordiniProcess):
    """Our broker with `--secure`, listening with TLS and logins on 127.0.0.1; its files are in `secure_directory`."""

    def __init__(self, directory: Path, overrides: Mapping[str, object] | None = None) -> None:
        super().__init__(directory)
        self.overrides |= {"listeners": f"SASL_SSL://{self.bootstrap}", **(overrides or {})}
        self.options: list[str] = []

    @property
    def secure_directory(self) -> Path:
        return self.directory / "data-secure"

    @property
    def client_properties(self) -> Path:
        """For Apache Kafka's tools and our commands."""
        return self.secure_directory / "client.properties"

    @property
    def password(self) -> str:
        return (self.secure_directory / "password").read_text()

    def command(self) -> list[str]:
        return [*super().command(), "--secure", *self.options]


class DevProcess(OutsideProcess):
    """A whole cluster of ours in one process (`sordini dev`), on ports that the system chose."""

    name = "dev"
    start_seconds_max = 20.0

    def __init__(self, directory: Path, *options: str) -> None:
        super().__init__(directory)
        self._options = options

    def command(self) -> list[str]:
        program = Path(sys.prefix) / "bin" / "sordini"
        return [str(program), "dev", "--port", "0", "--directory", str(self.directory / "data"), *self._options]

    def is_ready(self) -> bool:
        return "sordini is ready" in self.output()

    @property
    def cluster_id(self) -> str:
        return self._ready[2]

    @property
    def ports(self) -> list[int]:
        return [int(address.rpartition(":")[2]) for address in self._ready[3].split(",")]

    @property
    def bootstrap(self) -> str:
        return self._ready[3]

    @property
    def control(self) -> str:
        """`host:port` of the control, where the options have one."""
        return self._ready[4]

    @property
    def _ready(self) -> re.Match[str]:
        found = _DEV_READY.search(self.output())
        assert found is not None, self.tail()
        return found
