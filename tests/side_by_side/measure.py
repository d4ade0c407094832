"""One attack on one broker: its answers, what it costs, and how long an honest neighbour waits meanwhile."""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple, Self

from bench.procfs import cpu_seconds, resident_bytes
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.messages.api_versions import ApiVersionsRequest
from tests.outside.processes import BrokerProcess
from tests.side_by_side.cases import Case, Size
from tests.support.wire_client import Client

NEIGHBOUR_PAUSE_S: Final = 0.003
NEIGHBOUR_PATIENCE_S: Final = 60.0
SAMPLE_S: Final = 0.05
QUIET_CORES: Final = 0.3
"""Below this the broker is taken to have ended what the attack had it do; the neighbour's requests cost less."""
QUIET_S: Final = 0.5
SETTLE_S_MAX: Final = 20.0


class Figures(NamedTuple):
    """What an attack did to a broker."""

    outcome: str
    took_s: float
    """Until the last answer."""
    cpu_s: float
    """Of the broker and its children, the neighbour's requests included."""
    waited_s: float
    """The longest that the neighbour waited."""
    served: int
    """Requests of the neighbour that were answered before the attack's last answer was there."""
    grown_bytes: int
    """Resident memory at its highest, less what it was before."""


class Neighbour(threading.Thread):
    """Asks a small question every few milliseconds on a connection of its own."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client = Client("127.0.0.1", port, NEIGHBOUR_PATIENCE_S)
        self._is_over = threading.Event()
        self.served = 0
        self.waited_s = 0.0
        self.began_s = time.monotonic()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self.join(NEIGHBOUR_PATIENCE_S)
        self._client.socket.close()

    def run(self) -> None:
        try:
            while not self._is_over.is_set():
                self.began_s = time.monotonic()
                self._client.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
                self.waited_s = max(self.waited_s, time.monotonic() - self.began_s)
                self.served += 1
                self._is_over.wait(NEIGHBOUR_PAUSE_S)
        except OSError:  # The broker has ended, or does not respond.
            self.waited_s = max(self.waited_s, time.monotonic() - self.began_s)


class Memory(threading.Thread):
    """Samples a broker's resident memory."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._is_over = threading.Event()
        self.before = self.highest = resident_bytes(pid)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self.join()

    def run(self) -> None:
        while not self._is_over.wait(SAMPLE_S):
            self.highest = max(self.highest, resident_bytes(self._pid))


def attack(broker: BrokerProcess, case: Case, size: Size, *, settles: bool = True) -> Figures:
    """Prepare, attack, and wait until the broker has done what comes of it (`settles`). Bounded in time."""
    with Client("127.0.0.1", broker.port) as client:
        case.prepare(client, size)
    frames = case.frames(size)
    if settles:
        _settle(broker)
    began, cpu_before = time.monotonic(), cpu_seconds(broker.pid)
    cpu_s = 0.0
    with Memory(broker.pid) as memory, Neighbour(broker.port) as neighbour:
        while neighbour.is_alive() and neighbour.served == 0:
            time.sleep(SAMPLE_S / 10)
        served = neighbour.served
        answers = case.send(broker.port, frames)
        took_s, served = time.monotonic() - began, neighbour.served - served
        if settles:
            _settle(broker)
        if broker.is_running:
            cpu_s = cpu_seconds(broker.pid) - cpu_before
    return Figures(
        case.outcome(frames, answers), took_s, cpu_s, neighbour.waited_s, served, memory.highest - memory.before
    )


def _settle(broker: BrokerProcess) -> None:
    """Return when the broker has been quiet for a while, has ended, or the patience is over."""
    deadline = time.monotonic() + SETTLE_S_MAX
    while broker.is_running and time.monotonic() < deadline:
        try:
            before = cpu_seconds(broker.pid)
            time.sleep(QUIET_S)
            if cpu_seconds(broker.pid) - before < QUIET_CORES * QUIET_S:
                return
        except (AssertionError, OSError):  # It has ended meanwhile.
            return
