"""The command as its user runs it, its report as JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.outside.needs import need, need_program

PROGRAM = str(Path(sys.prefix) / "bin" / "sordini")
FUSE_MOUNT = str(Path(__file__).with_name("fuse_mount.py"))
CLOCK_CALLS = "adjtimex,clock_adjtime"
RUN_S_MAX = 60


class Examined(NamedTuple):
    """How the command ended, and what it found."""

    status: int
    report: dict[str, Any]

    @property
    def wrong(self) -> list[str]:
        """The names of the faults."""
        return [one["fault"] for one in self.report["findings"] if not one["note"]]

    @property
    def notes(self) -> list[str]:
        return [one["fault"] for one in self.report["findings"] if one["note"]]

    @property
    def text(self) -> str:
        """The report in full, for a failing test."""
        return json.dumps(self.report, indent=1)

    def finding(self, fault: str) -> dict[str, Any]:
        found: dict[str, Any] = next(one for one in self.report["findings"] if one["fault"] == fault)
        return found


def command_line(directory: Path, bootstrap: str, properties: Mapping[str, str] | None = None, *more: str) -> list[str]:
    """The words of the command; properties go through a file."""
    words = [PROGRAM, "doctor", bootstrap, *more]
    if properties:
        file = directory / "client.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        words += ["--command-config", str(file)]
    return words


def examined(words: Sequence[str], prefix: Sequence[str] = ()) -> Examined:
    """Run it; it prints JSON."""
    done = subprocess.run([*prefix, *words, "--json"], capture_output=True, text=True, check=False, timeout=RUN_S_MAX)
    assert done.stdout, (done.returncode, done.stderr)
    assert not done.stderr, done.stderr
    return Examined(done.returncode, json.loads(done.stdout))


def as_root(*words: str) -> tuple[str, ...]:
    """Words before a command; the test is skipped where they do not work."""
    works = shutil.which(words[0]) is not None and os.geteuid() == 0
    need(works and _work(words), " ".join(words[:2]), "root, util-linux and a kernel that allows namespaces")
    return words


def _work(words: Sequence[str]) -> bool:
    return subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0


def in_mounts(script: str) -> tuple[str, ...]:
    """Words that mount something for the command alone."""
    return as_root("unshare", "-m", "sh", "-c", f'{script} && exec "$@"', "sh")


def on_fuse(directory: Path, kind: str) -> tuple[str, ...]:
    """Words that mount a file system of this type for the command alone; a process of this machine serves it."""
    need(Path("/dev/fuse").exists(), "/dev/fuse", "a kernel with FUSE")
    return as_root("unshare", "-m", sys.executable, FUSE_MOUNT, str(directory), kind)


def where_the_clock_call(outcome: str) -> tuple[str, ...]:
    """Words that give the command another outcome of adjtimex, as strace writes it: `retval=5`, `error=EPERM`."""
    words = (need_program("strace", "strace"), "-f", "-qq", "-o", "/dev/null")
    words += ("-e", f"trace={CLOCK_CALLS}", "-e", f"inject={CLOCK_CALLS}:{outcome}")
    need(_work(words), "strace of an own process", "a system that allows it (ptrace)")
    return words
