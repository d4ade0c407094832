"""The recipes of a page, run: its ```sh blocks line by line, as an operator pastes them, against real brokers.

A line that begins with `sordini` is run as it is, but for addresses and paths (`Operator.places`). Every other line has
to be named in a table that says what is run in its place, so that an unexpected line fails. No line may wait
without an end.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from tests.outside.processes import ProcessError

ROOT: Final = Path(__file__).resolve().parents[2]
BLOCK: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEADING: Final = re.compile(r"^#{2,3} (.*)$", re.MULTILINE)
ENDLESS: Final = re.compile(r"\b(until|while|sleep|watch)\b")
LINE_SECONDS_MAX: Final = 240.0

Instead = Mapping[str, Callable[[], object] | None]
"""What is done in the place of a line; None for a line that has nothing to do here."""


def recipes(page: Path) -> dict[str, list[str]]:
    """The lines of the blocks below each heading that has some, those between two headings together."""
    parts = HEADING.split(page.read_text(encoding="utf-8"))
    found = {title: BLOCK.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)}
    return {title: [line for block in blocks for line in _lines(block)] for title, blocks in found.items() if blocks}


def _lines(block: str) -> list[str]:
    """A block's commands, comments left out, lines that a backslash joins as one."""
    lines = block.replace("\\\n", " ").splitlines()
    return [bare for line in lines if (bare := re.sub(r"(^|\s+)#.*$", "", line).rstrip())]


class Machine:
    """A broker as an operator keeps it: a file of settings, a directory, a daemon that `sordini` starts and stops."""

    def __init__(self, directory: Path, settings: Mapping[str, object]) -> None:
        directory.mkdir(exist_ok=True)
        self.directory = directory
        self.properties = directory / "server.properties"
        self.data = directory / "data"
        self.settings: dict[str, object] = {"log.dirs": self.data, **settings}
        self.write()

    def write(self) -> None:
        """The file as the settings are now."""
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))

    def end_daemon(self) -> None:
        """Kill the daemon that was started with this machine's file, if it runs."""
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pid = int((Path(str(self.settings["log.dirs"])) / "sordini.pid").read_text())
            if str(self.properties) in Path(f"/proc/{pid}/cmdline").read_text().split("\0"):
                os.kill(pid, signal.SIGKILL)

    @property
    def daemon_log(self) -> str:
        """The end of what the daemon has written; empty before its first start."""
        path = Path(str(self.settings["log.dirs"])) / "sordini.log"
        return f"--- {path}\n{path.read_text()[-3_000:]}" if path.exists() else ""


class Operator:
    """Follows recipes in a directory of their own, on the machine whose turn it is."""

    def __init__(self, directory: Path, bootstrap: str, places: Mapping[str, str]) -> None:
        self.directory = directory
        self.bootstrap = bootstrap
        self.places = dict(places)
        """Texts of the pages, and what stands for each here."""
        self.machines: list[Machine] = []
        self.outputs: dict[str, str] = {}
        """What each line has printed when it was last run."""

    def follow(self, lines: Sequence[str], instead: Instead | None = None) -> None:
        """Run a recipe to its end. Raises ProcessError, which says what happened, at the first line that fails."""
        replaced = instead or {}
        stale = [line for line in replaced if line not in lines]
        assert stale == [], f"no line of the recipe: {stale}"
        for line in lines:
            if line in replaced:
                action = replaced[line]
                if action is not None:
                    action()
                continue
            assert line.split()[0] == "sordini", f"{line!r} is neither a command of ours nor in the table of this test"
            assert ENDLESS.search(line) is None, f"{line!r} may wait for ever"
            self.outputs[line] = self.run(line)

    def run(self, line: str, status: int = 0) -> str:
        """Run one line of a page; what it prints on both outputs. Raises ProcessError for another status."""
        done = self.attempt(line)
        if done.returncode != status:
            logs = "\n".join(machine.daemon_log for machine in self.machines)
            raise ProcessError(f"{line}\nended with {done.returncode}, not {status}\n{done.stdout}\n{logs}")
        return done.stdout

    def attempt(self, line: str) -> subprocess.CompletedProcess[str]:
        for text, here in self.places.items():
            line = line.replace(text, here)
        path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "SORDINI_BOOTSTRAP": self.bootstrap}
        # A daemon inherits the outputs, and so a file is waited for and not the end of a pipe.
        with (self.directory / "output").open("w+") as output:
            done = subprocess.run(
                ["bash", "-e", "-o", "pipefail", "-c", line],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=LINE_SECONDS_MAX,
                check=False,
            )
            output.seek(0)
            return subprocess.CompletedProcess(done.args, done.returncode, output.read())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """End every daemon that runs yet."""
        for machine in self.machines:
            machine.end_daemon()
