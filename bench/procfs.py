"""What a broker has used so far: CPU seconds and resident memory of its whole session, as Linux counts them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def _stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; the name before them may hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _session(leader: int) -> Iterator[int]:
    """The leader and every process it or its children started: they share its session id."""
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit():
            try:
                session = int(_stat_fields(int(entry))[3])
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended between the listing and the reading.
            if leader in (session, int(entry)):
                yield int(entry)


def cpu_seconds(leader: int) -> float:
    """User and system time of the session's processes since their start, to the nanosecond.

    The numbers in /proc/PID/stat come in steps of 10 ms, a tenth of what a whole run of reading may cost; the
    process's own CPU clock (clock_getcpuclockid(3): the pid's complement shifted, type 2) has no such steps.
    """
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in _session(leader))


def resident_bytes(leader: int) -> int:
    return sum(int(_stat_fields(pid)[21]) for pid in _session(leader)) * _PAGE_BYTES
