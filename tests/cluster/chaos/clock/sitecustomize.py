"""Imported by Python at its start where this folder is in PYTHONPATH: a wall clock that a file turns while it runs.

The file SORDINI_CHAOS_CLOCK holds the nanoseconds to add, as eight bytes. The monotonic clock stays as it is.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path

if path := os.environ.get("SORDINI_CHAOS_CLOCK"):
    with Path(path).open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 8)
    real_ns = time.time_ns

    def turned_ns() -> int:
        (more,) = struct.unpack("<q", shared)
        return real_ns() + int(more)

    time.time_ns = turned_ns
    time.time = lambda: turned_ns() / 1e9
