"""What a machine has and how it is set, read and never changed.

what                         Linux                           elsewhere
limit of open files          the hard limit                  DESCRIPTORS_MAX at most
memory that is available     MemAvailable and the cgroup     unknown
the file system of a path    mountinfo                       unknown
which process has a port     the sockets of processes        unknown
whether the clock is kept    adjtimex                        unknown
which boot this is           boot_id and the pid namespace   unknown
when a process started       stat of the process             unknown

Unknown is None; so is what another user's process hides, or a container does not show.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sordini.system.linux import USES_LINUX_CALLS
from sordini.system.processes import DESCRIPTORS_MAX

_LISTENS: Final = "0A"
_UNSYNCHRONISED: Final = 5
"""TIME_ERROR of adjtimex: nothing keeps the clock."""
_TIMEX_BYTES: Final = 512
"""More than struct timex has; modes of 0 only read."""
_UNLIMITED: Final = 1 << 60
"""cgroup 1 has a number near 2^63 for no limit."""


def descriptor_limit() -> int | None:
    """Descriptors that a process may have once it has raised its own limit; None for any number."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        return None if USES_LINUX_CALLS else DESCRIPTORS_MAX
    return hard if USES_LINUX_CALLS else min(hard, DESCRIPTORS_MAX)


def available_memory() -> int | None:
    """Bytes that a new process could use without swapping: of the machine, and of the container it is in."""
    if not USES_LINUX_CALLS:
        return None
    found = [
        bytes_ for bytes_ in (_of_machine(), _of_cgroup("memory.max", "memory.current"), _of_old_cgroup()) if bytes_
    ]
    return min(found, default=None)


def file_system_of(path: str) -> str | None:
    """The type of the file system that holds a path: ext4, xfs, tmpfs, nfs4."""
    if not USES_LINUX_CALLS:
        return None
    real, best, found = os.path.realpath(path), "", None
    for line in _lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        mounted = before.split()[4].encode().decode("unicode_escape")
        is_above = real == mounted or real.startswith(mounted.rstrip("/") + "/")
        if is_above and len(mounted) >= len(best):
            best, found = mounted, after.split()[0]
    return found


def port_holder(port: int) -> tuple[int, str] | None:
    """The number and the name of the process that listens on a TCP port, where it may be seen."""
    if not USES_LINUX_CALLS:
        return None
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").iterdir() if wanted else ():
        if process.name.isdecimal():
            with contextlib.suppress(OSError):
                if any(str(descriptor.readlink()) in wanted for descriptor in (process / "fd").iterdir()):
                    return int(process.name), (process / "comm").read_text(encoding="utf-8").strip()
    return None


def is_clock_kept() -> bool | None:
    """Whether a time service keeps the machine's clock right."""
    if not USES_LINUX_CALLS:
        return None
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _UNSYNCHRONISED


def boot_identity() -> str | None:
    """Differs between machines, their boots, and containers that number their processes apart."""
    if not USES_LINUX_CALLS:
        return None
    boot = _lines("/proc/sys/kernel/random/boot_id")
    try:
        return f"{boot[0]} {Path('/proc/self/ns/pid').readlink()}" if boot else None
    except OSError:
        return None


def start_of_process(process: int) -> str | None:
    """When a process started, in ticks since the boot; None also if there is none."""
    found = _lines(f"/proc/{process}/stat") if USES_LINUX_CALLS else []
    # The name before the bracket may have spaces.
    return found[0].rpartition(")")[2].split()[19] if found else None


def _of_machine() -> int | None:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _of_cgroup(limit: str, used: str, folder: str = "/sys/fs/cgroup") -> int | None:
    try:
        most, now = (int(Path(folder, name).read_text(encoding="ascii")) for name in (limit, used))
    except (OSError, ValueError):  # "max": without a limit.
        return None
    return max(most - now, 1) if most < _UNLIMITED else None


def _of_old_cgroup() -> int | None:
    return _of_cgroup("memory.limit_in_bytes", "memory.usage_in_bytes", "/sys/fs/cgroup/memory")


def _inodes(port: int) -> Iterator[str]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in _lines(table)[1:]:
            cells = line.split()
            if cells[3] == _LISTENS and int(cells[1].rpartition(":")[2], 16) == port:
                yield cells[9]


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
