"""Measurements of a broker under attack: memory, descriptors, log lines, directories."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

GROWTH_BYTES_MAX: Final = 24 * 1024 * 1024
"""How much more memory a broker may have in the last part of a run than when it had warmed up."""
FILES_MAX: Final = 100
"""How many more descriptors it may have when the attack is over than before: those of logs that it keeps open."""
WARM: Final = 0.4
"""The part of a run that counts as warming up."""
LINES_MAX: Final = 20

_OWN_FILES: Final = re.compile(
    r"(\.lock|\.kafka_cleanshutdown|meta\.properties|sordini\.(pid|log)|coordination\.sqlite.*|"
    r"[a-z-]+-checkpoint(\.tmp)?)"
)
_PARTITION: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}-\d{1,10}(\.[0-9a-f]{32}-delete)?")


class Sample(NamedTuple):
    """What a process has at a moment; `at` is seconds since the start."""

    at: float
    resident_bytes: int
    files: int


def sample(pid: int, at: float) -> Sample:
    """Raises OSError when the process is gone."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    if found is None:
        raise ProcessLookupError(f"process {pid} has no memory")
    return Sample(at, int(found[1]) * 1024, len(list(Path(f"/proc/{pid}/fd").iterdir())))


def growth(samples: Sequence[Sample]) -> int:
    """By how many bytes memory grew after the warm-up: the middle of the last fifth against that of the first."""
    warm = samples[int(len(samples) * WARM) :]
    if len(warm) < 5:
        return 0
    fifth = max(1, len(warm) // 5)
    first, last = (median(one.resident_bytes for one in part) for part in (warm[:fifth], warm[-fifth:]))
    return int(last - first)


class LogLines:
    """The broker's log, read as it grows. Each line that means a fault is a finding."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.events: Counter[str] = Counter()
        self.findings: list[str] = []

    def read(self) -> None:
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            self._judge(line)

    def _judge(self, line: str) -> None:
        try:
            fields = json.loads(line)
        except ValueError:
            fields = {}
        if fields:
            self.events[f"{fields.get('level')}: {fields.get('event')}"] += 1
        is_fault = (
            fields.get("level") == "error" or fields.get("event") == "log recovery finding" or "Traceback" in line
        )
        if is_fault and len(self.findings) < LINES_MAX:
            self.findings.append(line.replace("\\n", "\n"))


def strangers(logs: Path) -> list[str]:
    """Names in a log directory that are neither a partition's nor the broker's own.

    What an entry is comes with the listing: a look at the path afterwards may find that a deletion has renamed it.
    """
    with os.scandir(logs) as entries:
        return sorted(
            entry.name
            for entry in entries
            if (_PARTITION if entry.is_dir(follow_symlinks=False) else _OWN_FILES).fullmatch(entry.name) is None
        )


def around(directory: Path, logs: Path) -> set[str]:
    """Everything below a directory but what is in the log directory, which changes while it is read."""
    found: set[str] = set()
    for parent, folders, files in os.walk(directory):
        found.update(str(Path(parent, name).relative_to(directory)) for name in (*folders, *files))
        folders[:] = [name for name in folders if Path(parent, name) != logs]
    return found
