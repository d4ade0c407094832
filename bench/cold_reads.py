"""Logs of which nothing is in the page cache: the kernel drops the clean pages of a file on request, without root."""

from __future__ import annotations

import os
from pathlib import Path


def drop_page_cache(partition: Path) -> None:
    """Write a partition's files to the disk, and drop their pages. Raises SystemExit where there is nothing to drop.

    Pages that a process has mapped stay; both brokers map indexes at most.
    """
    files = sorted(partition.glob("*.log"))
    if not files:
        raise SystemExit(f"{partition} holds no log")
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def disk_bytes(statistics: Path = Path("/proc/vmstat")) -> int:
    """What this machine has read from disks since its start."""
    for line in statistics.read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "pgpgin":
            return int(value) * 1_024
    raise SystemExit(f"{statistics} does not say what was read from disks")
