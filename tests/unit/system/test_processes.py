"""Processes, locks, signals and limits: both ways say the same of the same process."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.system.conftest import Load

LOCKS = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.write(descriptor, b"%d\\n" % os.getpid())
fcntl.lockf(descriptor, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""
LIMITS = """
import resource, sys
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
from sordini.system.processes import DESCRIPTORS_MAX, limit_address_space, raise_descriptor_limit
limit = raise_descriptor_limit()
limit_address_space(1 << 32)
print(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard, DESCRIPTORS_MAX, resource.getrlimit(resource.RLIMIT_AS)[0])
"""
PRIORITIES = """
import os, threading
from sordini.system.processes import lower_thread_priority
niceness = lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
found = [niceness()]
thread = threading.Thread(target=lambda: (lower_thread_priority(3), found.append(niceness())))
thread.start()
thread.join()
print(*found, niceness())
"""


@pytest.fixture
def processes(load: Load) -> ModuleType:
    return load("processes")


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that holds a lock on a file until its input ends."""
    path = tmp_path / "file"
    command = [sys.executable, "-c", LOCKS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        yield holder, path


def test_the_holder_of_a_lock_is_found_and_none_afterwards(
    processes: ModuleType, locked: tuple[subprocess.Popen[bytes], Path]
) -> None:
    holder, path = locked
    descriptor = os.open(path, os.O_RDONLY)
    assert processes.lock_holder(descriptor) == holder.pid
    holder.communicate()
    assert processes.lock_holder(descriptor) is None
    takes = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    subprocess.run([sys.executable, "-c", takes, str(path)], check=True)  # The question has left no lock.
    os.close(descriptor)


def test_a_process_ends_by_a_signal_even_before_its_parent_has_reaped_it(
    processes: ModuleType, locked: tuple[subprocess.Popen[bytes], Path]
) -> None:
    holder, _ = locked
    handle = processes.ProcessHandle(holder.pid)
    assert not handle.has_ended(0)
    handle.send_signal(signal.SIGKILL)
    assert handle.has_ended(20)
    assert holder.wait(20) == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        processes.ProcessHandle(holder.pid)
    with pytest.raises(ProcessLookupError):
        handle.send_signal(signal.SIGTERM)


def test_a_pending_signal_is_taken_and_only_one_that_is_waited_for(processes: ModuleType) -> None:
    numbers = {signal.SIGUSR1, signal.SIGUSR2}
    former = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        assert processes.wait_for_signal({signal.SIGUSR1}, 0.05) is None
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR2)  # Other threads do not block it.
        assert processes.wait_for_signal({signal.SIGUSR1}, 0.05) is None
        assert processes.wait_for_signal(numbers, 20) == signal.SIGUSR2
        assert processes.wait_for_signal(numbers, 0.05) is None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


@pytest.mark.parametrize("switch", ["", "1"])
def test_a_thread_lets_others_go_first_where_the_system_can_and_they_stay_as_they_are(switch: str) -> None:
    environment = {**os.environ, "SORDINI_PORTABLE": switch, "PYTHONPATH": os.pathsep.join(sys.path)}
    program = [sys.executable, "-c", PRIORITIES]
    ended = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    before, of_thread, of_main = map(int, ended.stdout.split())
    assert of_main == before
    assert of_thread == (before if switch else min(before + 3, 19))


@pytest.mark.parametrize("switch", ["", "1"])
def test_the_limit_of_descriptors_is_raised_as_far_as_the_system_lets(switch: str) -> None:
    environment = {**os.environ, "SORDINI_PORTABLE": switch, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", LIMITS], env=environment, check=True, capture_output=True, text=True)
    limit, soft, hard, most, address_space = map(int, ended.stdout.split())
    assert limit == soft
    if switch:
        assert limit == (most if hard == resource.RLIM_INFINITY else min(hard, most))
        assert address_space == resource.RLIM_INFINITY
    else:
        assert limit == hard
        assert address_space == 1 << 32
