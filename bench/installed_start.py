"""`.venv/bin/python -m bench.installed_start --against main`: a start from an installed wheel, beside another commit's.

For both commits a wheel is built and installed into a bare environment of its own (`--python`, Debian's by default),
and `sordini serve` is started on an empty directory, in turns. A start counts from the creation of the process to the
first answer to ApiVersions. Only committed files are measured. `--write` puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench import starting, table
from bench.client import ROOT
from bench.goals import ours_at_most
from bench.starting import Start
from tests.outside.processes import SordiniProcess

PART: Final = "installed start"
GOAL: Final = ours_at_most(0.35, "s")
RUNS_MIN: Final = 3
_IMPORT: Final = re.compile(r"^import time: +\d", re.MULTILINE)


class Installed(NamedTuple):
    """One commit, installed in an environment of its own."""

    commit: str
    program: Path


class _InstalledProcess(SordiniProcess):
    def __init__(self, directory: Path, installed: Installed, environment: Mapping[str, str]) -> None:
        super().__init__(directory)
        self._installed = installed
        self._environment = environment

    def command(self) -> list[str]:
        return [str(self._installed.program), *super().command()[1:]]

    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), **self._environment}


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        home = Path(name)
        theirs, ours = (
            _install(home / side, commit, arguments.python)
            for side, commit in (("against", arguments.against), ("this", "HEAD"))
        )
        lines = _rows(home, theirs, ours, arguments.runs)
    text = "\n".join(
        [f"{time.strftime('%Y-%m-%d')}; {starting.machine()}; {_note(theirs, ours, arguments)}", "", *lines]
    )
    print(text, flush=True)
    if arguments.write:
        table.write(ROOT / "docs", PART, text)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.installed_start", description=__doc__)
    parser.add_argument("--against", required=True, metavar="COMMIT", help="the commit to compare this one with")
    parser.add_argument("--runs", type=int, default=15, help="starts of each, after one that does not count")
    parser.add_argument("--python", default="/usr/bin/python3", help="the Python of both environments")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.runs < RUNS_MIN:
        parser.error(f"--runs must be at least {RUNS_MIN}: the table shows medians")
    return arguments


def _install(home: Path, commit: str, python: str) -> Installed:
    """Build the wheel of a commit and install it with what it requires, compiled, as pip does for everyone."""
    source, environment = home / "source", home / "environment"
    source.mkdir(parents=True)
    short = _output("git", "-C", str(ROOT), "rev-parse", "--short=8", commit).strip()
    archive = home / "source.tar"
    _output("git", "-C", str(ROOT), "archive", "--output", str(archive), short)
    _output("tar", "--extract", "--file", str(archive), "--directory", str(source))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _output(*pip, "wheel", "--no-deps", "--wheel-dir", str(home), str(source))
    (wheel,) = home.glob("*.whl")
    _output(python, "-m", "venv", "--without-pip", str(environment))
    _output(*pip, "--python", str(environment / "bin" / "python"), "install", str(wheel))
    return Installed(short, environment / "bin" / "sordini")


def _rows(home: Path, theirs: Installed, ours: Installed, runs: int) -> list[str]:
    """Starts in turns, so that whatever else the machine does falls on both."""
    seen: tuple[list[Start], list[Start]] = ([], [])
    for number in range(runs + 1):
        for side, found in zip((theirs, ours), seen, strict=True):
            start = _start(home / f"{side.commit}-{number}", side)
            if number:  # The first one fills the page cache.
                found.append(start)
        if number:
            print(f"{seen[0][-1].seconds:.3f} s  {seen[1][-1].seconds:.3f} s", file=sys.stderr, flush=True)
    rows = [table.head(theirs.commit, ours.commit, goals=True)]
    for what, figure, name, pick, goal in (
        ("process start to first answer, median", "s", "seconds", median, GOAL),
        ("", "CPU, s", "cpu_seconds", median, None),
        ("the fastest", "s", "seconds", min, None),
    ):
        values = [float(pick(getattr(one, name) for one in side)) for side in seen]
        rows.append(table.judged_row(what, figure, values[0], values[1], goal, digits=3))
    modules = [_modules(home / f"{side.commit}-modules", side) for side in (theirs, ours)]
    rows.append(table.judged_row("modules imported until the broker is ready", "", *modules, None))
    return rows


def _start(directory: Path, installed: Installed, environment: Mapping[str, str] | None = None) -> Start:
    process = _InstalledProcess(directory, installed, environment or {})
    start = starting.timed_start(process, watch_idle=False)
    process.stop()
    return start


def _modules(directory: Path, installed: Installed) -> int:
    """How many modules a start imports, of all packages and of Python itself."""
    _start(directory, installed, {"PYTHONPROFILEIMPORTTIME": "1"})
    (log,) = directory.glob("*.log")
    before, ready, _ = log.read_text().partition("sordini is ready")
    assert ready
    return len(_IMPORT.findall(before))


def _note(theirs: Installed, ours: Installed, arguments: argparse.Namespace) -> str:
    code = "import platform, sysconfig; print(platform.python_version())"
    found = _output(arguments.python, "-c", code).strip()
    return (
        f"{platform.python_implementation()} {found} ({arguments.python}); commits {theirs.commit} and {ours.commit}; "
        f"{arguments.runs} starts of each, in turns. Again: `.venv/bin/python -m bench.installed_start --against "
        f"{theirs.commit} --runs {arguments.runs} --write`."
    )


def _output(*command: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
