"""What systemd is told about this process (sd_notify): one datagram per message, to the socket NOTIFY_SOCKET names.

Telling is for others' benefit only: without the variable nothing is sent, and what cannot be sent is dropped.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

MICROSECONDS = 1_000_000


class ServiceManager:
    """Whoever started this process and wants to know how it is."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog_s(environment) if self._address else None
        """Seconds within which a sign of life is expected; None when nobody waits for one."""

    def tell(self, **facts: str | int) -> None:
        """Send facts by their names: READY=1, STOPPING=1, STATUS=text, WATCHDOG=1."""
        if not self._address:
            return
        message = "\n".join(f"{name}={_one_line(value)}" for name, value in facts.items())
        # The manager may be gone or its queue full: neither is this broker's trouble.
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), self._address)


def send_without_waiting(descriptor: int, data: bytes) -> int:
    """Bytes of `data` that a stream socket takes now, which stays in the mode it is in; raises OSError.

    BlockingIOError when it takes none. systemd gives its services such sockets as standard error.
    """
    with socket.socket(fileno=os.dup(descriptor)) as connected:
        return connected.send(data, socket.MSG_DONTWAIT)


def _address(name: str) -> str:
    """A path, or a name without one (abstract: its @ stands for a zero byte); empty for what is neither."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else ""


def _watchdog_s(environment: Mapping[str, str]) -> float | None:
    """WATCHDOG_USEC, unless WATCHDOG_PID says that it is meant for another process."""
    meant_for = environment.get("WATCHDOG_PID", "")
    microseconds = environment.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or int(microseconds) == 0 or meant_for not in ("", str(os.getpid())):
        return None
    return int(microseconds) / MICROSECONDS


def _one_line(value: str | int) -> str:
    return str(value).replace("\n", " ")
