"""The load generator (Go, franz-go): built when its sources are newer, run once per measurement."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from bench.procfs import cpu_seconds
from tests.outside.processes import BrokerProcess

ROOT = Path(__file__).resolve().parents[1]
_SOURCES = ROOT / "bench" / "load"
_PROGRAM = ROOT / ".cache" / "bench" / "load"
RUN_SECONDS_MAX = 900
FINISH_SECONDS_MAX = 60


class Load(NamedTuple):
    """What one run measured from the client's side; latencies are 0 for batched work, bytes for all but filling."""

    records: int
    seconds: float
    per_second: float
    p50_us: float
    p99_us: float
    bytes: int = 0
    gap_us: float = 0.0
    """Of the work `gap`: the longest time between two acknowledgements."""
    refused: int = 0
    """Of transactions: requests that were answered CONCURRENT_TRANSACTIONS, and sent again."""


def build() -> None:
    """Compile the load generator if need be. Raises SystemExit where Go is not installed."""
    newest = max(path.stat().st_mtime for path in _SOURCES.iterdir())
    if _PROGRAM.exists() and _PROGRAM.stat().st_mtime > newest:
        return
    if shutil.which("go") is None:
        raise SystemExit(
            "the benchmark's client is written in Go: install Go 1.24 or newer (apt-get install golang-go)"
        )
    _PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-o", str(_PROGRAM), "."], cwd=_SOURCES, check=True)


def load(bootstrap: str, work: str, topic: str, **flags: object) -> Load:
    """Run one kind of work to its end. Raises SystemExit with the client's complaint when it fails."""
    command = _command(bootstrap, work, topic, flags)
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX + 10, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{work} on {bootstrap}: {done.stderr.strip()}")
    return Load(**json.loads(done.stdout))


def _command(bootstrap: str, work: str, topic: str, flags: dict[str, object]) -> list[str]:
    command = [str(_PROGRAM), "-broker", bootstrap, "-work", work, "-topic", topic, "-deadline", f"{RUN_SECONDS_MAX}s"]
    return command + [f"-{name.replace('_', '-')}={value}" for name, value in flags.items()]


class Conversation:
    """A load that prints its progress, one word in a line, and then its result."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self._process = process
        self._name = name

    def expect(self, word: str) -> None:
        """Wait until it says this. Raises SystemExit when it ends instead; its own deadline bounds the wait."""
        if self._line() != word:
            self._fail()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def enough(self) -> None:
        """Let it end before it has made all its requests."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def result(self) -> Load:
        line = self._line()
        if not line.startswith("{"):
            self._fail()
        return Load(**json.loads(line))

    def finish(self) -> None:
        """Let it close what it holds, and wait until it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if self._process.wait(FINISH_SECONDS_MAX) != 0:
            self._fail()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def _fail(self) -> NoReturn:
        assert self._process.stderr is not None
        raise SystemExit(f"{self._name}: {self._process.stderr.read().strip()}")


@contextmanager
def conversation(bootstrap: str, work: str, topic: str, **flags: object) -> Iterator[Conversation]:
    command = _command(bootstrap, work, topic, flags)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Conversation(process, f"{work} on {bootstrap}")
        finally:
            process.kill()


def paced(broker: BrokerProcess, work: str, topic: str, **flags: object) -> tuple[Load, float]:
    """What the client measured, and the broker's CPU seconds for that alone: neither connecting nor warming up."""
    return paced_together([broker], work, topic, **flags)


def paced_together(brokers: Sequence[BrokerProcess], work: str, topic: str, **flags: object) -> tuple[Load, float]:
    """As `paced`, with the CPU seconds of several brokers added up."""
    bootstrap = ",".join(broker.bootstrap for broker in brokers)

    def used() -> float:
        return sum(cpu_seconds(broker.pid) for broker in brokers)

    with conversation(bootstrap, work, topic, **flags) as load:
        load.expect("ready")
        before = used()
        load.go_on()
        measured = load.result()
        spent = used() - before
        load.finish()
        return measured, spent
