"""What a machine has, read from the system: right where it can be seen, unknown elsewhere, and nothing is changed."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sordini.system import machine
from sordini.system.linux import USES_LINUX_CALLS

pytestmark = pytest.mark.skipif(not USES_LINUX_CALLS, reason="elsewhere all of it is unknown")


def test_the_limit_of_open_files_is_the_hard_one_and_is_not_raised() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = machine.descriptor_limit()
    assert limit == (None if before[1] == resource.RLIM_INFINITY else before[1])
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_the_file_system_of_a_path_is_that_of_the_mount_above_it() -> None:
    assert machine.file_system_of("/proc/self") == "proc"
    assert machine.file_system_of("/") == machine.file_system_of("/no/such/path")


def test_the_process_that_listens_on_a_port_is_found_and_one_that_is_connected_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = machine.port_holder(port)
        assert found is not None
        assert found[0] == os.getpid()
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert machine.port_holder(client.getsockname()[1]) is None
    assert machine.port_holder(port) is None


def test_available_memory_is_less_than_that_of_the_machine() -> None:
    available = machine.available_memory()
    assert available is not None
    assert 0 < available <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_whether_the_clock_is_kept_is_read_without_setting_it() -> None:
    assert machine.is_clock_kept() in (True, False, None)


def test_the_portable_ways_know_nothing_and_say_so(tmp_path: Path) -> None:
    program = (
        "from sordini.system import machine\n"
        "print(machine.available_memory(), machine.file_system_of('/'), machine.port_holder(1), machine.is_clock_kept())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "SORDINI_PORTABLE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["None"] * 4
