"""What this process has done so far, counted: a test of growth compares counts, as times vary with the machine."""

from __future__ import annotations

from pathlib import Path


def bytes_moved() -> int:
    """Bytes that this process has read and written by system calls, of all files and sockets."""
    lines = (line.split(": ") for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines())
    return sum(int(value) for name, value in lines if name in {"rchar", "wchar"})
