"""The load generator (Go, franz-go): built when its sources are newer, run once per measurement."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_SOURCES = ROOT / "bench" / "load"
_PROGRAM = ROOT / ".cache" / "bench" / "load"
RUN_SECONDS_MAX = 150


class Load(NamedTuple):
    """What one run measured from the client's side; latencies are 0 for batched work."""

    records: int
    seconds: float
    per_second: float
    p50_us: float
    p99_us: float


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
    command = [str(_PROGRAM), "-broker", bootstrap, "-work", work, "-topic", topic]
    command += [f"-{name}={value}" for name, value in flags.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{work} on {bootstrap}: {done.stderr.strip()}")
    return Load(**json.loads(done.stdout))
