"""`make demo`: run the activity example with a Python that has what it needs; install that only where none has.

    python3 scripts/demo.py [OPTIONS of examples.activity]

Searched in this order: `.venv`, the active environment, the Python that runs this script, and those on the PATH. One
that lacks only small packages gets these. If none has PySpark, `.venv` is created. Needs only Python's standard
library.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
VENV_PYTHON = ROOT / ".venv" / "bin" / "python"
PYSPARK_MIN = (4, 2)
LARGE = ("sordini", "pyspark", "pandas", "pyarrow", "numpy", "deltalake", "yaml")
SMALL = {"matplotlib": "matplotlib>=3.9", "kafka": "kafka-python>=3.0.12,<4"}
_EVERY_SECONDS = 1.0
_QUIET_SECONDS = 30.0

_INSPECT = """
import importlib.metadata, importlib.util, json, sys
version = lambda name: importlib.metadata.version(name) if importlib.util.find_spec(name) else ""
print(json.dumps([version("pyspark"), [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]]))
"""


class Found(NamedTuple):
    """A Python, and the packages that it lacks for the demo."""

    python: Path
    pyspark: str
    missing: list[str]

    @property
    def serves(self) -> bool:
        """Whether it has all large packages."""
        numbers = tuple(int(part) for part in self.pyspark.split(".")[:2] if part.isdecimal())
        return numbers >= PYSPARK_MIN and not set(self.missing) - set(SMALL)


def main(arguments: list[str]) -> None:
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        sys.exit("the demo needs Java 17 or newer, for Spark: put it on the PATH, or set JAVA_HOME")
    found = next((one for one in map(inspect, candidates()) if one is not None and one.serves), None)
    if found is None:
        say("no Python here has PySpark: installing it and the plotting packages into .venv")
        say("about 600 MB come from the package index; two to five minutes, once")
        install([sys.executable, str(ROOT / "scripts" / "venv.py"), "demo"])
        found = inspect(VENV_PYTHON)
        if found is None or not found.serves:
            sys.exit("the installation is incomplete: see above")
    elif found.missing:
        packages = [SMALL[name] for name in found.missing]
        say(f"installing {' and '.join(found.missing)} beside PySpark {found.pyspark} in {found.python.parents[1]}")
        install([str(found.python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *packages])
    else:
        say(f"PySpark {found.pyspark} is in {found.python.parents[1]}: nothing is installed")
    python = str(found.python)
    os.chdir(ROOT)
    os.execv(python, [python, "-W", "ignore::DeprecationWarning", "-m", "examples.activity", *arguments])  # noqa: S606


def candidates() -> list[Path]:
    """Pythons to check, each once; the Python of an environment is not resolved to its base."""
    active = os.environ.get("VIRTUAL_ENV")
    folders = [Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each]
    found = [VENV_PYTHON, *([Path(active, "bin", "python")] if active else []), Path(sys.executable)]
    found += [folder / name for folder in folders for name in ("python3", "python")]
    return list(dict.fromkeys(path for path in found if path.exists()))


def inspect(python: Path) -> Found | None:
    """The packages of a Python; None for one that does not run."""
    command = [str(python), "-c", _INSPECT, *LARGE, *SMALL]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        return None
    pyspark, missing = json.loads(done.stdout)
    return Found(python, pyspark, missing)


def install(command: list[str]) -> None:
    """Run an installation and report that it is in progress."""
    began = reported = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:  # noqa: S603
        while process.poll() is None:
            try:
                process.wait(_EVERY_SECONDS)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
                if sys.stderr.isatty():
                    sys.stderr.write(f"\r\x1b[Kinstalling, {now - began:.0f} s")
                elif now - reported >= _QUIET_SECONDS:
                    say(f"installing, {now - began:.0f} s")
                    reported = now
    sys.stderr.write("\r\x1b[K" if sys.stderr.isatty() else "")
    if process.returncode != 0:
        sys.exit(f"failed with status {process.returncode}: {' '.join(command)}")
    say(f"installed in {time.monotonic() - began:.0f} s")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
