"""Calls on sockets that differ between systems.

what                        Linux                           elsewhere
send a part of a file       sendfile                        not used: SENDS_FILES is False, bytes are copied
sent, not yet acknowledged  ioctl SIOCOUTQ                  0: without sendfile nothing is sent by reference
more bytes follow           MSG_MORE                        no flag: perhaps one packet more
no signal from a broken one MSG_NOSIGNAL                    no flag: Python ignores SIGPIPE
idle time before probes     TCP_KEEPIDLE                    TCP_KEEPALIVE (macOS)
unacknowledged for too long TCP_USER_TIMEOUT                left to the system's retransmissions
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from typing import Final

from sordini.system.linux import USES_LINUX_CALLS

SENDS_FILES: Final = USES_LINUX_CALLS and hasattr(os, "sendfile")
MORE: Final[int] = getattr(socket, "MSG_MORE", 0) if USES_LINUX_CALLS else 0
NO_SIGNAL: Final[int] = getattr(socket, "MSG_NOSIGNAL", 0)

_SIOCOUTQ: Final[int] = 0x5411
_KEEP_IDLE: Final[int | None] = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))
_KEEP_INTERVAL: Final[int | None] = getattr(socket, "TCP_KEEPINTVL", None)
_KEEP_PROBES: Final[int | None] = getattr(socket, "TCP_KEEPCNT", None)
_USER_TIMEOUT: Final[int | None] = getattr(socket, "TCP_USER_TIMEOUT", None) if USES_LINUX_CALLS else None


def _no_sendfile(_descriptor: int, _source: int, _position: int, _size: int) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


send_file: Callable[[int, int, int, int], int] = os.sendfile if SENDS_FILES else _no_sendfile
"""Send from a file: socket, file, position, bytes at most; the bytes taken. Raises OSError."""


def unacknowledged_bytes(descriptor: int) -> int:
    """Bytes that were sent on a socket and not acknowledged. 0 where that is unknown."""
    if not SENDS_FILES:
        return 0
    try:
        answer = fcntl.ioctl(descriptor, _SIOCOUTQ, bytes(4))
    except OSError:
        return 0
    return int.from_bytes(answer, "little")


def liveness_options(idle_s: int, interval_s: int, probes: int, user_timeout_ms: int) -> Iterator[tuple[int, int]]:
    """The TCP options (number, value) by which a connection to a vanished peer ends; those that are 0 are left out."""
    for option, value in (
        (_KEEP_IDLE, idle_s),
        (_KEEP_INTERVAL, interval_s),
        (_KEEP_PROBES, probes),
        (_USER_TIMEOUT, user_timeout_ms),
    ):
        if option is not None and value > 0:
            yield option, value
