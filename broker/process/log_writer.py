"""Writes log lines to a descriptor that may be a pipe without a reader, a full disk or a closed terminal.

The loop writes log lines, so a write must never block. A line is written directly when the descriptor accepts it
without blocking; otherwise it goes into a bounded buffer that a thread drains. The thread only waits in write(2).
Lines keep their order. When the buffer is full a line is dropped and counted, and the count is written as a line as
soon as there is space.

How a descriptor is written to without blocking depends on its type:

    a regular file         write(2): the page cache takes it
    a socket (journald)    send(2) with MSG_DONTWAIT
    a pipe, FIFO, terminal write(2) on a second open file of it that does not block (`open_again_without_blocking`);
                           O_NONBLOCK on the first one would affect every process that shares it, such as the shell
    anything else          the thread
"""

from __future__ import annotations

import atexit
import os
import signal
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO, cast

from sordini.broker.network.sd_notify import send_without_waiting
from sordini.system.files import open_again_without_blocking
from sordini.system.named_tuple import NamedTuple

BUFFER_BYTES_MAX: Final = 1024 * 1024
"""Bytes of log lines that wait for their reader; beyond this, lines are dropped and counted."""

CLOSE_S: Final = 1.0
"""How long the exit of the process waits, for each output, until the last lines are written."""


FORCED_EXIT_S: Final = 0.2
"""The same, for a forced exit."""


class _Chunk(NamedTuple):
    data: bytes
    dropped: int
    """How many dropped lines it reports."""


class LogWriter:
    """Writes text to a descriptor without blocking; also replaces `sys.stderr`."""

    encoding = "utf-8"
    errors = "backslashreplace"
    closed = False

    def __init__(self, descriptor: Callable[[], int], bytes_max: int = BUFFER_BYTES_MAX) -> None:
        """`descriptor` is called at each write, because a log file's changes when it is reopened."""
        self._descriptor = descriptor
        self._bytes_max = bytes_max
        self._changed = threading.Condition(threading.RLock())  # A signal handler may write inside a write.
        self._queue: deque[_Chunk] = deque()
        self._queued_bytes = 0
        self._is_writing = False
        """Whether the thread is writing."""
        self._thread: threading.Thread | None = None
        self._write_now: Callable[[bytes], int] = _would_block
        self._known: tuple[int, int, int] | None = None
        """Descriptor, device and inode of what `_write_now` writes to."""
        self._second: int | None = None
        self._is_torn = False
        """Whether the last line was written in part."""
        self._dropped = 0
        self.lines_lost = 0
        """Lines dropped since the start."""
        self.dropped_line: Callable[[int], str] = "{} log lines dropped\n".format
        """The line that says how many were dropped."""

    def write(self, text: str, /) -> int:
        """Write or buffer text, one or more whole lines, or drop it. Never blocks, never raises OSError."""
        line = text.encode(errors="backslashreplace")
        with self._changed:
            if self._queue and self._queued_bytes + len(line) > self._bytes_max:
                self._lose()
                return len(text)
            chunk = self._chunk(line)
            if self._queue or self._is_writing:
                self._enqueue(chunk)
                return len(text)
            try:
                written = self._write_directly(chunk.data)
            except OSError:
                self._lose()
                return len(text)
            if written < len(chunk.data):
                self._enqueue(chunk._replace(data=chunk.data[written:]))
            else:
                self._dropped -= chunk.dropped
        return len(text)

    def flush(self) -> None:
        """Nothing to do: written text is with the system or the thread."""

    def isatty(self) -> bool:
        try:
            return os.isatty(self._descriptor())
        except OSError:
            return False

    def fileno(self) -> int:
        return self._descriptor()

    def writable(self) -> bool:
        return True

    def close(self, deadline_s: float = CLOSE_S) -> None:
        """Wait until everything is written, `deadline_s` at most. Later writes are still possible."""
        if not self._changed.acquire(timeout=deadline_s):
            return  # A write to a file hangs with its disk.
        try:
            self._changed.wait_for(lambda: not self._queue and not self._is_writing, deadline_s)
        finally:
            self._changed.release()

    def _lose(self) -> None:
        self._dropped += 1
        self.lines_lost += 1

    def _chunk(self, line: bytes) -> _Chunk:
        """A line, after the one that reports lines dropped since the last report."""
        if not self._dropped:
            return _Chunk(line, 0)
        return _Chunk(self.dropped_line(self._dropped).encode(errors="backslashreplace") + line, self._dropped)

    def _write_directly(self, data: bytes) -> int:
        """Write what can be written without blocking; returns the number of bytes. Raises OSError."""
        write = self._current_write()
        try:
            if self._is_torn and write(b"\n"):
                self._is_torn = False
            return write(data)
        except BlockingIOError:
            return 0

    def _current_write(self) -> Callable[[bytes], int]:
        """The non-blocking write for the descriptor's current file."""
        descriptor = self._descriptor()
        found = os.fstat(descriptor)
        if self._known != (descriptor, found.st_dev, found.st_ino):
            self._known = (descriptor, found.st_dev, found.st_ino)
            if self._second is not None:
                os.close(self._second)
            self._second = None
            self._write_now = self._write_function(descriptor, found.st_mode)
        return self._write_now

    def _write_function(self, descriptor: int, mode: int) -> Callable[[bytes], int]:
        if stat.S_ISREG(mode):
            return lambda data: os.write(descriptor, data)
        if stat.S_ISSOCK(mode):
            return lambda data: send_without_waiting(descriptor, data)
        try:
            second = self._second = open_again_without_blocking(descriptor)
        except OSError:
            return _would_block
        return lambda data: os.write(second, data)

    def _enqueue(self, chunk: _Chunk) -> None:
        self._dropped -= chunk.dropped
        self._queue.append(chunk)
        self._queued_bytes += len(chunk.data)
        if self._thread is None:
            self._thread = threading.Thread(target=self._drain, name="sordini-log", daemon=True)
            # The signal thread handles all signals; this thread must receive none.
            former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                self._thread.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, former)
        self._changed.notify_all()

    def _drain(self) -> None:
        """The thread: writes one chunk after the other, until the process ends."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue)
                chunk = self._queue.popleft()
                self._is_writing = True
                try:
                    # A duplicate: the file may be reopened, and the descriptor reused, while this write blocks.
                    descriptor = os.dup(self._descriptor())
                except OSError:
                    descriptor = -1
            is_written = self._write_all(descriptor, chunk.data)
            with self._changed:
                self._is_writing = False
                self._queued_bytes -= len(chunk.data)
                if not is_written:
                    self._dropped += chunk.dropped
                    self._lose()
                elif not self._queue and self._dropped:
                    self._enqueue(self._chunk(b""))
                self._changed.notify_all()

    def _write_all(self, descriptor: int, data: bytes) -> bool:
        """Write a chunk, blocking; whether it was written completely."""
        if descriptor < 0:
            return False
        left = b"\n" + data if self._is_torn else data
        size = len(left)
        try:
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError:
            self._is_torn = self._is_torn or len(left) < size
            return False
        finally:
            os.close(descriptor)
        self._is_torn = False
        return True


_writers: list[LogWriter] = []
"""The writers of the process's outputs."""


def standard_output() -> LogWriter:
    """A writer to standard output; the process waits for it at exit, with a deadline."""
    return _waited_for_at_exit(LogWriter(lambda: 1))


def standard_error() -> LogWriter:
    """A writer to standard error, which replaces `sys.stderr`.

    So output of the interpreter and of libraries (a traceback, a warning) does not block either.
    """
    writer = _waited_for_at_exit(LogWriter(lambda: 2))
    sys.stderr = cast("TextIO", writer)
    return writer


def file_output(descriptor: Callable[[], int]) -> LogWriter:
    """A writer to a log file; the process waits for it at exit, with a deadline."""
    return _waited_for_at_exit(LogWriter(descriptor))


def write_before_exit(line: str) -> None:
    """Write a line to standard error right before a forced exit; waits FORCED_EXIT_S at
    most for the lines before it and for itself.
    """
    for writer in _writers:
        writer.close(FORCED_EXIT_S)
    last = LogWriter(lambda: 2)
    last.write(line)
    last.close(FORCED_EXIT_S)


def _waited_for_at_exit(writer: LogWriter) -> LogWriter:
    atexit.register(writer.close)
    _writers.append(writer)
    return writer


def _would_block(_data: bytes) -> int:
    """For a descriptor that cannot be written to without blocking."""
    raise BlockingIOError
