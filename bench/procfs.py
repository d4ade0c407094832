"""What a broker and its children have used so far: CPU seconds and resident memory, as Linux counts them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def _stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; the name before them may hold spaces and brackets."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _family(leader: int) -> Iterator[int]:
    """The leader, whatever shares its session, and what those have started in sessions of their own."""
    parents, sessions = {}, {}
    for entry in (path.name for path in Path("/proc").iterdir()):
        if entry.isdigit():
            try:
                fields = _stat_fields(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended between the listing and the reading.
            parents[int(entry)], sessions[int(entry)] = int(fields[1]), int(fields[3])
    for pid in parents:
        at, generations = pid, 0
        while leader not in (at, sessions.get(at)) and at in parents and generations < len(parents):
            at, generations = parents[at], generations + 1
        if leader in (at, sessions.get(at)):
            yield pid


def cpu_seconds(leader: int) -> float:
    """User and system time of a process and all that it started since its start, to the nanosecond.

    The numbers in /proc/PID/stat come in steps of 10 ms, a tenth of what a whole run of reading may cost; the
    process's own CPU clock (clock_getcpuclockid(3): the pid's complement shifted, type 2) has no such steps. Only for
    children that have ended there is no clock any more.
    """
    total = 0.0
    for pid in _family(leader):
        with suppress(OSError):  # It may have ended by now.
            ended = sum(int(field) for field in _stat_fields(pid)[13:15]) / _TICKS_PER_SECOND
            total += time.clock_gettime((~pid << 3) | 2) + ended
    assert total > 0, f"process {leader} has ended"
    return total


def resident_bytes(leader: int) -> int:
    return sum(int(_stat_fields(pid)[21]) for pid in _family(leader)) * _PAGE_BYTES
