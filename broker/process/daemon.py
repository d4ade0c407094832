"""A broker in the background: detached from its terminal, while the starting process waits until it is ready.

    parent ── fork ──► child: setsid ── fork ──► daemon: the broker
       ▲                 └─ ends                    │ its own files in place of the terminal's
       └──────── a pipe: "ready" or the reason ─────┘

After the second fork the daemon is not a session leader, so it cannot acquire a terminal. All of it happens before
there is a thread, a loop or an open file, which a fork would not copy completely. The file mode mask stays the
starter's; the working directory becomes the root, so relative paths are made absolute first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Protocol

from sordini.storage.disk import Disk
from sordini.system.named_tuple import NamedTuple

READY, FAILED = b"+", b"-"
REPORT_BYTES_MAX = 65_536  # The capacity of a pipe on Linux: the daemon never waits for its starter.


class StartReport(Protocol):
    """Receives the result of the start; called once at most."""

    def ready(self, line: str) -> None: ...

    def failed(self, line: str) -> None: ...


class StartOutcome(NamedTuple):
    """The result of a daemon's start."""

    is_ready: bool
    line: str
    """The daemon's message; empty when it ended without one."""


class PipeReport:
    """Writes the result to the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ready(self, line: str) -> None:
        descriptor = self._write(READY + line.encode())
        if descriptor is not None:
            os.close(descriptor)

    def failed(self, line: str) -> None:
        """The pipe stays open until the process ends, so that the starter returns when its files are removed."""
        self._write(FAILED + line.encode())

    def _write(self, message: bytes) -> int | None:
        """Write the one message; returns the pipe, or None where there was one before."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return None
        with contextlib.suppress(BrokenPipeError):  # The starter was interrupted; the broker keeps running.
            os.write(descriptor, message[:REPORT_BYTES_MAX])
        return descriptor


def detach(broker: Callable[[PipeReport], int]) -> StartOutcome | int:
    """Run `broker` in a daemon. Returns the StartOutcome in the starter, and the broker's exit code in the daemon."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        os.waitpid(child, 0)
        return _outcome(_read_to_end(reading))
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    # The daemon inherits no open files but the three standard ones.
    os.closerange(3, writing)
    os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
    return broker(PipeReport(writing))


def open_missing_standard_files(disk: Disk) -> None:
    """Open /dev/null as standard input, output or error where the starter closed them.

    Otherwise a log or a socket gets one of these descriptors, and output for a terminal is written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            null = disk.open(os.devnull)
            if null.fileno() != number:
                os.dup2(null.fileno(), number)
                null.close()


def take_over_standard_files(disk: Disk, output: int) -> None:
    """Make /dev/null standard input, and the descriptor `output` standard output and standard error."""
    null = disk.open(os.devnull, writable=False)
    os.dup2(null.fileno(), 0)
    null.close()
    redirect_output(output)


def redirect_output(output: int) -> None:
    """Make standard output and standard error the open file `output`."""
    os.dup2(output, 1)
    os.dup2(output, 2)


def _read_to_end(descriptor: int) -> bytes:
    """Until the daemon closes the pipe, however long the start takes."""
    found = bytearray()
    while chunk := os.read(descriptor, REPORT_BYTES_MAX):
        found += chunk
    os.close(descriptor)
    return bytes(found)


def _outcome(message: bytes) -> StartOutcome:
    return StartOutcome(message[:1] == READY, message[1:].decode(errors="replace"))
