"""A broker in the background: forked away from its terminal, while whoever started it waits until it is ready.

    parent ── fork ──► child: setsid ── fork ──► daemon: the broker
       ▲                 └─ ends                    │ its own files in place of the terminal's
       └───────────── a pipe: "ready" or why not ───┘

The second fork gives the session's leader up, so that no terminal can become the daemon's. All of it happens before
there is a thread, a loop or an open file: a fork copies none of these in one piece. The file mode mask stays the
starter's, who may have chosen it; the working directory becomes the root, so relative paths are made absolute first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple, Protocol

from sordini.storage.disk import Disk

READY, FAILED = b"+", b"-"
REPORT_BYTES_MAX = 65_536  # What a pipe holds on Linux: the daemon never waits for its starter.


class StartReport(Protocol):
    """Who waits to hear how the start went; called once at the most."""

    def ready(self, line: str) -> None: ...

    def failed(self, line: str) -> None: ...


class StartOutcome(NamedTuple):
    """What the starter of a daemon learns."""

    is_ready: bool
    line: str
    """What the daemon said; empty when it ended without a word."""


class PipeReport:
    """The daemon's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def ready(self, line: str) -> None:
        self._tell(READY + line.encode())

    def failed(self, line: str) -> None:
        self._tell(FAILED + line.encode())

    def _tell(self, message: bytes) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            os.write(descriptor, message[:REPORT_BYTES_MAX])
        except BrokenPipeError:
            pass  # The starter was told to wait no longer; the broker runs all the same.
        finally:
            os.close(descriptor)


def detach(broker: Callable[[PipeReport], int]) -> StartOutcome | int:
    """Run `broker` in a daemon. The starter gets the StartOutcome; the daemon itself gets its broker's exit code."""
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
    # What the starter had open beside the three standard files is none of the daemon's.
    os.closerange(3, writing)
    os.closerange(writing + 1, os.sysconf("SC_OPEN_MAX"))
    return broker(PipeReport(writing))


def open_missing_standard_files(disk: Disk) -> None:
    """Give standard input, output and error a file each (/dev/null) where the starter closed them.

    Otherwise a log or a socket gets one of these numbers, and what is meant for a terminal is written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nothing = disk.open(os.devnull)
            if nothing.fileno() != number:
                os.dup2(nothing.fileno(), number)
                nothing.close()


def take_over_standard_files(disk: Disk, output: int) -> None:
    """Read nothing, and write what the interpreter itself has to say to the descriptor `output`."""
    nothing = disk.open(os.devnull, writable=False)
    os.dup2(nothing.fileno(), 0)
    nothing.close()
    redirect_output(output)


def redirect_output(output: int) -> None:
    """Make standard output and standard error the open file `output`."""
    os.dup2(output, 1)
    os.dup2(output, 2)


def _read_to_end(descriptor: int) -> bytes:
    """Until the other end is closed, however long the start takes."""
    found = bytearray()
    while chunk := os.read(descriptor, REPORT_BYTES_MAX):
        found += chunk
    os.close(descriptor)
    return bytes(found)


def _outcome(message: bytes) -> StartOutcome:
    return StartOutcome(message[:1] == READY, message[1:].decode(errors="replace"))
