"""Calls on processes, their locks, signals and limits that differ between systems.

what                        Linux                           elsewhere
a process that may end      pidfd                           its number, and `ps` for one that has ended unreaped
which process holds a lock  fcntl F_GETLK                   a shared lock is tried; the number is read from the file
wait for a signal, at most  sigtimedwait                    sigpending every STEP_S
limit of descriptors        the hard limit                  DESCRIPTORS_MAX: macOS refuses its own hard limit
limit of address space      RLIMIT_AS                       none: macOS does not keep to it
priority of a thread        setpriority of its number       none: it would be that of the whole process
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import select
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Final

from sordini.system.linux import USES_LINUX_CALLS

STEP_S: Final = 0.02
SIGNALS_TOGETHER_MS: Final = 500
"""GNU timeout signals its child and then the process group that the child is in. A terminal sends Ctrl-C to a whole
group, and a wrapper in it passes its own one on. By hand a second signal comes later."""
DESCRIPTORS_MAX: Final = 10_240
"""OPEN_MAX of macOS: a soft limit above it is refused, also below an unlimited hard one."""

_FLOCK: Final = struct.Struct("@hhqqi0q")  # Linux's struct flock on 64 bits: type, whence, start, length, process.
_PROCESS_ID_BYTES_MAX: Final = 64


class ProcessHandle:
    """A process of this machine. Where there are pidfds it never refers to a later process of the same number."""

    def __init__(self, process_id: int) -> None:
        """Raises ProcessLookupError when there is none, and OSError."""
        self._process_id = process_id
        self._descriptor: int | None = None
        if USES_LINUX_CALLS:
            self._descriptor = os.pidfd_open(process_id)
        elif not _is_running(process_id):
            raise ProcessLookupError

    def send_signal(self, number: signal.Signals) -> None:
        """Raises ProcessLookupError when it has ended, PermissionError when it is another user's."""
        if self._descriptor is None:
            os.kill(self._process_id, number)
        else:
            signal.pidfd_send_signal(self._descriptor, number)

    def has_ended(self, timeout_s: float) -> bool:
        """Wait at most so long for its end."""
        if self._descriptor is None:
            return _waited(lambda: not _is_running(self._process_id), timeout_s)
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        return bool(waiting.poll(timeout_s * 1000))


def lock_holder(descriptor: int) -> int | None:
    """The other process that holds a POSIX lock on a file; None without one, 0 when its number is unknown.

    The file holds that number as text. Not for a file on which this process has a lock: it would be lost.
    """
    if USES_LINUX_CALLS:
        query = _FLOCK.pack(fcntl.F_WRLCK, 0, 0, 0, 0)
        kind, _, _, _, process_id = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
        return None if kind == fcntl.F_UNLCK else int(process_id)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        text = os.pread(descriptor, _PROCESS_ID_BYTES_MAX, 0).strip()
        return int(text) if text.isdigit() else 0
    fcntl.lockf(descriptor, fcntl.LOCK_UN)
    return None


def is_repeated(first_ms: int, now_ms: int) -> bool:
    """Whether a signal to stop repeats an earlier one, and is no second request."""
    return now_ms - first_ms < SIGNALS_TOGETHER_MS


def wait_for_signal(numbers: AbstractSet[signal.Signals], timeout_s: float) -> int | None:
    """Wait for one of some blocked signals; None after `timeout_s`."""
    if USES_LINUX_CALLS:
        found = signal.sigtimedwait(numbers, timeout_s)
        return None if found is None else found.si_signo
    if _waited(lambda: bool(signal.sigpending() & numbers), timeout_s):
        return signal.sigwait(numbers)
    return None


def raise_descriptor_limit() -> int:
    """Raise the soft limit on descriptors as far as this process may; the limit in force, or RLIM_INFINITY."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if USES_LINUX_CALLS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    most = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft


def omit_core_dumps() -> None:
    """For a process that foreign bytes may end: each such end would otherwise leave a file of its memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_address_space(bytes_max: int) -> None:
    """End larger allocations of this process with MemoryError, where the system can."""
    if USES_LINUX_CALLS:
        resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))


def lower_thread_priority(niceness: int) -> None:
    """Let other threads, of this process too, go before the calling one, where the system can.

    `niceness` is added to that of the process, and counts as nice(1) says: 1 is a little, 19 the most.
    """
    if USES_LINUX_CALLS:
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):  # It matters to speed alone.
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + niceness)


def _waited(condition: Callable[[], bool], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= end_s:
            return False
        time.sleep(STEP_S)
    return True


def _is_running(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # It is another user's.
    with contextlib.suppress(OSError):  # Without `ps`, one that its parent has not reaped counts as running.
        listed = subprocess.run(  # noqa: S603
            ["ps", "-o", "stat=", "-p", str(process_id)],  # noqa: S607 - wherever the system has it.
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        return listed.returncode == 0 and not listed.stdout.strip().startswith(b"Z")
    return True
