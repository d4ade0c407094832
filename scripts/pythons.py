"""Run the fast tests under every Python that Sordini supports and this machine has: `make pythons`.

    python3 scripts/pythons.py [--only 3.13] [--workers 2] [pytest's options]

Pythons are those named `python3.X` in PATH, pyenv's and uv's: of each minor version the newest release. Each has an
environment in `.cache/pythons/3.X` with the dependency group `tests`; of it, what has no wheel for that version is left
out, and named. The selection of tests is TESTS, below: without Java, Spark, and what takes minutes.

The exit status is 0 when at least one Python was found, and all tests passed under each.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = ROOT / ".cache" / "pythons"
MINORS = range(11, 15)
"""Of Python 3. The classifiers in pyproject.toml are those that this was run with."""
ANSWER_SECONDS_MAX = 20
TEST_SECONDS_MAX = 3600

TESTS = (
    "tests/unit",
    "tests/network",
    "tests/scenarios",
    "tests/contract",
    "tests/testing",
    "tests/sim/test_broker.py",
    "tests/sim/test_loop.py",
    "tests/sim/test_network.py",
    "tests/sim/test_store.py",
    "tests/process/test_starting.py",
    "tests/process/test_daemon.py",
    "tests/process/test_log_pipes.py",
    "tests/process/test_without_linux.py",
)
LEFT_OUT = (
    "tests/unit/pipeline",  # Spark and numpy, as the next.
    "tests/unit/examples",
    "tests/unit/bench",
    "tests/testing/processes",  # Java, Go and minutes.
    "tests/contract/test_zookeeper_session.py",  # A real ZooKeeper.
    "tests/network/test_zookeeper_tls.py",
)
NOT_NAMED = "not zookeeper"
"""The contract suite has ZooKeeper as a parameter."""

ABOUT = """import json, platform, sys, sysconfig
print(json.dumps([sys.implementation.name, list(sys.version_info[:3]), sys.version_info.releaselevel,
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")), sys.executable]))"""


class Interpreter(NamedTuple):
    """A Python that can run the tests."""

    version: tuple[int, int, int]
    path: str

    @property
    def minor(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


class Result(NamedTuple):
    """A row of the table."""

    python: str
    path: str
    summary: str
    is_passed: bool


def main() -> int:
    options, pytest_options = arguments()
    found = newest_of_each(filter(None, map(about, candidates())))
    wanted = [minor for minor in (f"3.{number}" for number in MINORS) if options.only in (None, minor)]
    results = []
    for minor in wanted:
        interpreter = found.get(minor)
        if interpreter is None:
            print(f"{minor}: no interpreter on this machine", file=sys.stderr)
            continue
        results.append(tested(interpreter, options.workers, pytest_options))
    missing = ", ".join(minor for minor in wanted if minor not in found)
    print_table(results, missing)
    return 0 if results and all(result.is_passed for result in results) else 1


def arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=[f"3.{number}" for number in MINORS], help="one version")
    parser.add_argument("--workers", type=int, default=2, help="tests at once (default 2)")
    return parser.parse_known_args()


def candidates() -> Iterator[Path]:
    """Files that may be Pythons, each once."""
    home = Path.home()
    folders = [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or home / ".local" / "share" / "uv" / "python")
    installed = [folder / "bin" for root in (pyenv, uv) if root.is_dir() for folder in sorted(root.iterdir())]
    seen = set()
    for folder in (*folders, Path("/usr/bin"), *installed):
        for name in (f"python3.{number}" for number in MINORS):
            path = folder / name
            if path.is_file() and path.resolve() not in seen:
                seen.add(path.resolve())
                yield path


def about(path: Path) -> Interpreter | None:
    """What a file says of itself; None for what is no released CPython with a global lock, or does not run."""
    try:
        asked = [str(path), "-I", "-c", ABOUT]
        ended = subprocess.run(  # noqa: S603
            asked, check=True, capture_output=True, timeout=ANSWER_SECONDS_MAX, stdin=subprocess.DEVNULL
        )
        implementation, version, level, has_no_lock, executable = json.loads(ended.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if implementation != "cpython" or level != "final" or has_no_lock:
        return None
    major, minor, micro = version
    return Interpreter((major, minor, micro), executable)


def newest_of_each(interpreters: Iterable[Interpreter]) -> dict[str, Interpreter]:
    """By minor version; of the same release the one found first."""
    found: dict[str, Interpreter] = {}
    for interpreter in interpreters:
        best = found.get(interpreter.minor)
        if best is None or interpreter.version > best.version:
            found[interpreter.minor] = interpreter
    return found


def tested(interpreter: Interpreter, workers: int, pytest_options: list[str]) -> Result:
    version = ".".join(map(str, interpreter.version))
    python, left_out = installed(interpreter)
    if python is None:
        return Result(version, interpreter.path, "the environment could not be made, see above", is_passed=False)
    log = ENVIRONMENTS / f"{interpreter.minor}.log"
    command = [str(python), "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-n", str(workers)]
    command += ["-k", NOT_NAMED, *TESTS, *(f"--ignore={path}" for path in LEFT_OUT), *pytest_options]
    print(f"{interpreter.minor}: running the tests, output in {log.relative_to(ROOT)}", file=sys.stderr)
    began = time.monotonic()
    with log.open("wb") as output:
        try:
            ended = subprocess.run(  # noqa: S603
                command,
                check=False,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TEST_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            return Result(version, interpreter.path, f"not done after {TEST_SECONDS_MAX} s", is_passed=False)
    text = log.read_text(errors="replace")
    summary = summary_of(text) or f"pytest ended with status {ended.returncode}"
    summary += f" ({time.monotonic() - began:.0f} s)"
    if ended.returncode:
        print(*re.findall(r"^(?:FAILED|ERROR) .*", text, re.MULTILINE), sep="\n", file=sys.stderr)
    if left_out:
        summary += f"; left out: {', '.join(left_out)}"
    return Result(version, interpreter.path, summary, is_passed=ended.returncode == 0)


def summary_of(output: str) -> str:
    """The numbers of pytest's last line: "3 failed, 9684 passed"; empty where it has none."""
    found = re.findall(r"^((?:\d+ [a-z]+(?:, )?)+) in \d", output, re.MULTILINE)
    return found[-1] if found else ""


def installed(interpreter: Interpreter) -> tuple[Path | None, list[str]]:
    """The Python of an environment with Sordini and the tests' libraries; and the libraries without a wheel."""
    folder = ENVIRONMENTS / interpreter.minor
    folder.parent.mkdir(parents=True, exist_ok=True)
    python = folder / "bin" / "python"
    made_of = about(python)
    if python.exists() and (made_of is None or made_of.version != interpreter.version):
        subprocess.run([interpreter.path, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)  # noqa: S603
    made = [interpreter.path, str(ROOT / "scripts" / "venv.py"), "--into", str(folder)]
    if subprocess.run(made, check=False, stdin=subprocess.DEVNULL).returncode:  # noqa: S603
        return None, []
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--only-binary", ":all:"]
    libraries = requirements()
    if succeeds([*pip, *libraries]):
        return python, []
    # `--only-binary`: a library that has to be compiled first would need its C libraries.
    return python, [library for library in libraries if not succeeds([*pip, library])]


def requirements() -> list[str]:
    """The dependency group `tests`."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    found: list[str] = groups["tests"]
    return found


def succeeds(command: list[str]) -> bool:
    quiet = subprocess.DEVNULL
    return subprocess.run(command, check=False, cwd=ROOT, stdin=quiet, stderr=quiet).returncode == 0  # noqa: S603


def print_table(results: list[Result], missing: str) -> None:
    width = max((len(result.path) for result in results), default=0)
    for result in results:
        word = "passed" if result.is_passed else "FAILED"
        print(f"{result.python:8} {word}  {result.path:{width}}  {result.summary}")
    if missing:
        print(f"not run, because this machine has no such Python: {missing}")


if __name__ == "__main__":
    sys.exit(main())
