"""What a broker has used so far, read from /proc: CPU seconds and resident memory of its whole session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def _stat_fields(pid: int | str) -> list[str]:
    """Fields of /proc/PID/stat from the state on; the name before them may hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _session(leader: int) -> Iterator[list[str]]:
    """The leader and every process it or its children started: they share its session id."""
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit():
            try:
                fields = _stat_fields(entry)
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended between the listing and the reading.
            if int(fields[3]) == leader or int(entry) == leader:
                yield fields


def cpu_seconds(leader: int) -> float:
    """User and system time of the session since its start; children that ended and were waited for included."""
    ticks = sum(sum(int(field) for field in fields[11:15]) for fields in _session(leader))
    return ticks / _TICKS_PER_SECOND


def resident_bytes(leader: int) -> int:
    return sum(int(fields[21]) for fields in _session(leader)) * _PAGE_BYTES
