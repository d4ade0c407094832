"""What the client processes share: their orders, their history, and how they are stopped."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, MappingProxyType
from typing import Any, Final, NamedTuple

from tests.cluster.chaos.events import Recorder

CLIENT: Final[dict[str, Any]] = {
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 2_000,
    "topic.metadata.refresh.fast.interval.ms": 100,
    "socket.connection.setup.timeout.ms": 2_000,
    "socket.timeout.ms": 4_000,
    "log_level": 0,
}
"""librdkafka's settings, so that it detects within seconds what happens here within seconds."""


class Orders(NamedTuple):
    """What one client process shall do; `others` are partitions that it looks at beside its own.

    `security` says how it connects, in librdkafka's names; nothing for brokers without TLS and users.
    """

    name: str
    bootstrap: list[str]
    partitions: list[str]
    history: str
    per_second: int = 0
    others: Sequence[str] = ()
    transactional_id: str = ""
    security: Mapping[str, str] = MappingProxyType({})

    @property
    def connection(self) -> dict[str, str]:
        """How librdkafka finds the brokers."""
        return {"bootstrap.servers": ",".join(self.bootstrap), **self.security}

    @property
    def topics(self) -> list[str]:
        return sorted({split(tp)[0] for tp in self.partitions})


def split(tp: str) -> tuple[str, int]:
    """Topic and number of `topic-3`."""
    topic, _, number = tp.rpartition("-")
    return topic, int(number)


def key_of(value: bytes | None) -> str:
    """What identifies a record: the first word of its value."""
    return (value or b"").partition(b" ")[0].decode("ascii", errors="backslashreplace")


class Working:
    """A process at work: true until SIGTERM."""

    def __init__(self) -> None:
        self.orders = Orders(**json.loads(sys.argv[1]))
        self.recorder = Recorder(Path(self.orders.history))
        self._goes_on = True
        signal.signal(signal.SIGTERM, self._enough)

    def __bool__(self) -> bool:
        return self._goes_on

    def _enough(self, number: int, frame: FrameType | None) -> None:
        self._goes_on = False


class Pace:
    """So many per second, caught up with after a stall of at most a second."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._last = time.monotonic()
        self._owed = 0.0

    def due(self) -> int:
        now = time.monotonic()
        self._owed = min(self._owed + (now - self._last) * self._per_second, self._per_second)
        self._last = now
        whole = int(self._owed)
        self._owed -= whole
        return whole
