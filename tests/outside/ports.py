"""TCP ports for servers that need theirs before they start."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import tempfile
from pathlib import Path
from random import Random

# Below the range from which Linux takes the local ports of outgoing connections, so that none of
# these can land on a port between our finding it free and the server's listening on it.
_FIRST = 20_000
PORTS_END = 32_000
_choose = Random(os.getpid())  # Test runs beside each other look in different places first.
_given: set[int] = set()
_reservations = os.open(Path(tempfile.gettempdir(), f"sordini-test-ports-{os.getuid()}"), os.O_RDWR | os.O_CREAT, 0o600)
"""A file in which a process locks the byte of each port that it has returned. The locks end with the process."""


def free_port() -> int:
    """A free port of 127.0.0.1 that no running test process has returned before.

    A broker that was killed gets its port back when it starts again: no test beside this one may take it meanwhile.
    """
    for _ in range(1_000):
        port = _choose.randrange(_FIRST, PORTS_END)
        if port not in _given and _is_reserved_here(port):
            _given.add(port)
            if _is_free(port):
                return port
    raise RuntimeError(f"no free port between {_FIRST} and {PORTS_END}")


def _is_reserved_here(port: int) -> bool:
    """Reserve a port for this process; False when another process has it."""
    with contextlib.suppress(BlockingIOError, PermissionError):
        fcntl.lockf(_reservations, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        return True
    return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: a port whose last connections are in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def is_listening(port: int) -> bool:
    """Whether something accepts connections on 127.0.0.1:port now."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
